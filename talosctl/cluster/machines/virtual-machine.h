// A node as a virtual machine: one QEMU process, started with PR_SET_PDEATHSIG, so that it never
// outlives its supervisor, and watched through its pidfd. QEMU exits with status 0 when the machine
// is off. A machine reboots inside of QEMU, or, with -no-reboot, in a new run: QEMU's last event on
// the monitor has the reason of its exit.
//
// It is paused by stopping QEMU, as a container is by freezing it: for the machine, its host has
// stalled. To shut it down in order, ctrl-alt-del is sent to it (through QMP, on an inherited
// socket), after QEMU was set to power off at the reboot that follows. The ACPI power button does
// the same once process 1 listens to it, but a machine that is still booting ignores it; there the
// kernel itself handles ctrl-alt-del.
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
  kj::StringPtr folder;  // that it runs in
  int tap;               // passed to it under its own number
  int log;               // where QEMU's own output goes
};

kj::Own<Instance> launchMachine(kj::UnixEventPort& port, kj::LowLevelAsyncIoProvider& lowLevel,
                                kj::Timer& timer, MachineLaunch launch);

}  // namespace talos::cluster
