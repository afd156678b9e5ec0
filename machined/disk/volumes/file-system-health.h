// Watches whether the file systems on the disks of this node still work. When a disk fails a write
// of its journal, the kernel shuts an XFS down: from then on every operation on it fails, and only
// the kernel's log says so. A disk that does not answer is as bad.
//
// Each file system is checked every few seconds, by reading its first folder, which needs no access
// to the disk. The checks run in parallel, and a file system whose check has not ended is not
// checked again: a disk that hangs occupies one thread and does not delay the others. A problem is
// reported within a minute, and when it changes. It is not remembered: a restarted brain starts
// from nothing.
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
    // Returns the mount points of the node's file systems; other mounts from a disk (a volume of a
    // pod) come and go with their users. Called before each check; empty while the machine shuts
    // down, because an open folder keeps a file system from being unmounted.
    kj::Function<kj::Vector<kj::String>()> targets;
    // Returns the problem of its file system; nullptr if it works. Rejects if that is unknown now.
    kj::Function<kj::Promise<kj::Maybe<kj::String>>(kj::String target)> readFolder;
    // Gets problems(); `fresh` are those that have not been reported yet.
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
    kj::Maybe<kj::TimePoint> since = nullptr;  // start of the check that has not ended
    kj::ForkedPromise<void> look = nullptr;
  };
  Dependencies deps;
  kj::Vector<kj::Own<Watched>> all;  // in the order of mounts
  kj::Vector<kj::String> found;

  kj::Promise<void> take();
  kj::Promise<void> begin(Watched& watched);
  void reportChanges();
};

// `looks` needs a thread for each file system that hangs; the API's clients use other threads.
FileSystemWatch::Dependencies fileSystemsOfDisks(
    kj::Timer& timer, ReadPool& looks, kj::Function<kj::Vector<kj::String>()> targets,
    kj::Function<void(kj::ArrayPtr<const kj::StringPtr> fresh)> changed);

}  // namespace talos::machined
