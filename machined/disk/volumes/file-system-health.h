// Watches if the file systems on the disks of this node still work. When a disk fails a write of
// its journal, the kernel shuts an XFS down: from there on every operation on it fails, and only
// the kernel's log says so. A disk that does not answer is no better.
//
// Each is looked at every few seconds, by reading its first folder, which needs no access to the
// disk. They are looked at side by side, and one whose look has not ended is not looked at again: a
// disk that hangs costs one thread, and says nothing of the others. A problem is reported within a
// minute, and when it changes; it is not remembered: a restarted brain starts from nothing.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>
#include <kj/vector.h>

#include "machined/process1/read-pool.h"

namespace talos::machined {

class FileSystemWatch {
 public:
  struct Dependencies {
    kj::Timer& timer;
    kj::Function<kj::Promise<kj::String>()> mounts;  // the text of mountinfo
    // Where the file systems of the node are to be mounted; what else is mounted from a disk (a
    // volume of a pod) comes and goes with others. Asked before each look; none while the machine
    // goes down, when a folder that is open keeps a file system from being unmounted.
    kj::Function<kj::Vector<kj::String>()> targets;
    // The problem with its file system; none: it works. Rejects when that cannot be found out now.
    kj::Function<kj::Promise<kj::Maybe<kj::String>>(kj::String target)> readFolder;
    // problems(); `fresh`: those of them that have not been reported.
    kj::Function<void(kj::ArrayPtr<const kj::StringPtr> fresh)> changed;
  };
  explicit FileSystemWatch(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(FileSystemWatch);

  kj::Promise<void> watch();  // does not end
  // "EPHEMERAL: the file system of /dev/vda6 failed: …", in the order of mounts.
  kj::ArrayPtr<const kj::String> problems() const { return found; }

 private:
  struct Watched {
    kj::String source, target;
    kj::Maybe<kj::String> wrong = nullptr;
    kj::Maybe<kj::TimePoint> since = nullptr;  // when the look began that has not ended
    kj::ForkedPromise<void> look = nullptr;
  };
  Dependencies deps;
  kj::Vector<kj::Own<Watched>> all;  // in the order of mounts
  kj::Vector<kj::String> found;

  kj::Promise<void> take();
  kj::Promise<void> begin(Watched& watched);
  void reportChanges();
};

// `looks` has a thread for each that hangs; clients of the API have others.
FileSystemWatch::Dependencies fileSystemsOfDisks(
    kj::Timer& timer, ReadPool& looks, kj::Function<kj::Vector<kj::String>()> targets,
    kj::Function<void(kj::ArrayPtr<const kj::StringPtr> fresh)> changed);

}  // namespace talos::machined
