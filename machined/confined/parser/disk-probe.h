// The content of a whole disk, as libblkid finds it: the partition table, the names of its
// partitions, file systems and parts of arrays and groups. An installation and machine.disks refuse
// a disk that holds anything (machined/disk/installer/disk-content.h).
//
// The disk is foreign; whatever is on it, the answer has plain characters only (plain-text.h), and
// at most kMostPartitions and kMostVolumes of these
// (machined/confined/parser-client/foreign-bytes.h).
#pragma once

#include "rpc/parse.capnp.h"

namespace talos::parse {

// `disk`: a descriptor that can be read: of a device, or of a file that is an image of one. Throws
// Unavailable when libblkid cannot read it.
void probeDisk(int disk, rpc::FoundOnDisk::Builder out);

}  // namespace talos::parse
