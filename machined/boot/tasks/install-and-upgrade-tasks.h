// Kernel command line that the tasks of an installation, and an upgrade, write.
#pragma once

#include "common/kernel/kernel-arguments.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

// Makes the kernel command line of an installed system from machine.install and the source of the
// config. Pure.
kj::String bootArgumentsOf(const KernelArguments& running, config::Install::Reader install);

}  // namespace talos::machined
