// The kernel's command line of a system that is installed: what machine.install says, and where the
// config came from. Pure.
#pragma once

#include "common/base/kernel-arguments.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

kj::String bootArgumentsOf(const KernelArguments& running, config::Install::Reader install);

}  // namespace talos::machined
