#include "machined/disk/volumes/state-volume.h"

#include <errno.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/within.h"
#include "machined/disk/volumes/mount-volume.h"
#include "machined/disk/volumes/unmount-volume.h"

namespace talos::machined {
namespace {

constexpr auto kStateMountTimeout = 60 * kj::SECONDS;  // a journal is replayed first
// The network may not be up yet at the first tries; then sources of configs are searched.
constexpr auto kFirstTries = 30 * kj::SECONDS, kNoLimit = 365 * kj::DAYS * 100;
constexpr Backoff::Pace kFirstPace = {2 * kj::SECONDS, 5 * kj::SECONDS},
                        kOpeningPace = {5 * kj::SECONDS, 60 * kj::SECONDS};

[[noreturn]] void refuse(kj::String problem) {
  fail(ErrorKind::kFailedPrecondition, kj::str("STATE: ", problem));
}

// A disk may also stop answering in this function.
void makeOwn(int mount, kj::StringPtr node) {
  struct statvfs info;
  KJ_SYSCALL(fstatvfs(mount, &info), node);
  if ((info.f_flag & ST_RDONLY) != 0) refuse(kj::str(node, " was mounted read-only by the kernel"));
  KJ_SYSCALL(fchmodat(mount, ".", 0700, 0), node);
}

// Returns true if an installation was cut after its boot loader was written; it starts again.
bool hasUnfinished(kj::ArrayPtr<const Volume> volumes) {
  for (auto& v : volumes) {
    if (v.device.partitionName.startsWith(kStateName)) return true;
  }
  return false;
}

}  // namespace

kj::Maybe<const Volume&> findState(kj::ArrayPtr<const Volume> volumes, kj::StringPtr name,
                                   kj::Maybe<kj::StringPtr> disk) {
  KJ_IF_MAYBE (found, findNamed(volumes, kStateName, name, disk)) return *found;
  // A disk that was not looked at may or may not have it.
  for (auto& v : volumes) {
    if (v.device.disk != disk.orDefault(v.device.disk)) continue;
    if (v.problem.size() > 0 && v.device.whole && !v.device.cdrom) {
      refuse(kj::str("not found, and may be on ", v.device.node(), ", which ", v.problem));
    }
  }
  return nullptr;
}

bool StateVolume::isMounted() {
  return isMountPoint(path);
}

kj::Promise<void> StateVolume::mountIt(SystemPartitions::Mountable it) {
  auto& node = it.node;
  auto type = it.type;
  // If the wait is given up, the descriptor is closed, and so the volume unmounted, when the kernel
  // has finished.
  auto opening = uv.blocking([node = kj::str(node), type]() {
    auto mount = openFileSystem(node, type, MountAccess::kReadWrite);
    makeOwn(mount, node);
    return mount;
  });
  auto opened = co_await within(
      timer, kStateMountTimeout, kj::mv(opening),
      kj::str("mounting ", node, " timed out after ", kStateMountTimeout / kj::SECONDS, " s"));
  attach(opened, path);
  say(kj::str("STATE: ", node, " (", nameOf(type), ") mounted at ", path));
}

kj::Promise<void> StateVolume::mount() {
  if (!isMounted()) co_await mountWhatIsThere(kStateName, Known::kNothing, nullptr, nullptr);
  if (served) co_await retry(Backoff(kFirstPace), kFirstTries);
  co_await prepare();
}

kj::Promise<void> StateVolume::retry(Backoff pauses, kj::Duration limit) {
  auto end = timer.now() + limit;
  while (served && timer.now() < end) {
    co_await timer.afterDelay(pauses.next());
    co_await mountWhatIsThere(kStateName, Known::kNothing, nullptr, nullptr);
  }
}

kj::Maybe<kj::Promise<void>> StateVolume::untilOpened() {
  if (!served) return nullptr;
  say("warning: STATE is encrypted, and its key server has not opened it; retrying");
  return retry(Backoff(kOpeningPace), kNoLimit).then([this]() { return prepare(); });
}

kj::Promise<void> StateVolume::mountWith(Encryption how, kj::StringPtr name,
                                         kj::Maybe<kj::StringPtr> disk) {
  if (on == StateOn::kLauncher || isMounted()) co_return;
  if (name == kStateName && partition == Partition::kNone) co_return;
  partition = Partition::kNothing;  // a partition is being made
  co_await mountWhatIsThere(name, Known::kConfig, how, disk);
  if (!isMounted()) co_return;
  locked = served = false;
  co_await prepare();
}

kj::Promise<void> StateVolume::putKeysRight(Encryption how, EncryptionFrom from) {
  KJ_IF_MAYBE (node, mounted()) {
    co_await partitions.putRight(kj::mv(*node), kStateName, how, from);
  }
}

kj::Maybe<kj::String> StateVolume::mounted() {
  if (on == StateOn::kLauncher) return nullptr;
  return mountSource(path, readFile("/proc/self/mountinfo"));
}

kj::Maybe<kj::String> StateVolume::lockedProblem() {
  if (!locked) return nullptr;
  if (served) return kj::str("STATE is encrypted, and its key server has not opened it");
  return kj::str("STATE is encrypted, and no config says how to open it");
}

// Mounts it if a boot can open it; an empty one has no owner.
kj::Promise<void> StateVolume::mountEarly(const Volume& volume) {
  auto early = co_await partitions.prepareEarly(volume, kStateName);
  served = early.served;
  KJ_IF_MAYBE (it, early.open) {
    locked = false;
    co_return co_await partitions.mounting(kStateName, mountIt(kj::mv(*it)));
  }
  locked = early.locked;
  partition = Partition::kWaiting;
}

// A file that a power cut left half-written is also a config with its secrets.
kj::Promise<void> StateVolume::prepare() {
  auto cleaning = uv.blocking([path = kj::str(path)]() { removeUnfinished(path); });
  auto cleaned = within(timer, kStateMountTimeout, kj::mv(cleaning),
                        kj::str("timed out after ", kStateMountTimeout / kj::SECONDS, " s"));
  co_await cleaned.catch_([this](kj::Exception&& e) {
    say(kj::str("warning: STATE: cannot remove unfinished files: ", messageOf(e)));
  });
}

kj::Promise<void> StateVolume::mountWhatIsThere(kj::StringPtr name, Known known, Encryption how,
                                                kj::Maybe<kj::StringPtr> disk) {
  served = false;
  if (on == StateOn::kLauncher) {
    say(kj::str("STATE: nothing is mounted at ", path,
                "; the machine config will be lost with a reboot"));
    co_return;
  }
  auto found = co_await volumes.look();
  KJ_IF_MAYBE (volume, findState(found, name, disk)) {
    bool plain = volume->content != nullptr && !volume->contains(FileSystem::kLuks);
    auto work = [&]() -> kj::Promise<void> {
      bool waits = known == Known::kNothing &&
                   (!plain || co_await partitions.isUnfinished(*volume, kStateName));
      if (waits) co_return co_await mountEarly(*volume);
      auto ready = co_await partitions.prepare(*volume, kStateName, how, KeyCare::kLeave);
      co_await partitions.mounting(kStateName, mountIt(kj::mv(ready)));
    };
    co_await kj::evalNow(work).catch_([](kj::Exception&& e) { refuse(messageOf(e)); });
  } else if (known == Known::kNothing) {
    if (on == StateOn::kOwnDisk && !hasUnfinished(found)) {
      refuse(
          kj::str("no such partition, though this system was started from a disk that has one; "
                  "that disk has failed, or its driver is missing"));
    }
    partition = Partition::kNone;
    say("STATE: no such partition; the machine config will be lost with a reboot");
  }
}

kj::Promise<void> StateVolume::unmount() {
  if (on == StateOn::kLauncher) co_return;
  auto source = mountSource(path, readFile("/proc/self/mountinfo"));
  KJ_IF_MAYBE (problem, co_await unmountWithin(uv, timer, kj::str(path))) {
    say(kj::str("warning: ", *problem));
    co_return;
  }
  KJ_IF_MAYBE (node, source) co_await partitions.release(kj::mv(*node), kStateName);
  co_await partitions.closeUnused();
}

}  // namespace talos::machined
