// Parses --user-disk, additional disks of virtual machines, and makes the patch for their configs.
// Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/cluster.capnp.h"
#include "talosctl/config/patches.h"

namespace talos::cluster {

struct UserDiskRequest {
  struct Partition {
    kj::String mountpoint, size;  // as given
    uint64_t bytes;
  };
  kj::Vector<Partition> partitions;
  uint64_t bytes() const;  // of the disk
};
// "/var/lib/a:1GB:/var/lib/b:100MiB", one disk each. Throws InvalidArgument naming the flag and an
// example.
kj::Vector<UserDiskRequest> parseUserDisks(kj::ArrayPtr<const kj::String> given);

// Sets machine.disks of this node. Its user disks come after its others.
talosctl::Patch userDisksPatch(rpc::LocalNode::Reader node,
                               kj::ArrayPtr<const UserDiskRequest> disks);

}  // namespace talos::cluster
