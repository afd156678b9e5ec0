// Whether the file systems on the disks of this node still work. When a disk fails a write of its
// journal, the kernel shuts an XFS down: from there on all that is done on it fails, and nothing
// but the kernel's log says so. A disk that does not answer is no better.
//
// Each mounted one is looked at every few seconds, by reading its first folder, which costs no disk
// anything. What is wrong is told when it changes; it is not remembered: a restarted brain looks
// anew.
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
    kj::Function<kj::Promise<kj::String>()> mounts;                 // the text of mountinfo
    kj::Function<kj::Promise<void>(kj::String target)> readFolder;  // rejects with what is wrong
    kj::Function<void()> changed;                                   // problems()
  };
  explicit FileSystemWatch(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(FileSystemWatch);

  kj::Promise<void> watch();  // does not end
  // "EPHEMERAL: the file system of /dev/vda6 does not work any more: …", in the order of mounts.
  kj::ArrayPtr<const kj::String> problems() const { return found; }

 private:
  Dependencies deps;
  kj::Vector<kj::String> found;

  kj::Promise<kj::Vector<kj::String>> look();
};

FileSystemWatch::Dependencies fileSystemsOfDisks(kj::Timer& timer, ReadPool& pool,
                                                 kj::Function<void()> changed);

}  // namespace talos::machined
