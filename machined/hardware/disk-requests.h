// Requests the health of disks, for disk-health.h, and finds the disks to request it from.
//
// Sends only a command that reads and spins up no disk, and only to disks that are known to support
// it: NVMe disks get the admin command Get Log Page (linux/nvme_ioctl.h), disks of libata ATA
// PASS-THROUGH (linux/scsi/sg.h). Disks on USB or on controllers of SAS or RAID get no command:
// some of them stop at an unknown one.
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

// Lists them from sysfs, in the order of the disks. Blocking.
kj::Vector<DiskToAsk> disksToAsk(kj::StringPtr sys);

// Blocks until the disk answers, at most 10 s unless it hangs. Calls come from any thread;
// references are counted on one thread.
class DiskRequests : public kj::Refcounted {
 public:
  // Returns the bytes of the log page. Throws kj::Exception naming the disk.
  virtual kj::Array<kj::byte> nvmeHealth(kj::StringPtr disk) const = 0;
  // Returns the sense data of SMART RETURN STATUS. Throws likewise.
  virtual kj::Array<kj::byte> ataStatus(kj::StringPtr disk) const = 0;
};

// Sends the request in another process, because this one lacks the right
// (machined/process1/helpers/kernel-helpers.h).
using AtaStatus = kj::ConstFunction<helper::Answer(int disk)>;
kj::Own<DiskRequests> requestsToDisks(AtaStatus ataStatus);

}  // namespace talos::machined
