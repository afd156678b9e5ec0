// Finds the content of a whole disk by libblkid: the partition table, the names of its partitions,
// file systems and members of arrays and volume groups. An installation and machine.disks refuse a
// disk that holds any of these (machined/disk/installer/disk-content.h).
//
// A partition is "NUMBER BEGIN BYTES ID ATTRIBUTES NAME", in bytes, with "-" for a missing ID; the
// table is "gpt ID". readFoundOnDisk() takes them apart.
//
// The disk is foreign; for any content, the answer has plain characters only (plain-text.h), and at
// most kMostPartitions and kMostVolumes of these (machined/confined/parser-client/foreign-bytes.h).
#pragma once

#include "rpc/parse.capnp.h"

namespace talos::parse {

// Probes `disk`, a readable descriptor of a device, or of a file with an image of a device. Throws
// Unavailable when libblkid cannot read it.
void probeDisk(int disk, rpc::FoundOnDisk::Builder out);

}  // namespace talos::parse
