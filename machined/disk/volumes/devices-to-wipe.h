// Decides whether disks and partitions may be wiped that an administrator names: only those that
// nothing uses. Pure. The installer, which wipes them, opens each one alone besides: a mount that
// has begun meanwhile, or in another namespace, makes it refuse.
#pragma once

#include "machined/disk/devices/block-devices.h"

namespace talos::machined {

struct UsesOfDevices {
  kj::Vector<BlockDevice> devices;
  kj::String mountinfo, swaps;  // texts of /proc/self/mountinfo and /proc/swaps
  // The device with STATE: "/dev/vda5"; empty if STATE is not mounted, so that the disk of the
  // system is not known.
  kj::String state;
  struct Volume {
    kj::String id, location;  // "u-data", "/dev/vdb1"
  };
  kj::Vector<Volume> volumes;        // of VolumeStatuses
  kj::Vector<kj::String> labels;     // of the partitions that the config describes
  kj::Vector<kj::String> userDisks;  // of machine.disks
};

// Returns the paths of the devices with these names, in their order. Throws NotFound,
// InvalidArgument or FailedPrecondition, naming the device and its use, if one of them must not be
// wiped.
kj::Vector<kj::String> devicesToWipe(kj::ArrayPtr<const kj::String> names,
                                     const UsesOfDevices& uses);

}  // namespace talos::machined
