// The kernel helpers of this brain: the processes that load modules and send raw commands to disks,
// for which the brain has no right (machined/confined/sandbox/brain-rights.h).
//
// Process 1 starts them, because the brain and its own children gain no rights: one with SYS_MODULE
// (and SETPCAP, which two kernel parameters also need), one with SYS_RAWIO. A filter and Landlock
// leave them little else (machined/confined/kernel-helper). A helper that ends is restarted after a
// second; calls fail in between. The helpers end with the brain, and the next brain has its own.
#pragma once

#include <kj/async-unix.h>
#include <kj/timer.h>

#include "common/base/node-layout.h"
#include "machined/confined/kernel-helper/kernel-client.h"
#include "machined/process1/modprobe/kernel-modules.h"
#include "machined/process1/process1.h"

namespace talos::machined {

struct HelperPrograms {
  kj::StringPtr confine = kConfine;
  kj::StringPtr helper = kKernelHelper;
};

// Returns the command line of a helper: the exec wrapper with the options for all restrictions.
// Paths that the kernel does not have are left out.
kj::Array<kj::String> helperCommand(kj::StringPtr right, const HelperPrograms& programs);

class KernelHelpers {
 public:
  KernelHelpers(Process1& process1, kj::UnixEventPort& port, kj::Timer& timer,
                kj::Function<void(kj::StringPtr)> say, HelperPrograms programs = {});
  KJ_DISALLOW_COPY_AND_MOVE(KernelHelpers);

  // Runs the helpers until dropped. Calls made after this wait for the helper; earlier calls fail.
  kj::Promise<void> run();

  // These calls may be made from any thread, and block. The object outlives their results.
  //
  // Returns the modules of the running kernel, loaded by the helper.
  Modules openModules() const;
  // Sets a kernel parameter that needs one of these rights, by its path below /proc/sys. Returns 0
  // or an errno; nullptr for other parameters.
  kj::Maybe<int> setParameter(kj::StringPtr path, kj::StringPtr line) const;
  helper::Answer ataStatus(int disk) const { return rawIo.ataStatus(disk); }

 private:
  Process1& process1;
  kj::UnixEventPort& port;
  kj::Timer& timer;
  kj::Function<void(kj::StringPtr)> say;
  HelperPrograms programs;
  helper::KernelClient modules, rawIo;

  kj::Promise<void> keep(kj::StringPtr right, helper::KernelClient& client);
  kj::Promise<kj::AutoCloseFd> start(kj::StringPtr right, unsigned starts, int socket);
};

}  // namespace talos::machined
