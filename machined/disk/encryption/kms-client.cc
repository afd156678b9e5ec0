#include "machined/disk/encryption/kms-client.h"

#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/memory/secret-array.h"
#include "common/net/http-url.h"
#include "machined/confined/parser-client/http-connect.h"
#include "machined/disk/encryption/node-id-passphrase.h"

namespace talos::machined {

kj::Promise<kj::Array<kj::byte>> NetworkKms::ask(kj::String endpoint, bool beforeConfig,
                                                 Question question) {
  auto parsed = parseGrpcEndpoint(endpoint);
  if (parsed == nullptr) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("\"", endpoint, "\" is not a valid endpoint of a key server"));
  }
  auto& at = KJ_ASSERT_NONNULL(parsed);
  auto uuid = deps.uuid();
  KJ_IF_MAYBE (weakness, weaknessOf(uuid)) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("a key server knows machines by their UUIDs: ", *weakness));
  }
  HttpSource place;
  place.host = kj::str(at.host);
  place.port = at.port;
  HttpProgress progress;
  auto calling = [&]() -> kj::Promise<kj::Array<kj::byte>> {
    auto stream = co_await connectTo({deps.network, deps.timer, deps.resolve}, place, progress);
    kj::String authorities;
    if (at.secure) authorities = co_await deps.authorities(beforeConfig);
    KmsCall call{.secure = at.secure,
                 .host = at.host,
                 .authority = at.authority,
                 .authorities = authorities,
                 .node = uuid,
                 .secret = question.secret,
                 .userData = question.userData};
    co_return co_await deps.foreign.kms(kj::mv(stream), call, progress);
  };
  auto late = deps.timer.afterDelay(deps.timeout).then([&]() -> kj::Array<kj::byte> {
    fail(ErrorKind::kUnavailable,
         kj::str("no answer within ", deps.timeout / kj::SECONDS, " s: ", progress.doing));
  });
  co_return co_await kj::evalNow(calling)
      .exclusiveJoin(kj::mv(late))
      .catch_([&](kj::Exception&& e) -> kj::Array<kj::byte> {
        // A token that is not valid stays so; for all else another try may help.
        bool final = question.userData.size() > 0 && kindOf(e) == ErrorKind::kFailedPrecondition;
        fail(final ? ErrorKind::kFailedPrecondition : ErrorKind::kUnavailable,
             kj::str("the key server ", at.authority, ": ", httpReason(e, progress)));
      });
}

kj::Promise<kj::String> NetworkKms::seal(KmsServer server, kj::ArrayPtr<const kj::byte> secret) {
  auto sealed = co_await ask(kj::str(server.endpoint), server.beforeConfig,
                             {secretArray(secret), kj::String()});
  co_return kj::str(R"({"sealedData":")", kj::encodeBase64(sealed), "\"}");
}

kj::Promise<kj::Array<kj::byte>> NetworkKms::unseal(KmsServer server, kj::StringPtr userData) {
  if (userData.size() == 0) {
    fail(ErrorKind::kFailedPrecondition, "the header has no sealed key in the token of its slot");
  }
  co_return co_await ask(kj::str(server.endpoint), server.beforeConfig,
                         {nullptr, kj::str(userData)});
}

}  // namespace talos::machined
