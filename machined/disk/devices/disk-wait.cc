#include "machined/disk/devices/disk-wait.h"

namespace talos::machined {
namespace {

constexpr auto kLookAgain = 100 * kj::MILLISECONDS;

}  // namespace

kj::Promise<bool> awaitDisk(kj::Timer& timer, kj::String what,
                            kj::Function<kj::Promise<bool>()> isThere,
                            kj::Function<void(kj::StringPtr line)>& report) {
  auto deadline = timer.now() + kDiskWait;
  bool reported = false;
  while (!co_await isThere()) {
    if (timer.now() >= deadline) co_return false;
    if (!reported) report(kj::str("waiting for ", what));
    reported = true;
    co_await timer.afterDelay(kLookAgain);
  }
  co_return true;
}

}  // namespace talos::machined
