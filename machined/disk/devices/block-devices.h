// The block devices of the machine, as the kernel lists them in sysfs.
//
// Blocking (a file or two for each device): for the thread pool. A device that disappears while its
// files are read is left out. The root of sysfs is a parameter, so that tests can pass their own.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos::machined {

struct BlockDevice {
  kj::String name;           // "vda1"; its node is /dev/<name>
  kj::String disk;           // the disk it belongs to; for a whole disk, its own name
  kj::String partitionName;  // in the GPT; empty if it has no name
  uint64_t begin = 0;        // of a partition on its disk, in bytes
  uint64_t bytes = 0;
  bool whole = true;
  bool readOnly = false;
  bool cdrom = false;
  bool held = false;  // in use by another device, such as an array or an open encrypted volume
  // Sequence number of its disk: when another disk takes the name, the number changes. 0 if the
  // kernel does not report it.
  uint64_t sequence = 0;
  kj::String mapping;     // of an opened encrypted volume: "vda5-encrypted"
  kj::String openedFrom;  // "vda5"

  kj::String node() const {
    return mapping.size() > 0 ? kj::str("/dev/mapper/", mapping) : kj::str("/dev/", name);
  }
};

// Disks, their partitions and CD-ROM drives (not loop, RAM and mapped devices), in the order of
// comesBefore().
kj::Vector<BlockDevice> readBlockDevices(kj::StringPtr sys = "/sys");

// Returns the open encrypted volumes ("dm-0"), in the order of comesBefore() too.
kj::Vector<BlockDevice> readOpenVolumes(kj::StringPtr sys = "/sys");

// Returns the names of mapped devices ("vda5-encrypted").
kj::Vector<kj::String> readMappings(kj::StringPtr sys = "/sys");

// Compares disk names in the kernel's own order: vda, vdb, … vdz, vdaa; a disk before its
// partitions, sda2 before sda10.
bool comesBefore(kj::StringPtr a, kj::StringPtr b);

// Returns false for devices that are made of memory, files or other devices.
bool isDiskName(kj::StringPtr name);

}  // namespace talos::machined
