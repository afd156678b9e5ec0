// Creates the disks and folders of the nodes of a local cluster. A container has two folders, which
// can be read on this host:
//
//   <node>/state   STATE: its config
//   <node>/var     EPHEMERAL
//
// A virtual machine has disks, all sparse:
//
//   <node>.disk    empty: the node is installed on it, with a boot loader
//   <node>.state   a GPT with the partitions STATE, an empty XFS, and META: a node that is not
//                  installed keeps its config there. STATE is empty if the node will encrypt it
//   <node>.user-1  and so on: empty, of --user-disk
//   <node>.vars    variables of UEFI firmware
//
// A disk whose file is not writable by its mode (chmod a-w) is read-only from the next start of the
// machine on.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/cluster.capnp.h"

namespace talos::cluster {

// XFS needs at least 300 MiB; 2 MiB are for the partition table.
constexpr uint64_t kStateDiskBytes = 303u << 20;

// Creates the disks of a virtual machine. Throws NotFound if mkfs.xfs is missing, and Internal with
// its output if it fails.
void makeDisks(rpc::LocalCluster::Reader cluster, rpc::LocalNode::Reader node,
               kj::StringPtr stateFolder);

// Returns the files of a virtual machine's disks, in their order.
kj::Vector<kj::String> diskFiles(rpc::LocalNode::Reader node, kj::StringPtr stateFolder);

// Returns a file of the UEFI firmware in a tree; Debian's package ovmf.
kj::String firmwareFile(kj::StringPtr root, kj::StringPtr name);

// Returns true if a node is installed on its disk and can be started from it; false if the disk
// cannot be read.
bool isInstalled(rpc::LocalNode::Reader node, kj::StringPtr stateFolder);

// Returns true if the file's mode gives no user write permission: then the machine's disk is
// read-only. Throws if the file does not exist.
bool isWriteProtected(kj::StringPtr path);

// Returns true if the file has the identifier of an ISO 9660 volume (ECMA-119, 8.1.2). Throws if
// the file cannot be read.
bool isIso9660(kj::StringPtr path);

}  // namespace talos::cluster
