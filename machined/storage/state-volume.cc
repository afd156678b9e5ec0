#include "machined/storage/state-volume.h"

#include <errno.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/within.h"
#include "machined/storage/mount-volume.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kLabel = "STATE"_kj;
constexpr auto kMountPatience = 60 * kj::SECONDS;  // a journal is replayed first
constexpr auto kUnmountPatience = 5 * kj::SECONDS;
constexpr auto kUnmountAgain = 50 * kj::MILLISECONDS;

// Why this one, which is called STATE, cannot be it; none when it can.
kj::Maybe<kj::StringPtr> unfit(const Volume& volume) {
  if (volume.content == nullptr) return "has no file system"_kj;
  if (volume.holds(FileSystem::kLuks)) return "is encrypted, which this version cannot open"_kj;
  if (!volume.holds(FileSystem::kXfs) && !volume.holds(FileSystem::kExt4)) {
    return "has no file owners and modes; use XFS or ext4"_kj;
  }
  if (volume.device.readOnly) return "is read-only"_kj;
  return nullptr;
}

}  // namespace

StateChoice chooseState(kj::ArrayPtr<const Volume> volumes) {
  StateChoice choice;
  for (auto& v : volumes) {
    if (v.label() != kLabel && v.device.partitionName != kLabel) continue;
    KJ_IF_MAYBE (why, unfit(v)) {
      choice.remarks.add(
          kj::str("warning: ", v.device.node(), " is labelled STATE and ", *why, "; ignored"));
    } else {
      KJ_IF_MAYBE (first, choice.volume) {
        choice.remarks.add(kj::str("warning: more than one volume is labelled STATE: ",
                                   first->device.node(), " is used, ", v.device.node(), " is not"));
      } else {
        choice.volume = v;
      }
    }
  }
  return choice;
}

bool StateVolume::mounted() {
  return isMountPoint(path, readFile("/proc/self/mountinfo"));
}

kj::Promise<void> StateVolume::mountIt(const Volume& volume) {
  auto type = KJ_ASSERT_NONNULL(volume.content).type;
  auto node = volume.device.node();
  // Given up, it is closed when the kernel is done with it, and so unmounted.
  auto opening = uv.blocking([node = kj::str(node), type]() {
    return openFileSystem(node, type, MountAccess::kReadWrite);
  });
  auto opened = co_await within(
      timer, kMountPatience, kj::mv(opening),
      kj::str("mounting ", node, " timed out after ", kMountPatience / kj::SECONDS, " s"));
  KJ_SYSCALL(fchmodat(opened, ".", 0700, 0), node);
  attach(opened, path);
  say(kj::str("STATE: ", node, " (", nameOf(type), ") mounted at ", path));
}

kj::Promise<void> StateVolume::mount() {
  if (mounted()) return kj::READY_NOW;
  return mountWhatIsThere();
}

kj::Promise<void> StateVolume::mountWhatIsThere() {
  auto found = co_await volumes.look();
  auto choice = chooseState(found);
  for (auto& remark : choice.remarks) say(remark);
  KJ_IF_MAYBE (volume, choice.volume) {
    co_await mountIt(*volume).catch_([this](kj::Exception&& e) {
      say(kj::str("warning: STATE: ", messageOf(e),
                  "; the volume is not changed, and the machine config is kept in memory only"));
    });
  } else {
    say("STATE: no such volume; the machine config will be lost with a reboot");
  }
}

kj::Promise<void> StateVolume::unmount() {
  auto deadline = timer.now() + kUnmountPatience;
  while (mounted()) {
    // Writes out what is not on the disk yet, hence not on the loop.
    int error = co_await uv
                    .blocking([target = kj::str(path)]() {
                      return umount2(target.cStr(), UMOUNT_NOFOLLOW) == 0 ? 0 : errno;
                    })
                    .exclusiveJoin(timer.atTime(deadline).then([]() { return ETIMEDOUT; }));
    if (error == 0) continue;  // there may be another one below
    if (error == EINVAL) co_return;
    if ((error != EBUSY && error != ENOENT) || timer.now() >= deadline) {
      say(kj::str("warning: cannot unmount ", path, ": ", strerror(error)));
      co_return;
    }
    co_await timer.afterDelay(kUnmountAgain);
  }
}

}  // namespace talos::machined
