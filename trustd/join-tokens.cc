#include "trustd/join-tokens.h"

#include "common/base/error.h"
#include "common/base/within.h"

namespace talos::trustd {
namespace {

using Found = rpc::JoinTokens::Found;

ShownToken::State stateOf(Found::State state) {
  switch (state) {
    case Found::State::UNKNOWN:
      return ShownToken::State::kUnknown;
    case Found::State::UNUSED:
      return ShownToken::State::kUnused;
    case Found::State::USED:
      return ShownToken::State::kUsed;
    case Found::State::EXPIRED:
      return ShownToken::State::kExpired;
    case Found::State::REVOKED:
      return ShownToken::State::kRevoked;
  }
  return ShownToken::State::kUnknown;  // a state of a later version: grants nothing
}

ShownToken shown(kj::StringPtr id, Found::Reader found) {
  return {.state = stateOf(found.getState()),
          .id = kj::str(id),
          .hostname = kj::str(found.getHostname()),
          .fingerprint = kj::str(found.getFingerprint()),
          .since = kj::UNIX_EPOCH + found.getSince() * kj::SECONDS};
}

template <typename Answer>
kj::Promise<ShownToken> awaited(kj::Timer& timer, kj::String id,
                                capnp::RemotePromise<Answer> call) {
  ShownToken result;
  kj::Promise<void> done =
      call.then([&](capnp::Response<Answer>&& answer) { result = shown(id, answer.getToken()); });
  co_await within(timer, StoredJoinTokens::kTimeout, kj::mv(done),
                  kj::str("no answer within ", StoredJoinTokens::kTimeout))
      .catch_([&](kj::Exception&& e) {
        result.state = ShownToken::State::kUnverified;
        result.id = kj::str(id);
        result.error = messageOf(e);
      });
  co_return kj::mv(result);
}

}  // namespace

rpc::JoinTokens::Client StoredJoinTokens::stored() {
  return machined.joinTokensRequest().send().getTokens();
}

kj::Promise<ShownToken> StoredJoinTokens::find(kj::StringPtr token) {
  auto id = KJ_UNWRAP_OR_RETURN(joinTokenId(token), ShownToken());
  auto request = stored().findRequest();
  request.setId(id);
  request.setDigest(joinTokenDigest(token));
  return awaited<rpc::JoinTokens::FindResults>(timer, kj::mv(id), request.send());
}

kj::Promise<ShownToken> StoredJoinTokens::spend(kj::StringPtr token, kj::StringPtr fingerprint,
                                                kj::StringPtr usedBy) {
  auto id = KJ_UNWRAP_OR_RETURN(joinTokenId(token), ShownToken());
  auto request = stored().spendRequest();
  request.setId(id);
  request.setDigest(joinTokenDigest(token));
  request.setFingerprint(fingerprint);
  request.setUsedBy(usedBy);
  return awaited<rpc::JoinTokens::SpendResults>(timer, kj::mv(id), request.send());
}

}  // namespace talos::trustd
