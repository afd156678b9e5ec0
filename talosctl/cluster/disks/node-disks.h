// What the nodes of a local cluster store their files on. Of a container, two folders, so that a
// command on this host can look into them:
//
//   <node>/state   STATE: its config
//   <node>/var     EPHEMERAL
//
// Of a virtual machine, disks, all sparse:
//
//   <node>.disk    empty: what the node would be installed on, or, with a boot loader, is installed
//   on <node>.state   a GPT with the partitions STATE, an empty XFS, and META: where it keeps its
//   config
//                  over reboots, if it is not installed. STATE is empty when the node is to encrypt
//                  it
//   <node>.user-1  and so on: empty, of --user-disk
//   <node>.vars    of UEFI firmware: what it keeps
//
// A disk whose file's mode lets nobody write (chmod a-w) is read-only from the next start of the
// machine on.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/cluster.capnp.h"

namespace talos::cluster {

// 300 MiB are the smallest that XFS can be made on; 2 MiB are for the partition table.
constexpr uint64_t kStateDiskBytes = 303u << 20;

// Of a virtual machine. Throws NotFound when there is no mkfs.xfs, Internal with its output when it
// fails.
void makeDisks(rpc::LocalCluster::Reader cluster, rpc::LocalNode::Reader node,
               kj::StringPtr stateFolder);

// The files of a virtual machine's disks, in their order.
kj::Vector<kj::String> diskFiles(rpc::LocalNode::Reader node, kj::StringPtr stateFolder);

// A file of the UEFI firmware in a tree; Debian's package ovmf.
kj::String firmwareFile(kj::StringPtr root, kj::StringPtr name);

// Whether a node is installed on its disk, so that it can be started from it. False when the disk
// cannot be read.
bool isInstalled(rpc::LocalNode::Reader node, kj::StringPtr stateFolder);

// Whether nobody may write to this file, by its mode: the machine has a read-only disk then. Throws
// when it is not there.
bool isWriteProtected(kj::StringPtr path);

// Whether the file begins as an ISO 9660 volume does (ECMA-119 §8.1.2). Throws when it cannot be
// read.
bool isIso9660(kj::StringPtr path);

}  // namespace talos::cluster
