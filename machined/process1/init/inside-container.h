// The differences of process 1 in a container, where kernel, clock, disks and file systems are the
// host's.
//
// The kernel decides this, not a setting: process 1 of any pid namespace but the first is in a
// container. Nothing of the host may depend on a variable that a launcher forgot to set.
#pragma once

#include "machined/process1/init/init-console.h"

namespace talos::process1 {

// Returns true outside of the kernel's first pid namespace, and if /proc is missing.
bool inContainer();

// Returns true if the launcher has mounted another file at cmdline of `proc`, with arguments as a
// boot loader passes them to a kernel. Otherwise the command line is the host's, and not about this
// node.
bool hasOwnCommandLine(const char* proc = "/proc");

// Returns the root of the cgroup tree (version 2): /sys/fs/cgroup, or `unified` below it on a host
// that also has version 1; "" if neither is mounted. `at` is for tests.
const char* findCgroupRoot(const char* at = "/sys/fs/cgroup");

// Returns the tree of version 1 that counts and limits memory on such a host; "" if there is no
// such tree.
const char* findMemoryRoot(const char* at = "/sys/fs/cgroup");

// Opens the console for the launcher: descriptor 1, opened again, because a reader that has stopped
// must never stop process 1. Descriptor 1 itself if this is not possible (a socket).
Console openContainerConsole(const char* prefix, int& fd);

// The launcher's settings from the environment. USERDATA is the machine config with its secrets:
// takeOver() moves it into a memory file, for the brains to read (held as kUserData), and zeroes
// its bytes in /proc/1/environ. Until then only root can read this file.
struct HandedOver {
  char platform[32] = "PLATFORM=container";
  char hostname[9 + 65] = "HOSTNAME=";  // the launcher's name for the node
  int userData = -1;                    // a sealed memory file, or -1
};
void takeOver(char** environment, HandedOver& out, const Console& console);

}  // namespace talos::process1
