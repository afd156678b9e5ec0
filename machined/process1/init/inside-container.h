// How process 1 differs in a container, where kernel, clock, disks and file systems are the host's.
//
// The kernel says so, not a setting: process 1 of any pid namespace but the first is in a
// container. Nothing of the host may depend on a variable that a launcher forgot to set.
#pragma once

#include "machined/process1/init/init-console.h"

namespace talos::process1 {

// Not in the kernel's first pid namespace. True where /proc is missing.
bool inContainer();

// The launcher has put arguments of its own over the host's kernel command line, as a boot loader
// passes them to a kernel: another file is mounted at cmdline of `proc`. Without that the command
// line is the host's, and is not about this node.
bool hasOwnCommandLine(const char* proc = "/proc");

// The root of the tree of cgroups (version 2): /sys/fs/cgroup, or `unified` below it on a host that
// has version 1 beside it; "" when neither is mounted. `at` is for tests.
const char* findCgroupRoot(const char* at = "/sys/fs/cgroup");

// The tree of version 1 that memory is counted and limited in on such a host; "" when there is
// none.
const char* findMemoryRoot(const char* at = "/sys/fs/cgroup");

// Lines for whoever started the container: descriptor 1, opened anew, because a reader that has
// stopped must never stop process 1. Descriptor 1 itself where that is not possible (a socket).
Console openContainerConsole(const char* prefix, int& fd);

// The launcher's settings from the environment. USERDATA is the machine config with its secrets:
// its bytes are moved into a memory file, for the brains to read (held as kUserData), and zeroed
// where /proc/1/environ shows them. Until then that file can be read by root only.
struct HandedOver {
  char platform[32] = "PLATFORM=container";
  char hostname[9 + 65] = "HOSTNAME=";  // as the launcher named the node
  int userData = -1;                    // a sealed memory file; -1: there is none
};
void takeOver(char** environment, HandedOver& out, const Console& console);

}  // namespace talos::process1
