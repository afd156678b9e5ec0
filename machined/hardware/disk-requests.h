// Asks disks for their health: the edge below disk-health.h, and which disks there are to ask.
//
// Only a command that reads, and that no disk spins up for, is sent, and only to disks that are
// known to have it: NVMe by the admin command Get Log Page (linux/nvme_ioctl.h), and what libata
// drives by ATA PASS-THROUGH (linux/scsi/sg.h). A disk behind USB or a controller of SAS or RAID is
// not asked: some of them stop at a command that they do not know.
#pragma once

#include <kj/array.h>
#include <kj/function.h>
#include <kj/refcount.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "machined/confined/kernel-helper/kernel-request.h"

namespace talos::machined {

struct DiskToAsk {
  enum class Protocol { kNvme, kAta };
  kj::String name;  // nvme0n1, sda
  Protocol protocol;
};

// From sysfs, in the order of the disks. Blocking.
kj::Vector<DiskToAsk> disksToAsk(kj::StringPtr sys);

// Blocks until the disk answers, 10 s at most unless it hangs. Requests come from any thread;
// references are counted on one.
class DiskRequests : public kj::Refcounted {
 public:
  // The bytes of the log page. Throws kj::Exception naming the disk.
  virtual kj::Array<kj::byte> nvmeHealth(kj::StringPtr disk) const = 0;
  // The sense data of SMART RETURN STATUS. As above.
  virtual kj::Array<kj::byte> ataStatus(kj::StringPtr disk) const = 0;
};

// By another process, for want of a right (machined/process1/helpers/kernel-helpers.h).
using AtaStatus = kj::ConstFunction<helper::Answer(int disk)>;
kj::Own<DiskRequests> requestsToDisks(AtaStatus ataStatus);

}  // namespace talos::machined
