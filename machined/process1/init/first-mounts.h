// The file systems that the kernel provides (/proc, /sys, /dev, one cgroup v2 tree and others) and
// where they are mounted.
#pragma once

#include "machined/process1/init/init-console.h"

namespace talos::process1 {

struct PseudoMount {
  const char* source;
  const char* target;
  const char* type;
  unsigned long flags;
  const char* data;
  bool required;
};

// Mounted by the initramfs and moved to the real root. Ends with an entry without target.
extern const PseudoMount kFirstMounts[];
// Mounted below those, and moved with them. Mounted in the initramfs too: the kernel asks user
// space for a module when bpf is mounted, and with no modprobe there it goes on at once.
extern const PseudoMount kMoreMounts[];

// Mounts all of a table; the directory is made where it can be. What is mounted already (a
// container) stays. Returns the first required one that failed, with errno set, or nullptr; the
// others are logged.
const PseudoMount* mountAll(const PseudoMount* table, const Console& console);

}  // namespace talos::process1
