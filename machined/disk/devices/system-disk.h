// Chooses the disk that the system is installed on, by machine.install and the disks that exist.
// Pure.
#pragma once

#include "machined/disk/devices/storage-server.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

struct SystemDisk {
  kj::String path;                // "/dev/vda"
  kj::Vector<kj::String> others;  // that match diskSelector as well, and come later
};
// Throws FailedPrecondition, naming what was asked for and the disks that are there. diskSelector
// takes precedence over disk; of several that match, the first one is taken.
SystemDisk chooseSystemDisk(kj::ArrayPtr<const DiskFacts> disks, config::Install::Reader install);

}  // namespace talos::machined
