#include "machined/disk/volumes/ephemeral-volume.h"

#include <kj/debug.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "machined/disk/volumes/mount-volume.h"
#include "machined/disk/volumes/unmount-volume.h"
#include "machined/disk/volumes/xfs-growth.h"

namespace talos::machined {
namespace {

constexpr uint64_t kTableCopy = 1u << 20;

[[noreturn]] void refuseVar(kj::String problem) {
  fail(ErrorKind::kFailedPrecondition, kj::str("EPHEMERAL: ", problem));
}

}  // namespace

bool canGrow(const Volume& ephemeral, kj::ArrayPtr<const Volume> volumes,
             const EphemeralSize& size) {
  if (!size.grows) return false;
  auto& device = ephemeral.device;
  uint64_t end = 0;
  for (auto& v : volumes) {
    // The last MiB is for the table's copy.
    if (v.device.name == device.disk && v.device.bytes > kTableCopy)
      end = v.device.bytes - kTableCopy;
  }
  for (auto& v : volumes) {
    bool isBehind =
        !v.device.whole && v.device.disk == device.disk && v.device.begin > device.begin;
    if (isBehind) end = kj::min(end, v.device.begin);
  }
  if (end < device.begin) return false;
  return sizeWithin(size.bound, end - device.begin) >= device.bytes + kWorthGrowing;
}

EphemeralSize ephemeralSizeOf(config::Machine::Reader machine) {
  if (!machine.hasEphemeralSize()) return {};
  auto size = machine.getEphemeralSize();
  return {.bound = {size.getMost(), size.getMostPercent(), size.getLeavesMost()},
          .least = size.getLeast(),
          .grows = size.getGrows()};
}

void fillEphemeralSize(rpc::EphemeralSize::Builder out, const EphemeralSize& size) {
  out.setMost(size.bound.most);
  out.setMostPercent(static_cast<uint8_t>(size.bound.mostPercent));
  out.setLeavesMost(size.bound.leavesMost);
  out.setFixed(!size.grows);
  out.setLeast(size.least);
}

kj::Promise<bool> EphemeralVolume::mount(Encryption how, EphemeralSize size, EncryptionFrom from) {
  if (isMountPoint(path, readFile("/proc/self/mountinfo"))) co_return true;
  auto found = co_await volumes.look();
  KJ_IF_MAYBE (volume, partitions.find(found, kEphemeralName, kEphemeralName)) {
    if (canGrow(*volume, found, size)) co_await growPartition(*volume, size);
    auto work = [&]() -> kj::Promise<void> {
      auto ready =
          co_await partitions.prepare(*volume, kEphemeralName, how, KeyCare::kPutRight, from);
      co_await partitions.mounting(kEphemeralName, mountIt(kj::mv(ready)));
    };
    co_await work().catch_([](kj::Exception&& e) { refuseVar(messageOf(e)); });
    co_return true;
  }
  co_return false;
}

// A disk that refuses to grow keeps its size.
kj::Promise<void> EphemeralVolume::growPartition(const Volume& volume, const EphemeralSize& size) {
  auto disk = kj::str("/dev/", volume.device.disk);
  co_await installer
      .run([disk = kj::str(disk), &size](rpc::InstallRequest::Builder request) {
        request.setGrow(disk);
        fillEphemeralSize(request.initEphemeral(), size);
      })
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
