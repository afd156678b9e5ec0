// The volume EPHEMERAL at /var: logs, images and data of containers, which survive reboots, and
// whose loss costs no more than time.
//
// It is the file system in the GPT partition of that name. One that is empty gets an XFS; one that
// was being made when the power went is made again. It is the last partition of its disk, and has
// grown with the disk after mount(). Like STATE (state-volume.h) it is there whole, or not there,
// or the boot ends: two of that name, one that cannot be mounted, and one with something else on it
// are errors. It is on the disk of STATE, whose problems were reported before. How it is encrypted
// and opened: system-partitions.h.
//
// A restarted brain finds the mount of its predecessor and keeps it.
#pragma once

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

  // Encrypted as the config says. False: there is no such partition. Throws FailedPrecondition as
  // said above.
  kj::Promise<bool> mount(Encryption how);

  // Its source; none when nothing is mounted, or memory.
  kj::Maybe<kj::String> mounted();

  // It is about to be erased: nothing stays on STATE that it could be opened with. Does not reject.
  kj::Promise<void> forgetHeader() { return partitions.forgetHeader(kEphemeralName); }

  // Each says what is wrong, and leaves it to process 1. In this order; the partition last.
  kj::Promise<void> unmountBelow();
  kj::Promise<void> unmountOverlays();
  kj::Promise<void> unmountOtherPlaces();
  kj::Promise<void> unmount();  // with what a predecessor has opened and not mounted

 private:
  UvLoop& uv;
  kj::Timer& timer;
  Volumes& volumes;
  Installer& installer;
  SystemPartitions& partitions;
  kj::Function<void(kj::StringPtr line)> say;
  kj::String path;

  bool onDisk();
  kj::Promise<void> growPartition(const Volume& volume);
  kj::Promise<void> mountIt(SystemPartitions::Mountable it);
  kj::Promise<void> unmountAll(kj::Vector<kj::String> targets);
};

// True if its disk has room behind it.
bool canGrow(const Volume& ephemeral, kj::ArrayPtr<const Volume> volumes);

}  // namespace talos::machined
