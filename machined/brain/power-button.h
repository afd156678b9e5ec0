// Subscribes to the kernel's events of the power button. The brain finds the netlink group and
// opens the socket; process 1 holds and reads it (machined/process1/init/power-button.h), so that
// the button works without the brain.
#pragma once

#include <kj/function.h>

#include "machined/process1/helpers/kernel-helpers.h"
#include "machined/process1/uv-loop.h"

namespace talos::machined {

// Resolves when process 1 listens, perhaps since a predecessor's call. Calls `print` on a machine
// without ACPI. If the brain crashes before that, the next brain subscribes.
kj::Promise<void> listenForPowerButton(UvLoop& uv, Process1& process1, const KernelHelpers& helpers,
                                       kj::Function<void(kj::StringPtr)> print);

}  // namespace talos::machined
