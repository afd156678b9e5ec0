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
  // Each empty where the disk does not say; one clean line.
  kj::String model, serial, modalias, uuid, wwid, ownName;
  // Of the device below /sys/devices: "/pci0000:00/0000:00:05.0/virtio3/", with a / where the
  // disk's own folder "block/NAME" follows; else with the disk's name: "/…/nvme/nvme0/nvme0n1".
  kj::String busPath;
  rpc::Disk::Type type = rpc::Disk::Type::UNKNOWN;
};
// In the order of comesBefore(). Blocking, like readBlockDevices().
kj::Vector<DiskFacts> readDisks(kj::StringPtr sys = "/sys");

// The serial number in a unit serial number page (SPC-4 §7.8.17), which the disk wrote: anything is
// parsed. Empty when there is none.
kj::String serialOfPage(kj::ArrayPtr<const char> page);

// The passphrase of a new key at this slot of STATE or EPHEMERAL.
using NewRecoveryKey = kj::ConstFunction<kj::Promise<kj::String>(kj::String volume, unsigned slot)>;

// To one client. `meta` and `recovery` are the node's, and outlive it.
rpc::Storage::Client serveStorage(ReadPool& pool, MetaPartition& meta, NewRecoveryKey recovery,
                                  kj::Own<ClientCalls> calls, kj::StringPtr sys = "/sys");
// Of a container, which has no disks: those that sysfs shows are its host's.
rpc::Storage::Client serveNoStorage();

}  // namespace talos::machined
