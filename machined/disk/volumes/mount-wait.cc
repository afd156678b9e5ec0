#include "machined/disk/volumes/mount-wait.h"

namespace talos::machined {

kj::Promise<void> sayWhatIsMounted(kj::Timer& timer, kj::String node,
                                   kj::Function<void(kj::StringPtr line)>& say) {
  for (auto passed = 1 * kj::MINUTES;; passed += 1 * kj::MINUTES) {
    co_await timer.afterDelay(1 * kj::MINUTES);
    say(kj::str("waiting for ", node, " to be mounted for ", passed / kj::MINUTES,
                " min, of at most ", kMountTimeout / kj::MINUTES,
                "; its journal may have to be replayed"));
  }
}

}  // namespace talos::machined
