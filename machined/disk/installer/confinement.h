// The rights of the installer, which become fewer with what it does.
//
// The wrapper starts it with the system call filter `installer` and the capability to ask disks and
// to mount. As long as it can mount, it reads nothing that is foreign. A step does that: it opens
// what it needs, names the paths that it still has to open, and enters. From then on Landlock
// leaves it these paths and what is open; it mounts nothing any more; and it has no capability, but
// for one that works on a disk the one that asks disks. A ruleset cannot be changed for what is
// mounted or made later, so a request that needs more after it has read something has several
// steps, each a process of its own; the last one may be the program's first process. Steps end with
// that, and it with the brain.
//
// A kernel without Landlock has only the filter and the capabilities.
#pragma once

#include <kj/function.h>
#include <kj/string.h>

#include "machined/confined/sandbox/landlock.h"

namespace talos::install {

// The work of a step after it has entered.
enum class StepKind {
  kFiles,  // reads and writes files
  kDisk,   // asks and changes disks, and makes file systems
};

class Confinement {
 public:
  virtual ~Confinement() noexcept(false) = default;

  // Of this process, for good. NotFound naming a path that is not there.
  virtual void enter(StepKind kind, confine::LandlockPaths paths) = 0;
  // Runs it to its end in a process of its own, and returns its result or throws its error, kind
  // and message.
  virtual kj::String step(kj::Function<kj::String(Confinement&)> body) = 0;
};

class RealConfinement final : public Confinement {
 public:
  void enter(StepKind kind, confine::LandlockPaths paths) override;
  kj::String step(kj::Function<kj::String(Confinement&)> body) override;
};

// The path by which a descriptor that is open is named, for a ruleset.
kj::String pathOf(int fd);
// The devices that programs which make file systems change, and what these programs need
// themselves.
confine::LandlockPaths pathsToFormat(kj::ArrayPtr<const kj::String> devices);
// Mounted file systems, or folders, by their descriptors.
confine::LandlockPaths pathsToWrite(int top);

}  // namespace talos::install
