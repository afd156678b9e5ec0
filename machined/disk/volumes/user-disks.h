// The disks of machine.disks: partitioned if they are empty, an XFS on each partition, and mounted
// where the config says, in its order; the i-th entry is the i-th partition.
//
// Data on a disk is never lost: one that holds something else, another number of partitions, or one
// without a file system ends the boot with what was found, and nothing was written. The installer
// makes partitions and file systems together; after a power cut at any write the next boot goes on
// (machined/disk/installer/user-disk-formatter.h). A restarted brain finds what its predecessor has
// mounted. A disk that comes late is waited for.
#pragma once

#include "machined/disk/volumes/installer-client.h"
#include "machined/disk/volumes/volume-search.h"
#include "machined/process1/uv-loop.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

struct UserDisk {
  struct Partition {
    uint64_t bytes;         // 0, of the last one: the rest
    kj::String mountpoint;  // as the table of mounts has it, without a / at its end
  };
  kj::String device;  // /dev/vdb
  kj::Vector<Partition> partitions;
};

kj::Vector<UserDisk> userDisksOf(config::Machine::Reader machine);

class UserDisks {
 public:
  UserDisks(UvLoop& uv, kj::Timer& timer, Volumes& volumes, Installer& installer,
            kj::Function<void(kj::StringPtr line)> say,
            kj::StringPtr mountinfo = "/proc/self/mountinfo")
      : uv(uv),
        timer(timer),
        volumes(volumes),
        installer(installer),
        say(kj::mv(say)),
        mountinfo(kj::str(mountinfo)) {}

  // Throws FailedPrecondition as said above.
  kj::Promise<void> mount(kj::Vector<UserDisk> disks);
  // The last one first; says what is wrong, and leaves it to process 1.
  kj::Promise<void> unmount(kj::Vector<UserDisk> disks);

 private:
  UvLoop& uv;
  kj::Timer& timer;
  Volumes& volumes;
  Installer& installer;
  kj::Function<void(kj::StringPtr line)> say;
  kj::String mountinfo;

  bool isMounted(kj::StringPtr mountpoint);
  kj::Promise<void> awaitDevice(kj::StringPtr device);
  kj::Promise<void> prepare(const UserDisk& disk);
  kj::Promise<void> mountOne(const Volume& volume, kj::StringPtr mountpoint);
};

// The i-th partition of a disk, from 0, as the kernel shows it. Throws FailedPrecondition when it
// is not there, or with what is on it when that is neither nothing nor an XFS. Pure.
const Volume& userPartition(kj::ArrayPtr<const Volume> volumes, kj::StringPtr device, size_t index);

}  // namespace talos::machined
