// A join token as a caller of trustd shows it, and its record as etcd has it: both are read before
// their writers are known.
//
// link: etcd-supervisor-tokens
#include <stdlib.h>

#include "common/base/error.h"
#include "common/base/join-token.h"
#include "etcd-supervisor/tokens/token-record.h"

using namespace talos;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto text = kj::heapString(reinterpret_cast<const char*>(data), size);
  KJ_IF_MAYBE (id, joinTokenId(text)) {
    if (!isJoinTokenLike(text) || !isJoinTokenId(*id)) abort();
  }
  kj::Maybe<supervisor::TokenRecord> record;
  auto failure = kj::runCatchingExceptions([&] { record = supervisor::TokenRecord::parse(text); });
  KJ_IF_MAYBE (e, failure) {
    if (kindOf(*e) != ErrorKind::kInvalidArgument) abort();
    return 0;
  }
  auto& parsed = KJ_ASSERT_NONNULL(record);
  for (int64_t now : {int64_t(0), int64_t(1'800'000'000)}) {
    capnp::MallocMessageBuilder message;
    auto found = message.initRoot<rpc::JoinTokens::Found>();
    supervisor::fillFound(found, parsed, joinTokenDigest("join-abcdef.0123456789abcdef"), now);
    // No input has a record with this digest by chance: the seeds have another digest.
    if (found.getState() != rpc::JoinTokens::Found::State::UNKNOWN) abort();
    supervisor::fillToken(message.initRoot<rpc::Etcd::JoinToken>(), "abcdef", parsed.get(), now);
    supervisor::isForgotten(parsed.get(), now);
  }
  // A record whose parts are shared is larger when it is written.
  auto bytes = parsed.bytes();
  if (bytes.size() > supervisor::kMostTokenRecord) return 0;
  if (supervisor::TokenRecord::parse(bytes).bytes() != bytes) abort();
  return 0;
}
