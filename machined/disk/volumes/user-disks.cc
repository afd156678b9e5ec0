#include "machined/disk/volumes/user-disks.h"

#include <kj/debug.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/net/text-values.h"
#include "machined/disk/devices/device-events.h"
#include "machined/disk/volumes/mount-volume.h"
#include "machined/disk/volumes/unmount-volume.h"

namespace talos::machined {
namespace {

[[noreturn]] void refuseDisk(kj::String problem) {
  fail(ErrorKind::kFailedPrecondition, kj::str("machine.disks: ", problem));
}

}  // namespace

kj::Vector<UserDisk> userDisksOf(config::Machine::Reader machine) {
  kj::Vector<UserDisk> disks;
  for (auto disk : machine.getDisks()) {
    auto& out = disks.add(UserDisk{kj::str(disk.getDevice()), {}});
    for (auto p : disk.getPartitions()) {
      out.partitions.add(UserDisk::Partition{config::parseSize(p.getSize()).orDefault(0),
                                             config::withoutLastSlash(p.getMountpoint())});
    }
  }
  return disks;
}

const Volume& userPartition(kj::ArrayPtr<const Volume> volumes, kj::StringPtr device,
                            size_t index) {
  size_t position = 0;
  for (auto& v : volumes) {
    if (v.device.whole || kj::str("/dev/", v.device.disk) != device || position++ < index) continue;
    auto node = v.device.node();
    if (v.problem.size() > 0) refuseDisk(kj::str(node, " ", v.problem));
    if (v.device.readOnly) refuseDisk(kj::str(node, " is read-only"));
    KJ_IF_MAYBE (content, v.content) {
      if (content->type == FileSystem::kXfs) return v;
      refuseDisk(
          kj::str(node, " holds ", nameOf(content->type),
                  content->label.size() > 0 ? kj::str(" \"", content->label, "\"") : kj::String(),
                  ", not XFS; empty the disk, or choose another one"));
    }
    refuseDisk(kj::str(node, " has no file system; make an XFS there, or empty the disk"));
  }
  refuseDisk(kj::str(device, " has no partition ", index + 1));
}

bool UserDisks::isMounted(kj::StringPtr mountpoint) {
  return isMountPoint(mountpoint, readFile(mountinfo));
}

kj::Promise<void> UserDisks::awaitDevice(kj::StringPtr device) {
  auto isThere = [device]() -> kj::Promise<bool> { return access(device.cStr(), F_OK) == 0; };
  if (co_await awaitDisk(timer, kj::str(device), isThere, say)) co_return;
  refuseDisk(kj::str("there is no disk ", device, "; none has appeared within ",
                     kDiskWait / kj::SECONDS, " s"));
}

// Makes partitions on an empty disk.
kj::Promise<void> UserDisks::prepare(const UserDisk& disk) {
  co_await installer.run([&disk](rpc::InstallRequest::Builder request) {
    auto divide = request.initDivide();
    divide.setDisk(disk.device);
    auto sizes = divide.initSizes(disk.partitions.size());
    for (auto i : kj::indices(disk.partitions)) sizes.set(i, disk.partitions[i].bytes);
  });
}

kj::Promise<void> UserDisks::mountOne(const Volume& volume, kj::StringPtr mountpoint) {
  auto node = volume.device.node();
  auto opening = uv.blocking([node = kj::str(node)]() {
    return openFileSystem(node, FileSystem::kXfs, MountAccess::kReadWrite, MountUse::kPrograms);
  });
  auto opened = co_await untilMounted(timer, kj::str(node), kj::mv(opening), say);
  makeDirectories(mountpoint, 0700);
  attach(opened, mountpoint);
  say(kj::str("machine.disks: ", node, " (xfs) mounted at ", mountpoint));
}

kj::Promise<void> UserDisks::mount(kj::Vector<UserDisk> disks) {
  for (auto& disk : disks) {
    size_t mounted = 0;
    for (auto& p : disk.partitions) mounted += isMounted(p.mountpoint);
    if (disk.partitions.empty() || mounted == disk.partitions.size()) continue;
    if (mounted == 0) {  // a disk with mounted partitions cannot be locked
      co_await awaitDevice(disk.device);
      co_await prepare(disk);
    }
    auto volumes = co_await this->volumes.look();
    for (auto i : kj::indices(disk.partitions)) {
      auto& mountpoint = disk.partitions[i].mountpoint;
      if (isMounted(mountpoint)) continue;
      auto& volume = userPartition(volumes, disk.device, i);
      co_await mountOne(volume, mountpoint).catch_([](kj::Exception&& e) {
        refuseDisk(messageOf(e));
      });
    }
  }
}

kj::Promise<void> UserDisks::unmount(kj::Vector<UserDisk> disks) {
  kj::Vector<kj::String> targets;
  for (auto& disk : disks) {
    for (auto& p : disk.partitions) targets.add(kj::str(p.mountpoint));
  }
  while (!targets.empty()) {
    auto target = kj::mv(targets.back());
    targets.removeLast();
    KJ_IF_MAYBE (problem, co_await unmountWithin(uv, timer, kj::mv(target))) {
      say(kj::str("warning: ", *problem));
    }
  }
}

}  // namespace talos::machined
