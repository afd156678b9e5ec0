#include "machined/config/pending-config.h"

#include "common/base/file.h"
#include "machined/config/config-sources.h"

namespace talos::machined {
namespace {
constexpr kj::StringPtr kPendingMagic = "pending2"_kj;
}

Pending::~Pending() noexcept(false) {
  zeroize(text);
}

kj::Maybe<Pending> takePending(Process1& process1) {
  KJ_IF_MAYBE (held, takeHeldText(process1, kPendingName, kPendingMagic, kMostConfigBytes)) {
    if (held->numbers[0] > static_cast<uint64_t>(rpc::ApplyMode::STAGED)) return nullptr;
    return Pending(static_cast<rpc::ApplyMode>(held->numbers[0]), kj::mv(held->text));
  }
  return nullptr;
}

kj::Promise<void> holdPending(Process1& process1, const Pending& pending) {
  HeldText held(static_cast<uint64_t>(pending.mode), 0, kj::heapArray(pending.text.asPtr()));
  return holdText(process1, kPendingName, kPendingMagic, held);
}

kj::Promise<void> dropPending(Process1& process1) {
  return process1.drop(kPendingName);
}

}  // namespace talos::machined
