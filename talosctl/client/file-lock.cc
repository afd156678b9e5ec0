#include "talosctl/client/file-lock.h"

#include "common/base/error.h"

namespace talos::talosctl {
namespace {

constexpr kj::Duration kLockDeadline = 2 * kj::SECONDS, kLockRetry = 50 * kj::MILLISECONDS;

}  // namespace

kj::Promise<kj::Own<UserFileLock>> lockUserFile(kj::Timer& timer, kj::StringPtr given) {
  auto path = kj::str(given);
  auto deadline = timer.now() + kLockDeadline;
  for (;;) {
    kj::Own<UserFileLock> lock;
    auto failed = kj::runCatchingExceptions([&]() { lock = kj::heap<UserFileLock>(path); });
    KJ_IF_MAYBE (e, failed) {
      if (kindOf(*e) != ErrorKind::kConflict || timer.now() >= deadline) {
        kj::throwFatalException(kj::mv(*e));
      }
    } else {
      co_return kj::mv(lock);
    }
    co_await timer.afterDelay(kLockRetry);
  }
}

kj::Promise<void> changeTalosconfig(kj::Timer& timer, kj::StringPtr given,
                                    kj::Function<bool(Talosconfig&)> change) {
  auto path = kj::str(given);
  makeUserFolders(path, 0700);
  auto lock = co_await lockUserFile(timer, path);
  auto config = Talosconfig::load(path);
  if (change(config)) config.save(path);
}

}  // namespace talos::talosctl
