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

// Repeats the reason on the console, reaps, and goes down when it is told to: ctrl-alt-del (SIGINT)
// restarts, SIGTERM and SIGPWR switch off. Nobody listens for the power button there. Never by
// itself: a machine that restarts in a loop cannot be read. But for a system that is on trial:
// after 10 s it makes way for the one before it. Seconds that the kernel's command line gives a
// system to become healthy (talos.trial=); 0: it is not on trial.
unsigned trialSeconds(const char* commandLine);
unsigned trialSecondsHere();  // of this kernel; 0 in a container

[[noreturn]] void stayForEver(const Console& console, const char* what, int error);

}  // namespace talos::process1
