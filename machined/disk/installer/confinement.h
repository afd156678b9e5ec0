// The rights of the installer, which shrink as it works.
//
// The wrapper starts it with the system call filter `installer` and the capability to send commands
// to disks and to mount. While it can mount, it reads no foreign bytes; steps do. A step opens what
// it needs, names the paths that it still has to open, and enters. From then on Landlock leaves it
// only these paths and open descriptors; it cannot mount; and it has no capability, except that a
// step that works on a disk keeps the one that sends commands to disks. A ruleset cannot be changed
// for file systems that are mounted or made later. So a request that needs more rights after it has
// read something has several steps, each in its own process; the last one may be the program's
// first process. Steps end with the first process, and the first process ends with the brain.
//
// On a kernel without Landlock only the filter and the capabilities confine it.
#pragma once

#include <kj/function.h>
#include <kj/string.h>

#include "machined/confined/sandbox/landlock.h"

namespace talos::install {

// The work of a step after it has entered.
enum class StepKind {
  kFiles,  // reads and writes files
  kDisk,   // sends commands to disks, changes them, and makes file systems
};

class Confinement {
 public:
  virtual ~Confinement() noexcept(false) = default;

  // Confines this process permanently. NotFound naming a path that does not exist.
  virtual void enter(StepKind kind, confine::LandlockPaths paths) = 0;
  // Runs `body` to its end in a new process. Returns its result or throws its error, with kind and
  // message.
  virtual kj::String step(kj::Function<kj::String(Confinement&)> body) = 0;
};

class RealConfinement final : public Confinement {
 public:
  void enter(StepKind kind, confine::LandlockPaths paths) override;
  kj::String step(kj::Function<kj::String(Confinement&)> body) override;
};

// Returns the path that names an open descriptor, for a ruleset.
kj::String pathOf(int fd);
// Returns the devices that file system makers change, and the paths that these programs need
// themselves.
confine::LandlockPaths pathsToFormat(kj::ArrayPtr<const kj::String> devices);
// Returns the path of a mounted file system, or of a folder, by its descriptor.
confine::LandlockPaths pathsToWrite(int top);

}  // namespace talos::install
