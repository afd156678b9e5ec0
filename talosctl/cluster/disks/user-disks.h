// --user-disk: disks of virtual machines beside their own, and what their configs say of them.
// Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/cluster.capnp.h"
#include "talosctl/config/patches.h"

namespace talos::cluster {

struct UserDiskWish {
  struct Partition {
    kj::String mountpoint, size;  // as they were given
    uint64_t bytes;
  };
  kj::Vector<Partition> partitions;
  uint64_t bytes() const;  // of the disk
};
// "/var/lib/a:1GB:/var/lib/b:100MiB", one disk each. InvalidArgument, naming the flag and what
// would be right.
kj::Vector<UserDiskWish> parseUserDisks(kj::ArrayPtr<const kj::String> given);

// machine.disks of this node, whose user disks come behind its others.
talosctl::Patch userDisksPatch(rpc::LocalNode::Reader node, kj::ArrayPtr<const UserDiskWish> disks);

}  // namespace talos::cluster
