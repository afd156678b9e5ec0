// The kernel helpers of this brain: the processes that load modules and ask disks by raw commands,
// for which the brain has no right (machined/confined/sandbox/brain-rights.h).
//
// Process 1 starts them, because the brain and its own children gain no rights: one with SYS_MODULE
// (and SETPCAP, which two kernel parameters ask for as well), one with SYS_RAWIO. A filter and
// Landlock leave them little else (machined/confined/kernel-helper). One that ends is started again
// after a second; calls fail in between. They end with the brain, and the next one has its own.
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

// The command line of a helper: the exec wrapper with all that it takes away. Paths that the kernel
// does not have are left out.
kj::Array<kj::String> helperCommand(kj::StringPtr right, const HelperPrograms& programs);

class KernelHelpers {
 public:
  KernelHelpers(Process1& process1, kj::UnixEventPort& port, kj::Timer& timer,
                kj::Function<void(kj::StringPtr)> say, HelperPrograms programs = {});
  KJ_DISALLOW_COPY_AND_MOVE(KernelHelpers);

  // Until dropped. Calls may be made from then on, and wait for the helper; before it they fail.
  kj::Promise<void> run();

  // All from any thread, and blocking. The object outlives what is returned.
  //
  // Modules of the running kernel, by the helper.
  Modules openModules() const;
  // A kernel parameter that asks for one of these rights, by its path below /proc/sys: 0 or an
  // errno. None: it is not one of these.
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
