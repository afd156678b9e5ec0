#include "machined/storage/state-volume.h"

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
#include "machined/storage/mount-volume.h"
#include "machined/storage/unmount-volume.h"

namespace talos::machined {
namespace {

constexpr uint64_t kBytes = 100u << 20;            // that an empty one has to have empty
constexpr auto kMountPatience = 60 * kj::SECONDS;  // a journal is replayed first

// Why the boot cannot go on with this one, which is named STATE; none when it can.
kj::Maybe<kj::StringPtr> unfit(const Volume& volume) {
  if (volume.problem.size() > 0) return volume.problem.asPtr();
  bool empty = volume.content == nullptr;  // or so it seems
  if (!empty && !volume.holds(FileSystem::kXfs) && !volume.holds(FileSystem::kExt4) &&
      !volume.holds(FileSystem::kLuks)) {
    return "has no file owners and modes; use XFS or ext4"_kj;
  }
  if (volume.device.readOnly) return "is read-only"_kj;
  return nullptr;
}

[[noreturn]] void refuse(kj::String why) {
  fail(ErrorKind::kFailedPrecondition, kj::str("STATE: ", why));
}

void requireWritable(int mount, kj::StringPtr node) {
  struct statvfs info;
  KJ_SYSCALL(fstatvfs(mount, &info), node);
  if ((info.f_flag & ST_RDONLY) != 0) refuse(kj::str(node, " was mounted read-only by the kernel"));
}

}  // namespace

kj::Maybe<const Volume&> findState(kj::ArrayPtr<const Volume> volumes, kj::StringPtr name) {
  kj::Vector<const Volume*> named;
  for (auto& v : volumes) {
    if (v.device.partitionName == name) named.add(&v);
  }
  if (named.size() > 1) {
    auto nodes = KJ_MAP(v, named) {
      return v->device.node();
    };
    refuse(kj::str("more than one partition is named ", name, ": ", kj::strArray(nodes, ", "),
                   "; remove the disks that are not this node's"));
  }
  if (named.size() == 1) {
    KJ_IF_MAYBE (why, unfit(*named[0])) refuse(kj::str(named[0]->device.node(), " ", *why));
    return *named[0];
  }
  // Of a disk that was not looked at, nobody knows whether it has one.
  for (auto& v : volumes) {
    if (v.problem.size() > 0 && v.device.whole && !v.device.cdrom) {
      refuse(kj::str("not found, and may be on ", v.device.node(), ", which ", v.problem));
    }
  }
  return nullptr;
}

bool StateVolume::isMounted() {
  return isMountPoint(path, readFile("/proc/self/mountinfo"));
}

kj::Promise<void> StateVolume::mountIt(SystemPartitions::Mountable it) {
  auto& node = it.node;
  auto type = it.type;
  // Given up, it is closed when the kernel is done with it, and so unmounted.
  auto opening = uv.blocking([node = kj::str(node), type]() {
    return openFileSystem(node, type, MountAccess::kReadWrite);
  });
  auto opened = co_await within(
      timer, kMountPatience, kj::mv(opening),
      kj::str("mounting ", node, " timed out after ", kMountPatience / kj::SECONDS, " s"));
  requireWritable(opened, node);
  KJ_SYSCALL(fchmodat(opened, ".", 0700, 0), node);
  attach(opened, path);
  say(kj::str("STATE: ", node, " (", nameOf(type), ") mounted at ", path));
}

kj::Promise<void> StateVolume::mount() {
  if (!isMounted()) co_await mountWhatIsThere(kStateName, Known::kNothing, nullptr);
  co_await prepare();
}

kj::Promise<void> StateVolume::mountWith(Encryption how, kj::StringPtr name) {
  if (on == StateOn::kLauncher) co_return;
  if (isMounted()) {
    auto source = mountSource(path, readFile("/proc/self/mountinfo")).orDefault(kj::String());
    co_return co_await partitions.putRight(kj::mv(source), kStateName, how);
  }
  if (name == kStateName && seen == Seen::kNone) co_return;
  seen = Seen::kNothing;  // one is being made
  co_await mountWhatIsThere(name, Known::kConfig, how);
  if (!isMounted()) co_return;
  locked = false;
  co_await prepare();
}

kj::Maybe<kj::String> StateVolume::whyLocked() {
  if (!locked) return nullptr;
  return kj::str("STATE is encrypted, and no config says how to open it");
}

// One that is empty is nobody's.
kj::Promise<void> StateVolume::mountEarly(const Volume& volume) {
  auto early = co_await partitions.prepareEarly(volume, kStateName);
  KJ_IF_MAYBE (it, early.open) co_return co_await mountIt(kj::mv(*it));
  locked = early.locked;
  seen = Seen::kWaiting;
}

// What a power cut left half written is a config with its secrets, too.
kj::Promise<void> StateVolume::prepare() {
  auto cleaning = uv.blocking([path = kj::str(path)]() { removeUnfinished(path); });
  auto cleaned = within(timer, kMountPatience, kj::mv(cleaning),
                        kj::str("timed out after ", kMountPatience / kj::SECONDS, " s"));
  co_await cleaned.catch_([this](kj::Exception&& e) {
    say(kj::str("warning: STATE: cannot remove unfinished files: ", messageOf(e)));
  });
}

kj::Promise<void> StateVolume::mountWhatIsThere(kj::StringPtr name, Known known, Encryption how) {
  if (on == StateOn::kLauncher) {
    say(kj::str("STATE: nothing is mounted at ", path,
                "; the machine config will be lost with a reboot"));
    co_return;
  }
  auto found = co_await volumes.look();
  KJ_IF_MAYBE (volume, findState(found, name)) {
    bool plain = volume->content != nullptr && !volume->holds(FileSystem::kLuks);
    auto work = [&]() -> kj::Promise<void> {
      if (known == Known::kNothing && !plain) co_return co_await mountEarly(*volume);
      co_await mountIt(co_await partitions.prepare(*volume, kStateName, kBytes, how));
    };
    co_await kj::evalNow(work).catch_([](kj::Exception&& e) { refuse(messageOf(e)); });
  } else if (known == Known::kNothing) {
    seen = Seen::kNone;
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
}

}  // namespace talos::machined
