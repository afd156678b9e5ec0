// The volume STATE at /system/state, which holds the machine config: the file system in the GPT
// partition of that name. A file system's label does not count: anyone who attaches a disk can
// choose it.
//
// A machine with a STATE was configured, and must not be taken for a new machine, which would
// accept a config from anyone (maintenance mode). The results are:
//   mounted       exactly one partition has the name; it is mounted, writable;
//   none          every disk was looked at, none has such a partition, and this system was not
//                 started from a disk that must have one;
//   waiting       it is empty, or encrypted with other keys than the machine's own, so that it
//                 needs the config, which must come from elsewhere; an encrypted one has an owner
//                 nevertheless (lockedProblem()). If a key server has the key, its next answer may
//                 open it, too (untilOpened());
//   an exception  everything else; the boot fails with its text: two partitions of the name, a file
//                 system that cannot be mounted or is read-only, or a disk that does not answer or
//                 whose partition table is damaged, so that the answer is unknown.
//
// In a container the launcher has mounted a folder at this path, or nothing. No disk is looked at,
// because the disks belong to the host; the launcher unmounts the folder.
//
// A partition that is all zeros, as a reset leaves it, gets the encryption that the config
// requests, and a file system (system-partitions.h). Otherwise this code does not write to disks: a
// volume that cannot be mounted is left alone. A restarted brain finds and keeps the mount of its
// predecessor; the mount is attached in one step, so it never exists in part.
#pragma once

#include "common/base/backoff.h"
#include "machined/disk/volumes/system-partitions.h"
#include "machined/process1/uv-loop.h"

namespace talos::machined {

constexpr kj::StringPtr kStatePath = "/system/state"_kj;

// Returns the volume with this name, on this disk if given; nullptr if certainly no disk has it.
// Throws FailedPrecondition naming the devices and their problems (findNamed()).
kj::Maybe<const Volume&> findState(kj::ArrayPtr<const Volume> volumes,
                                   kj::StringPtr name = kStateName,
                                   kj::Maybe<kj::StringPtr> disk = nullptr);

enum class StateOn {
  kDisk,     // on any of the machine's disks that has it
  kOwnDisk,  // on the disk that the boot loader took this system from
  kLauncher
};

class StateVolume {
 public:
  StateVolume(UvLoop& uv, kj::Timer& timer, Volumes& volumes, SystemPartitions& partitions,
              StateOn on, kj::Function<void(kj::StringPtr line)> say,
              kj::StringPtr path = kStatePath)
      : uv(uv),
        timer(timer),
        volumes(volumes),
        partitions(partitions),
        on(on),
        say(kj::mv(say)),
        path(kj::str(path)) {}

  // Mounts it before a config exists. Throws as described above.
  kj::Promise<void> mount();
  // Mounts it with a config, which says how it is encrypted, if mount() could not. `name`: another
  // name while STATE is being installed on `disk`; another disk may have an unfinished
  // installation, too. Its keys are left unchanged: the config that is stored on it counts, and may
  // be another one.
  kj::Promise<void> mountWith(Encryption how, kj::StringPtr name = kStateName,
                              kj::Maybe<kj::StringPtr> disk = nullptr);
  // Called with the config that counts, while it is mounted: SystemPartitions::putRight().
  kj::Promise<void> putKeysRight(Encryption how,
                                 EncryptionFrom from = EncryptionFrom::kMainDocument);
  bool isMounted();
  // Returns a message if it is encrypted and waits for keys; otherwise nullptr.
  kj::Maybe<kj::String> lockedProblem();
  // Returns nullptr unless it waits for a key server. Then the promise resolves when it is mounted:
  // mount() is tried again, after 5 s, 10 s, and so on up to 60 s, however long that takes, because
  // nothing else can open it.
  kj::Maybe<kj::Promise<void>> untilOpened();

  // Returns the source of the mount; nullptr if nothing is mounted, or a launcher has mounted it.
  kj::Maybe<kj::String> mounted();

  // Unmounts it, also a volume that a predecessor has opened and not mounted.
  kj::Promise<void> unmount();  // reports failures; tries for 5 s, process 1 does the rest

 private:
  UvLoop& uv;
  kj::Timer& timer;
  Volumes& volumes;
  SystemPartitions& partitions;
  StateOn on;
  kj::Function<void(kj::StringPtr line)> say;
  kj::String path;
  bool locked = false, served = false;  // served: by a key server, which has not opened it yet
  enum class Partition { kNothing, kNone, kWaiting } partition = Partition::kNothing;

  kj::Promise<void> prepare();
  enum class Known { kNothing, kConfig };
  kj::Promise<void> mountWhatIsThere(kj::StringPtr name, Known known, Encryption how,
                                     kj::Maybe<kj::StringPtr> disk);
  kj::Promise<void> mountEarly(const Volume& volume);
  kj::Promise<void> retry(Backoff pauses, kj::Duration limit);
  kj::Promise<void> mountIt(SystemPartitions::Mountable it);
};

}  // namespace talos::machined
