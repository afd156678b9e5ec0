// A node as a virtual machine: one QEMU process, started with PR_SET_PDEATHSIG, so that it never
// outlives its supervisor, and watched through its pidfd. QEMU exits with status 0 when the machine
// is off. A machine reboots inside QEMU or, with -no-reboot, in a new run: the last event on QEMU's
// monitor has the reason of the exit.
//
// Pausing stops QEMU, as freezing stops a container: for the machine, its host has stalled. For an
// orderly shutdown the machine gets ctrl-alt-del (through QMP, on an inherited socket), after QEMU
// was set to power off at the reboot that follows. The ACPI power button works only after process 1
// listens to it; a machine that is still booting ignores it, while the kernel itself handles
// ctrl-alt-del.
#pragma once

#include <kj/async-unix.h>
#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "talosctl/cluster/machines/qemu-program.h"
#include "talosctl/cluster/processes/node-instance.h"

namespace talos::cluster {

struct MachineLaunch {
  const Qemu& qemu;
  kj::Function<kj::Vector<kj::String>(int monitorFd)> arguments;
  kj::StringPtr folder;  // working folder
  int tap;               // passed to QEMU under its own number
  int log;               // destination of QEMU's own output
};

kj::Own<Instance> launchMachine(kj::UnixEventPort& port, kj::LowLevelAsyncIoProvider& lowLevel,
                                kj::Timer& timer, MachineLaunch launch);

}  // namespace talos::cluster
