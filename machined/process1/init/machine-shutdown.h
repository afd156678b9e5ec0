// The end of a node: stops everything, unmounts, syncs, then reboots or switches off. And the other
// end, of a node that cannot continue: it says why and halts.
#pragma once

#include "machined/process1/init/init-console.h"

namespace talos::process1 {

// SIGTERM to all processes, SIGKILL to those that are left after the grace, unmount and sync with a
// limit of 30 s, reboot(2) with `command`. As fast as the processes end: with nothing left to wait
// for it takes milliseconds. Only as process 1 (of a pid namespace), since it signals every process
// it can see.
[[noreturn]] void goDown(unsigned command, int64_t termGraceMs, const Console& console);

// Repeats the error on the console, reaps, and reboots on ctrl-alt-del (SIGINT) or powers off on
// SIGTERM and SIGPWR. The power button has no effect there. It never reboots by itself, because a
// machine that restarts in a loop cannot be read; but a system on trial is rebooted after 10 s into
// the one before it.
// The second function reads the seconds that the kernel's command line gives a system to become
// healthy (talos.trial=); 0: it is not on trial.
unsigned trialSeconds(const char* commandLine);
// Of this kernel; in a container those that its launcher passes (inside-container.h).
unsigned trialSecondsOfCommandLine();

[[noreturn]] void stayForEver(const Console& console, const char* what, int error);

}  // namespace talos::process1
