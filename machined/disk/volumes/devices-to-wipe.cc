#include "machined/disk/volumes/devices-to-wipe.h"

#include "common/base/error.h"
#include "common/text/foreign-text.h"
#include "common/text/texts.h"
#include "machined/disk/volumes/mount-table.h"
#include "machined/disk/volumes/swaps.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kSystemLabels[] = {"EFI"_kj,  "BIOS"_kj,  "BOOT"_kj,
                                           "META"_kj, "STATE"_kj, "EPHEMERAL"_kj};

bool isSystemLabel(kj::StringPtr label) {
  for (auto own : kSystemLabels) {
    if (own == label) return true;
  }
  return false;
}

// Returns the use of one device, without that of its partitions.
kj::Maybe<kj::String> ownUse(const BlockDevice& device, const UsesOfDevices& uses) {
  auto node = device.node();
  for (auto& volume : uses.volumes) {
    if (volume.location == node) return kj::str("in use by volume \"", volume.id, "\"");
  }
  for (auto& mount : deviceMounts(uses.mountinfo)) {
    if (mount.source == node) return kj::str("mounted at ", mount.target);
  }
  for (auto& swap : swapsIn(uses.swaps)) {
    if (swap.device == node) return kj::str("in use as swap");
  }
  if (device.held) return kj::str("in use by another device, such as an array or an open volume");
  if (!device.whole && contains(uses.labels, device.partitionName)) {
    return kj::str("in use by volume \"", device.partitionName, "\" of the config");
  }
  if (device.whole && contains(uses.userDisks, node)) {
    return kj::str("in use by machine.disks of the config");
  }
  return nullptr;
}

// Returns true if the disk has the system of this node, or may have it.
bool isSystemDisk(kj::StringPtr disk, const UsesOfDevices& uses) {
  for (auto& device : uses.devices) {
    if (device.whole || device.disk != disk) continue;
    if (uses.state.size() > 0 ? device.node() == uses.state : device.partitionName == "STATE") {
      return true;
    }
  }
  return false;
}

kj::Maybe<kj::String> useOf(const BlockDevice& device, const UsesOfDevices& uses) {
  KJ_IF_MAYBE (use, ownUse(device, uses)) return kj::mv(*use);
  bool system = isSystemDisk(device.disk, uses);
  if (system && device.whole) return kj::str("the disk of the system");
  if (system && isSystemLabel(device.partitionName)) {
    return kj::str("the partition ", device.partitionName, " of the system");
  }
  for (auto& other : uses.devices) {
    if (other.disk != device.disk || other.whole == device.whole) continue;
    // A partition of a disk that is used as a whole, or a disk with a partition that is used.
    KJ_IF_MAYBE (use, ownUse(other, uses)) {
      return kj::str("in use: ", other.name, " is ", *use);
    }
  }
  return nullptr;
}

const BlockDevice& deviceNamed(kj::StringPtr name, const UsesOfDevices& uses) {
  for (auto& device : uses.devices) {
    if (device.name == name) return device;
  }
  fail(ErrorKind::kNotFound, kj::str("blockdevice ", jsonString(name), " not found"));
}

}  // namespace

kj::Vector<kj::String> devicesToWipe(kj::ArrayPtr<const kj::String> names,
                                     const UsesOfDevices& uses) {
  if (names.size() == 0) fail(ErrorKind::kInvalidArgument, "no device is named");
  kj::Vector<kj::String> paths;
  for (auto& name : names) {
    auto& device = deviceNamed(name, uses);
    auto refuse = [&](kj::StringPtr why) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("blockdevice ", jsonString(name), " is ", why, "; nothing was wiped"));
    };
    auto path = device.node();
    bool twice = contains(paths, path) || (!device.whole && contains(names, device.disk));
    if (twice) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("blockdevice ", jsonString(name), " is named twice"));
    }
    if (device.cdrom) refuse("a CD-ROM drive");
    if (device.readOnly) refuse("read-only");
    KJ_IF_MAYBE (use, useOf(device, uses)) refuse(*use);
    paths.add(kj::mv(path));
  }
  return paths;
}

}  // namespace talos::machined
