// The machine's watchdog timer (Documentation/watchdog/watchdog-api.rst): hardware that resets the
// machine when nobody writes to its device for its timeout. The brain opens the device, sets the
// timeout (machined/system/watchdog-device.h) and hands the descriptor over under kWatchdog;
// process 1 feeds it each tick, as long as a brain is alive (brain-watchdog.cc).
//
// A crash of the brain at any line: before process 1 holds the device, the kernel closes it without
// the letter that stops it, so it goes on, and the next brain has the timeout to open it again.
// Afterwards only process 1 counts.
#pragma once

namespace talos::process1 {

constexpr char kWatchdog[] = "watchdog";

// Returns 0 or an errno.
int feedWatchdog(int fd);

// Feeds it for the last time: the machine has `seconds` to restart. A device that cannot wait for
// so long keeps its timeout.
void feedUntilRestart(int fd, int seconds);

// Stops it when its last descriptor is closed, unless its driver does not allow that (nowayout).
void stopWatchdog(int fd);

}  // namespace talos::process1
