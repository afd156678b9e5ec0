// Parses --user-disk, additional disks of virtual machines, and creates the patch for their
// configs. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/cluster.capnp.h"
#include "talosctl/config/patches.h"

namespace talos::cluster {

struct UserDiskRequest {
  struct Partition {
    kj::String mountpoint, size;  // values as the user typed them
    uint64_t bytes;
  };
  kj::Vector<Partition> partitions;
  uint64_t bytes() const;  // size of the disk
};
// Parses "/var/lib/a:1GB:/var/lib/b:100MiB", one value for each disk. Throws InvalidArgument naming
// the flag and an example.
kj::Vector<UserDiskRequest> parseUserDisks(kj::ArrayPtr<const kj::String> given);

// Returns a patch that sets machine.disks of this node. Its user disks follow its other disks.
talosctl::Patch userDisksPatch(rpc::LocalNode::Reader node,
                               kj::ArrayPtr<const UserDiskRequest> disks);

}  // namespace talos::cluster
