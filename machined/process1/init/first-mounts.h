// The file systems that the kernel provides (/proc, /sys, /dev, one cgroup v2 tree and others) and
// their mount points.
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

// File systems that the initramfs mounts and moves to the real root. Ends with an entry without
// target.
extern const PseudoMount kFirstMounts[];
// File systems below those, moved with them. The initramfs mounts them too: the kernel requests a
// module from user space when bpf is mounted, and without modprobe the kernel continues
// immediately.
extern const PseudoMount kMoreMounts[];

// Mounts all of a table, and makes the directories where possible. Existing mounts (in a container)
// stay. Returns the first required one that failed, with errno set, or nullptr; logs the others.
const PseudoMount* mountAll(const PseudoMount* table, const Console& console);

}  // namespace talos::process1
