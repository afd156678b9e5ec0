// The disks of machine.disks: partitioned if empty, with an XFS on each partition, and mounted
// where the config says, in its order; the i-th entry is the i-th partition.
//
// Data on a disk is never lost: a disk with other content, another number of partitions, or a
// partition without a file system ends the boot with a message about it, and nothing is written.
// The installer makes partitions and file systems together; after a power cut at any write the next
// boot continues (machined/disk/installer/user-disk-formatter.h). A restarted brain finds the
// mounts of its predecessor. Disks that appear late are waited for.
#pragma once

#include "machined/disk/volumes/installer-client.h"
#include "machined/disk/volumes/volume-search.h"
#include "machined/process1/uv-loop.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

struct UserDisk {
  struct Partition {
    uint64_t bytes;         // for the last one, 0: the remaining space
    kj::String mountpoint;  // as in the table of mounts, without a final /
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

  // Throws FailedPrecondition as described above.
  kj::Promise<void> mount(kj::Vector<UserDisk> disks);
  // Unmounts them in reverse order; reports failures, and leaves the rest to process 1.
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

// Returns the i-th partition of a disk, from 0, as the kernel shows it. Throws FailedPrecondition
// if it does not exist, or, naming its content, if it is neither empty nor an XFS. Pure.
const Volume& userPartition(kj::ArrayPtr<const Volume> volumes, kj::StringPtr device, size_t index);

}  // namespace talos::machined
