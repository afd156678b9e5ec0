// The volume STATE at /system/state, where the machine config is kept (spec boot-and-services.md
// §2.1 group F): a file system labelled STATE, or the one in a GPT partition of that name.
//
// Nothing here writes to a disk: a volume that cannot be mounted is left alone, and the node uses
// the folder in memory. A restarted brain finds the mount of its predecessor and keeps it; the
// mount is attached in one step, so there is never half of one.
#pragma once

#include "machined/storage/volumes.h"

namespace talos::machined {

constexpr kj::StringPtr kStatePath = "/system/state"_kj;

struct StateChoice {
  kj::Maybe<const Volume&> volume;
  kj::Vector<kj::String> remarks;  // for the console, one line each
};
// XFS and ext4 only: what is kept there needs owners and modes. Of several the disk with the
// smaller name.
StateChoice chooseState(kj::ArrayPtr<const Volume> volumes);

class StateVolume {
 public:
  StateVolume(UvLoop& uv, kj::Timer& timer, Volumes& volumes,
              kj::Function<void(kj::StringPtr line)> say, kj::StringPtr path = kStatePath)
      : uv(uv), timer(timer), volumes(volumes), say(kj::mv(say)), path(kj::str(path)) {}

  // Neither throws: what is wrong is said.
  kj::Promise<void> mount();
  kj::Promise<void> unmount();  // tries for 5 s; process 1 does what is left

 private:
  UvLoop& uv;
  kj::Timer& timer;
  Volumes& volumes;
  kj::Function<void(kj::StringPtr line)> say;
  kj::String path;

  bool mounted();
  kj::Promise<void> mountWhatIsThere();
  kj::Promise<void> mountIt(const Volume& volume);
};

}  // namespace talos::machined
