// The volume EPHEMERAL at /var: logs, images and data of containers, which survive reboots. Losing
// them costs only time.
//
// It is the file system in the GPT partition of that name. An empty partition gets an XFS; an XFS
// whose making was cut by a power loss is made again. Only volumes of documents are after it on its
// disk; mount() grows it into the free space in between. Like STATE (state-volume.h) it is mounted
// completely, or does not exist, or the boot ends: two partitions of that name, a file system that
// cannot be mounted, and other content are errors. It is on the disk of STATE, whose problems were
// reported before. For encryption and opening see system-partitions.h.
//
// A restarted brain finds and keeps the mount of its predecessor.
#pragma once

#include "common/disk/volume-size.h"
#include "machined/disk/volumes/system-partitions.h"
#include "machined/process1/uv-loop.h"

namespace talos::machined {

constexpr kj::StringPtr kVarPath = "/var"_kj, kEphemeralName = "EPHEMERAL"_kj;

class EphemeralVolume {
 public:
  EphemeralVolume(UvLoop& uv, kj::Timer& timer, Volumes& volumes, Installer& installer,
                  SystemPartitions& partitions, kj::Function<void(kj::StringPtr line)> say,
                  kj::StringPtr path = kVarPath)
      : uv(uv),
        timer(timer),
        volumes(volumes),
        installer(installer),
        partitions(partitions),
        say(kj::mv(say)),
        path(kj::str(path)) {}

  // Mounts it, encrypted as the config says. Resolves with false if no such partition exists.
  // Throws FailedPrecondition as described above.
  kj::Promise<bool> mount(Encryption how, EphemeralSize size = {},
                          EncryptionFrom from = EncryptionFrom::kMainDocument);

  // Returns the source of the mount; nullptr if nothing is mounted, or memory.
  kj::Maybe<kj::String> mounted();

  // Prepares its erasure: removes from STATE everything that could open it. Does not reject.
  kj::Promise<void> forgetHeader() { return partitions.forgetHeader(kEphemeralName); }

  // Each reports failures, and leaves the rest to process 1. Called in this order; the partition
  // last.
  kj::Promise<void> unmountBelow();
  kj::Promise<void> unmountOverlays();
  kj::Promise<void> unmountOtherPlaces();
  kj::Promise<void> unmount();  // also what a predecessor has opened and not mounted

 private:
  UvLoop& uv;
  kj::Timer& timer;
  Volumes& volumes;
  Installer& installer;
  SystemPartitions& partitions;
  kj::Function<void(kj::StringPtr line)> say;
  kj::String path;

  bool onDisk();
  kj::Promise<void> growPartition(const Volume& volume, const EphemeralSize& size);
  kj::Promise<void> mountIt(SystemPartitions::Mountable it);
  kj::Promise<void> unmountAll(kj::Vector<kj::String> targets);
};

// Returns true if there is free space after it that its size allows.
bool canGrow(const Volume& ephemeral, kj::ArrayPtr<const Volume> volumes,
             const EphemeralSize& size = {});
// The size that the document VolumeConfig[EPHEMERAL] sets.
EphemeralSize ephemeralSizeOf(config::Machine::Reader machine);
void fillEphemeralSize(rpc::EphemeralSize::Builder out, const EphemeralSize& size);

}  // namespace talos::machined
