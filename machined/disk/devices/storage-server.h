// The capability Storage (rpc/storage.capnp): the disks of the machine, as sysfs lists them at the
// moment of the call, and the values in the partition META.
#pragma once

#include "machined/disk/devices/block-devices.h"
#include "machined/disk/devices/meta-partition.h"
#include "machined/process1/client-call-limits.h"
#include "machined/process1/read-pool.h"
#include "rpc/storage.capnp.h"

namespace talos::machined {

struct DiskFacts {
  kj::String name;  // "vda"
  uint64_t bytes = 0;
  // Each is one clean line, empty if the disk does not report it.
  kj::String model, serial, modalias, uuid, wwid, ownName;
  // Path of the device below /sys/devices: "/pci0000:00/0000:00:05.0/virtio3/", with a final / if
  // the disk's own folder "block/NAME" follows; else with the disk's name: "/…/nvme/nvme0/nvme0n1".
  kj::String busPath;
  rpc::Disk::Type type = rpc::Disk::Type::UNKNOWN;
  uint64_t ioSize = 0, sectorSize = 0;  // of the smallest good and of the smallest possible access
  bool readOnly = false;

  // Returns how it is connected: nvme, sata, usb, virtio or mmc; empty if that is unknown.
  kj::StringPtr transport() const;
};
// In the order of comesBefore(). Blocking, like readBlockDevices().
kj::Vector<DiskFacts> readDisks(kj::StringPtr sys = "/sys");

// Returns the serial number in a unit serial number page (SPC-4 §7.8.17); empty if the page has
// none. The disk wrote the page, so any bytes are accepted.
kj::String serialOfPage(kj::ArrayPtr<const char> page);

// Returns the passphrase of a new key at this slot of STATE or EPHEMERAL.
using NewRecoveryKey = kj::ConstFunction<kj::Promise<kj::String>(kj::String volume, unsigned slot)>;

// Wipes the disks and partitions with these names, or refuses; `say` gets lines about the progress.
using WipeDevices = kj::ConstFunction<kj::Promise<void>(kj::Vector<kj::String> names, bool zeroes,
                                                        kj::Function<void(kj::StringPtr)> say)>;

// Serves one client. `meta` and the functions belong to the node and outlive the capability.
rpc::Storage::Client serveStorage(ReadPool& pool, MetaPartition& meta, NewRecoveryKey recovery,
                                  WipeDevices wipe, kj::Own<ClientCalls> calls,
                                  kj::StringPtr sys = "/sys");
// Serves a container, which has no disks: the disks in its sysfs belong to its host.
rpc::Storage::Client serveNoStorage();

}  // namespace talos::machined
