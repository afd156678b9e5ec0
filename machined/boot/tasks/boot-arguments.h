// Makes the kernel command line of an installed system from machine.install and the source of the
// config. Pure.
#pragma once

#include "common/kernel/kernel-arguments.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

kj::String bootArgumentsOf(const KernelArguments& running, config::Install::Reader install);

}  // namespace talos::machined
