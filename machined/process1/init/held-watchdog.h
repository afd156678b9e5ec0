// The machine's watchdog timer (Documentation/watchdog/watchdog-api.rst): hardware that resets the
// machine if its device is not written to within its timeout. The brain opens the device, sets the
// timeout (machined/system/watchdog.h) and hands the descriptor over under kWatchdog;
// process 1 feeds it each tick, as long as a brain is alive (brain-watchdog.cc).
//
// A crash of the brain at any line: before process 1 holds the device, the kernel closes it without
// the letter that stops it, so the timer continues, and the next brain has the timeout to open it
// again. After that only process 1 counts.
#pragma once

namespace talos::process1 {

constexpr char kWatchdog[] = "watchdog";

// Returns 0 or an errno.
int feedWatchdog(int fd);

// Feeds it for the last time, so that the machine has `seconds` to restart. A device that does not
// support so long a timeout keeps its own.
void feedUntilRestart(int fd, int seconds);

// Stops it when its last descriptor is closed, unless its driver does not allow this (nowayout).
void stopWatchdog(int fd);

}  // namespace talos::process1
