#include "machined/disk/volumes/ephemeral-volume.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "machined/disk/volumes/mount-volume.h"
#include "machined/disk/volumes/unmount-volume.h"

namespace talos::machined {
namespace {

constexpr uint64_t kWorthGrowing = 1u << 20;

[[noreturn]] void refuseVar(kj::String problem) {
  fail(ErrorKind::kFailedPrecondition, kj::str("EPHEMERAL: ", problem));
}

// linux/xfs_fs.h is not among the headers of the C library; the layout is the kernel's interface.
struct XfsGeometryV1 {
  uint32_t blocksize, rtextsize, agblocks, agcount, logblocks, sectsize, inodesize, imaxpct;
  uint64_t datablocks, rtblocks, rtextents, logstart;
  unsigned char uuid[16];
  uint32_t sunit, swidth;
  int32_t version;
  uint32_t flags, logsectsize, rtsectsize, dirblocksize;
};
struct XfsGrow {
  uint64_t newblocks;
  uint32_t imaxpct;
};
constexpr unsigned long kXfsGeometry = _IOR('X', 100, XfsGeometryV1),
                        kXfsGrow = _IOW('X', 110, XfsGrow);

// Grows it to the end of its partition. Blocking.
void growXfs(int mount, uint64_t bytes) {
  int raw;  // a mount's descriptor is good for paths only
  KJ_SYSCALL(raw = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  kj::AutoCloseFd top(raw);
  XfsGeometryV1 now = {};
  KJ_SYSCALL(ioctl(top, kXfsGeometry, &now));
  uint64_t blocks = bytes / now.blocksize;
  // The kernel does not make a last part of less than 64 blocks.
  if (blocks < now.datablocks + kWorthGrowing / now.blocksize) return;
  XfsGrow wanted = {blocks, now.imaxpct};
  KJ_SYSCALL(ioctl(top, kXfsGrow, &wanted));
}

uint64_t deviceSize(kj::StringPtr node) {
  int raw;
  KJ_SYSCALL(raw = open(node.cStr(), O_RDONLY | O_CLOEXEC), node);
  kj::AutoCloseFd fd(raw);
  uint64_t bytes = 0;
  KJ_SYSCALL(ioctl(fd, BLKGETSIZE64, &bytes), node);
  return bytes;
}

}  // namespace

bool canGrow(const Volume& ephemeral, kj::ArrayPtr<const Volume> volumes) {
  // The last MiB is for the table's copy.
  auto needed = ephemeral.device.begin + ephemeral.device.bytes + (1u << 20) + kWorthGrowing;
  for (auto& v : volumes) {
    if (v.device.name == ephemeral.device.disk) return v.device.bytes >= needed;
  }
  return false;
}

kj::Promise<bool> EphemeralVolume::mount(Encryption how) {
  if (isMountPoint(path, readFile("/proc/self/mountinfo"))) co_return true;
  auto found = co_await volumes.look();
  KJ_IF_MAYBE (volume, partitions.find(found, kEphemeralName, kEphemeralName)) {
    if (canGrow(*volume, found)) co_await growPartition(*volume);
    auto work = [&]() -> kj::Promise<void> {
      auto ready = co_await partitions.prepare(*volume, kEphemeralName, how);
      co_await partitions.mounting(kEphemeralName, mountIt(kj::mv(ready)));
    };
    co_await work().catch_([](kj::Exception&& e) { refuseVar(messageOf(e)); });
    co_return true;
  }
  co_return false;
}

// A disk that refuses to grow keeps its size.
kj::Promise<void> EphemeralVolume::growPartition(const Volume& volume) {
  auto disk = kj::str("/dev/", volume.device.disk);
  co_await installer
      .run([disk = kj::str(disk)](rpc::InstallRequest::Builder request) { request.setGrow(disk); })
      .then(
          [&](bool grown) {
            if (grown)
              say(kj::str("EPHEMERAL: ", volume.device.node(), " was grown with its disk"));
          },
          [&](kj::Exception&& e) {
            say(kj::str("warning: EPHEMERAL: cannot be grown: ", messageOf(e)));
          });
}

kj::Promise<void> EphemeralVolume::mountIt(SystemPartitions::Mountable it) {
  auto& node = it.node;
  auto type = it.type;
  struct Opened {
    kj::AutoCloseFd mount;
    kj::Maybe<kj::Exception> notGrown;
  };
  auto opening = uv.blocking([node = kj::str(node), type]() {
    Opened result{openFileSystem(node, type, MountAccess::kReadWrite, MountUse::kPrograms), {}};
    if (type != FileSystem::kXfs) return result;
    result.notGrown = kj::runCatchingExceptions(
        [&]() { growXfs(result.mount, deviceSize(node)); });  // a failure leaves its size unchanged
    return result;
  });
  auto opened = co_await untilMounted(timer, kj::str(node), kj::mv(opening), say);
  KJ_IF_MAYBE (e, opened.notGrown) {
    say(kj::str("warning: EPHEMERAL: cannot be grown: ", messageOf(*e)));
  }
  attach(opened.mount, path);
  say(kj::str("EPHEMERAL: ", node, " (", nameOf(type), ") mounted at ", path));
}

kj::Maybe<kj::String> EphemeralVolume::mounted() {
  if (!onDisk()) return nullptr;
  return mountSource(path, readFile("/proc/self/mountinfo")).orDefault(kj::String());
}

// Memory needs no unmount.
bool EphemeralVolume::onDisk() {
  struct statfs found;
  return statfs(path.cStr(), &found) == 0 && found.f_type != TMPFS_MAGIC &&
         isMountPoint(path, readFile("/proc/self/mountinfo"));
}

kj::Promise<void> EphemeralVolume::unmountAll(kj::Vector<kj::String> targets) {
  if (!onDisk()) co_return;
  for (auto& target : targets) {
    KJ_IF_MAYBE (problem, co_await unmountWithin(uv, timer, kj::mv(target))) {
      say(kj::str("warning: ", *problem));
    }
  }
}

kj::Promise<void> EphemeralVolume::unmountBelow() {
  auto servers = mountsOn(readFile("/proc/self/mountinfo"), path, MountsOn::kServers);
  for (auto& problem : co_await detachServers(timer, kj::mv(servers))) {
    say(kj::str("warning: ", problem));
  }
  co_await unmountAll(mountsOn(readFile("/proc/self/mountinfo"), path, MountsOn::kBelow));
}
kj::Promise<void> EphemeralVolume::unmountOverlays() {
  return unmountAll(mountsOn(readFile("/proc/self/mountinfo"), path, MountsOn::kOverlays));
}
kj::Promise<void> EphemeralVolume::unmountOtherPlaces() {
  return unmountAll(mountsOn(readFile("/proc/self/mountinfo"), path, MountsOn::kOtherPlaces));
}
kj::Promise<void> EphemeralVolume::unmount() {
  if (onDisk()) {
    auto source = mountSource(path, readFile("/proc/self/mountinfo"));
    kj::Vector<kj::String> it;
    it.add(kj::str(path));
    co_await unmountAll(kj::mv(it));
    if (onDisk()) co_return;
    KJ_IF_MAYBE (node, source) co_await partitions.release(kj::mv(*node), kEphemeralName);
  }
  co_await partitions.closeUnused();
}

}  // namespace talos::machined
