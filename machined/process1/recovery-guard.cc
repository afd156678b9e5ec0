#include "machined/process1/recovery-guard.h"

namespace talos::machined {

kj::Promise<bool> RecoveryGuard::begin(kj::ArrayPtr<const kj::StringPtr> names) {
  auto before =
      held.take([](rpc::HeldCount::Reader in) { return in.getNumber(); }).orDefault(uint64_t(0));
  bool good = before < kMostRecoveries;
  if (!good) {
    for (auto name : names) {
      {
        auto left = process1.takeHeld(name);
      }
      co_await process1.drop(name);
    }
    before = 0;
  }
  co_await held.hold([&](rpc::HeldCount::Builder out) { out.setNumber(before + 1); });
  co_return good;
}

}  // namespace talos::machined
