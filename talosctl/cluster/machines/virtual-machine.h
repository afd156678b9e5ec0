// A node as a virtual machine: one QEMU process, started with PR_SET_PDEATHSIG, so that it never
// outlives its supervisor, and watched through its pidfd. QEMU exits with status 0 when the machine
// is off. A machine reboots inside of QEMU, or, where the arguments say that it does not, in a new
// run: QEMU's last words on the monitor tell why it ended.
//
// It is paused by stopping QEMU, as a container is by freezing it: for the machine, its host has
// stalled. To switch it off in order, its ctrl-alt-del is pressed (through QMP, on a socket that it
// is born with), after QEMU was told that the reboot that follows is to be a power off. The ACPI
// power button does as much once process 1 listens to it, but nobody hears it in a machine that is
// still booting; there the kernel itself answers to ctrl-alt-del.
#pragma once

#include <kj/async-unix.h>
#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "talosctl/cluster/disks/instance.h"
#include "talosctl/cluster/processes/host-probe.h"

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
