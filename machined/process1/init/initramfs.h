// The initramfs stage: from the kernel's first process to /sbin/init on the squashfs. It owns
// nothing afterwards: the old tree is deleted.
#pragma once

#include "machined/process1/init/init-console.h"

namespace talos::process1 {

constexpr const char* kRootImage = "/rootfs.sqsh";

// Ends in exec of /sbin/init with an empty environment, or reports why it cannot and stays.
[[noreturn]] void runInitramfs();

}  // namespace talos::process1
