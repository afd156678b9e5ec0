// Where the kernel tells of the power button: the brain finds the place and opens the socket,
// process 1 holds it and reads it (machined/process1/init/power-button.h), so that it is heard
// whatever becomes of the brain.
#pragma once

#include <kj/function.h>

#include "machined/process1/process1.h"
#include "machined/process1/uv-loop.h"

namespace talos::machined {

// Resolves when process 1 listens; a predecessor may have done it. `say` is told when this machine
// has no such button: no ACPI. A crash before the end leaves it to the next brain.
kj::Promise<void> listenForPowerButton(UvLoop& uv, Process1& process1,
                                       kj::Function<void(kj::StringPtr)> say);

}  // namespace talos::machined
