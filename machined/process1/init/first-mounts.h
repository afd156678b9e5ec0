// The file systems that the kernel provides, and where they go (spec boot-and-services §2.1, with
// one cgroup v2 tree in the place of the v1 ones).
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

// What the initramfs mounts and moves to the real root. Ends with an entry without target.
extern const PseudoMount kFirstMounts[];
// What lies below those and moves with them. Mounted in the initramfs too: the kernel asks user
// space for a module when bpf is mounted, and there is nobody to ask there, which is quick.
extern const PseudoMount kMoreMounts[];

// Mounts all of a table; the directory is made where it can be. What is mounted already (a
// container) stays. Returns the first required one that failed, with errno set, or nullptr; the
// others are logged.
const PseudoMount* mountAll(const PseudoMount* table, const Console& console);

}  // namespace talos::process1
