#include "etcd-supervisor/tokens/token-record.h"

#include <capnp/serialize.h>
#include <openssl/crypto.h>
#include <string.h>

#include "common/base/date.h"
#include "common/base/error.h"

namespace talos::supervisor {
namespace {

using State = rpc::Etcd::JoinToken::State;

constexpr size_t kDigest = 32;
constexpr int64_t kLastTime = 9'000'000'000;  // s since 1970, in the year 2255: a date holds it

bool hasDigest(rpc::JoinTokenRecord::Reader record, kj::ArrayPtr<const kj::byte> given) {
  static const kj::byte kNone[kDigest] = {};
  auto right = record.getDigest();
  bool whole = right.size() == kDigest && given.size() == kDigest;
  // Compared also when there is nothing to compare with.
  bool same =
      CRYPTO_memcmp(whole ? right.begin() : kNone, whole ? given.begin() : kNone, kDigest) == 0;
  return whole && same;
}

bool hasTimes(rpc::JoinTokenRecord::Reader record) {
  for (auto at :
       {record.getCreated(), record.getEnds(), record.getUsedAt(), record.getRevokedAt()}) {
    if (at < 0 || at > kLastTime) return false;
  }
  return true;
}

int64_t since(rpc::JoinTokenRecord::Reader record, State state) {
  if (state == State::REVOKED) return record.getRevokedAt();
  return state == State::USED ? record.getUsedAt() : record.getEnds();
}

}  // namespace

TokenRecord TokenRecord::parse(kj::StringPtr bytes) {
  auto invalid = [](kj::StringPtr error) {
    fail(ErrorKind::kInvalidArgument, kj::str("not a valid record of a join token: ", error));
  };
  if (bytes.size() > kMostTokenRecord || bytes.size() % sizeof(capnp::word) != 0) {
    invalid(kj::str("it has ", bytes.size(), " bytes"));
  }
  auto words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
  if (words.size() > 0) memcpy(words.begin(), bytes.begin(), bytes.size());
  TokenRecord record;
  auto failure = kj::runCatchingExceptions([&] {
    capnp::FlatArrayMessageReader reader(
        words, {.traversalLimitInWords = 2 * kMostTokenRecord / sizeof(capnp::word)});
    record.message = kj::heap<capnp::MallocMessageBuilder>(kWords);
    record.message->setRoot(reader.getRoot<rpc::JoinTokenRecord>());
    // Copying reads fields that were not validated yet: a text without an end is an error only when
    // it is read.
    auto copy = record.get();
    (void)copy.getHostname();
    (void)copy.getCreatedBy();
    (void)copy.getUsedBy();
    (void)copy.getFingerprint();
    (void)copy.getDigest();
  });
  KJ_IF_MAYBE (e, failure) invalid(messageOf(*e));
  if (record.get().getDigest().size() != kDigest) invalid("it has no digest");
  if (!hasTimes(record.get())) invalid("a time is before 1970 or after 2255");
  return record;
}

kj::String TokenRecord::bytes() const {
  // A copy, so that data that a change has left in the message is not stored.
  capnp::MallocMessageBuilder one(kWords);
  one.setRoot(get());
  return kj::heapString(capnp::messageToFlatArray(one).asChars());
}

State stateOf(rpc::JoinTokenRecord::Reader record, int64_t now) {
  if (record.getRevokedAt() != 0) return State::REVOKED;
  if (record.getUsedAt() != 0) return State::USED;
  return record.getEnds() <= now ? State::EXPIRED : State::UNUSED;
}

kj::String secondsText(int64_t at) {
  return at == 0 ? kj::String() : dateText(kj::UNIX_EPOCH + at * kj::SECONDS);
}

void fillToken(rpc::Etcd::JoinToken::Builder out, kj::StringPtr id,
               rpc::JoinTokenRecord::Reader record, int64_t now) {
  out.setId(id);
  out.setHostname(record.getHostname());
  out.setState(stateOf(record, now));
  out.setCreated(secondsText(record.getCreated()));
  out.setEnds(secondsText(record.getEnds()));
  out.setCreatedBy(record.getCreatedBy());
  out.setUsedAt(secondsText(record.getUsedAt()));
  out.setUsedBy(record.getUsedBy());
  out.setFingerprint(record.getFingerprint());
  out.setRevokedAt(secondsText(record.getRevokedAt()));
  out.setRecovered(record.getRecovered());
}

void fillFound(rpc::JoinTokens::Found::Builder out, kj::Maybe<const TokenRecord&> record,
               kj::ArrayPtr<const kj::byte> digest, int64_t now) {
  using Found = rpc::JoinTokens::Found::State;
  static const TokenRecord kNone;
  auto stored = record.orDefault(kNone).get();
  out.setState(Found::UNKNOWN);
  if (!hasDigest(stored, digest)) return;
  auto state = stateOf(stored, now);
  switch (state) {
    case State::UNUSED:
      out.setState(Found::UNUSED);
      break;
    case State::USED:
      out.setState(Found::USED);
      break;
    case State::EXPIRED:
      out.setState(Found::EXPIRED);
      break;
    case State::REVOKED:
      out.setState(Found::REVOKED);
      break;
  }
  out.setHostname(stored.getHostname());
  out.setFingerprint(stored.getFingerprint());
  out.setSince(since(stored, state));
}

kj::Maybe<int64_t> endedAt(rpc::JoinTokenRecord::Reader record, int64_t now) {
  auto state = stateOf(record, now);
  if (state == State::UNUSED || state == State::USED) return nullptr;
  return since(record, state);
}

bool isForgotten(rpc::JoinTokenRecord::Reader record, int64_t now) {
  KJ_IF_MAYBE (ended, endedAt(record, now)) return *ended + kTokenRemembered <= now;
  return false;
}

}  // namespace talos::supervisor
