// The end of a node: stops everything, unmounts, syncs, then reboots or switches off. Also the end
// of a node that cannot continue: reports the error and halts.
#pragma once

#include "machined/process1/init/init-console.h"

namespace talos::process1 {

// Sends SIGTERM to all processes, SIGKILL to those that are left after the grace period, unmounts
// and syncs (unmount-all.h has the limit), and calls reboot(2) with `command`. Takes only as long
// as the processes: milliseconds if there are none. Call it only as process 1 (of a pid namespace),
// because it signals every process that it can see.
[[noreturn]] void shutDownMachine(unsigned command, int64_t termGraceMs, const Console& console);

// haltWithError() repeats the error on the console, reaps, and reboots on ctrl-alt-del (SIGINT) or
// powers off on SIGTERM and SIGPWR. The power button has no effect there. It never reboots by
// itself, because the messages of a machine that restarts in a loop cannot be read; but a system on
// trial is rebooted after 10 s into the system before it.
//
// trialSeconds() returns the seconds that the kernel's command line gives a system to become
// healthy (talos.trial=); 0: it is not on trial.
unsigned trialSeconds(const char* commandLine);
// Reads this kernel's command line; in a container the launcher's (inside-container.h).
unsigned trialSecondsOfCommandLine();

[[noreturn]] void haltWithError(const Console& console, const char* what, int error);

}  // namespace talos::process1
