// Chooses the disk that the system is installed on, by machine.install and the disks that exist.
// Pure.
#pragma once

#include "machined/disk/devices/storage-server.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

struct SystemDisk {
  kj::String path;                // "/dev/vda"
  kj::Vector<kj::String> others;  // other disks that match diskSelector, and come later
};
// Throws FailedPrecondition, naming the requested disk and the disks that exist. diskSelector takes
// precedence over disk; the first of several matching disks is chosen.
SystemDisk chooseSystemDisk(kj::ArrayPtr<const DiskFacts> disks, config::Install::Reader install);

}  // namespace talos::machined
