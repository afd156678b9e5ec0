// Chooses the disk that the system is installed on, by machine.install and the disks that exist.
// Pure.
#pragma once

#include "common/cel/volume-selectors.h"
#include "machined/disk/devices/storage-server.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

struct SystemDisk {
  kj::String path;                // "/dev/vda"
  kj::Vector<kj::String> others;  // other disks that match diskSelector, and come later
};
// Throws FailedPrecondition, naming the requested disk and the disks that exist. diskSelector takes
// precedence over disk, and the expression of a document over both; the first of several matching
// disks is chosen. An expression selects no disk that is read-only.
SystemDisk chooseSystemDisk(kj::ArrayPtr<const DiskFacts> disks, config::Install::Reader install);

// Returns the properties of a disk in an expression. `path`: of the disk, "/dev/vda"; it and the
// facts must outlive the result.
cel::DiskProperties propertiesOf(const DiskFacts& facts, kj::StringPtr path);

}  // namespace talos::machined
