// The volume STATE at /system/state, where the machine config is kept: the file system in the GPT
// partition of that name. A label does not count: whoever attaches a disk can give it one.
//
// A machine with a STATE was configured, and must not be taken for one that was not: that one would
// accept a config from anybody (maintenance mode). So there are these results:
//   mounted       exactly one partition has the name, and it is mounted, writable;
//   none          every disk was looked at, and none of them has such a partition, nor was this
//                 system started from one that has to have it;
//   waiting       it is empty, or encrypted by other keys than the machine's own, so that it needs
//                 the config, which has to come from elsewhere then; an encrypted one has an owner
//                 all the same (lockedProblem());
//   an exception  everything else, and the boot fails with its text: two of them, one that cannot
//                 be mounted, one that is read-only, a disk that does not answer or whose partition
//                 table is damaged, so that the answer is unknown.
//
// In a container the launcher has mounted a folder there, or nothing: no disk is looked at, for
// they are the host's, and the launcher unmounts what it mounted.
//
// A partition that is all zeros, as a reset leaves it, gets the encryption that the config asks
// for, and a file system (system-partitions.h). Otherwise nothing here writes to a disk: a volume
// that cannot be mounted is left alone. A restarted brain finds the mount of its predecessor and
// keeps it; the mount is attached in one step, so there is never half of one.
#pragma once

#include "machined/disk/volumes/system-partitions.h"
#include "machined/process1/uv-loop.h"

namespace talos::machined {

constexpr kj::StringPtr kStatePath = "/system/state"_kj;

// The one with this name, on this disk if one is given; none when certainly none is. Throws
// FailedPrecondition naming the devices and what is wrong with them (findNamed()).
kj::Maybe<const Volume&> findState(kj::ArrayPtr<const Volume> volumes,
                                   kj::StringPtr name = kStateName,
                                   kj::Maybe<kj::StringPtr> disk = nullptr);

enum class StateOn {
  kDisk,     // on one of the machine's, if any has it
  kOwnDisk,  // on the one that the boot loader took this system from
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

  // Before there is a config. Throws as said above.
  kj::Promise<void> mount();
  // The rest, when there is one, which says how it is encrypted. `name`: of one that is not STATE
  // yet, while it is being installed on `disk`: another one may have an attempt, too. Its keys are
  // left: the config that is stored on it counts, and may be another one.
  kj::Promise<void> mountWith(Encryption how, kj::StringPtr name = kStateName,
                              kj::Maybe<kj::StringPtr> disk = nullptr);
  // With the config that counts, while it is mounted: SystemPartitions::putRight().
  kj::Promise<void> putKeysRight(Encryption how);
  bool isMounted();
  // That it is encrypted and waits; none otherwise.
  kj::Maybe<kj::String> lockedProblem();

  // Its source; none when nothing is mounted, or a launcher has done it.
  kj::Maybe<kj::String> mounted();

  // With what a predecessor has opened and not mounted.
  kj::Promise<void> unmount();  // says what is wrong; tries for 5 s, process 1 does what is left

 private:
  UvLoop& uv;
  kj::Timer& timer;
  Volumes& volumes;
  SystemPartitions& partitions;
  StateOn on;
  kj::Function<void(kj::StringPtr line)> say;
  kj::String path;
  bool locked = false;
  enum class Partition { kNothing, kNone, kWaiting } partition = Partition::kNothing;

  kj::Promise<void> prepare();
  enum class Known { kNothing, kConfig };
  kj::Promise<void> mountWhatIsThere(kj::StringPtr name, Known known, Encryption how,
                                     kj::Maybe<kj::StringPtr> disk);
  kj::Promise<void> mountEarly(const Volume& volume);
  kj::Promise<void> mountIt(SystemPartitions::Mountable it);
};

}  // namespace talos::machined
