// Limits the daemons of a node in a container, for a developer who examines one of them: only the
// daemons in the argument talos.debug.services=networkd,vipd run, and the daemons that must start
// before them. Outside of containers the argument has no meaning. Pure.
#pragma once

#include <kj/function.h>

#include <set>

#include "common/kernel/kernel-arguments.h"
#include "machined/brain/daemon-table.h"

namespace talos::machined {

// Returns ids; nullptr: all daemons of the table. An unknown name is reported to `warn`, and
// chooses nothing.
kj::Maybe<std::set<kj::StringPtr>> chosenDaemons(const KernelArguments& arguments,
                                                 kj::ArrayPtr<const Daemon> table,
                                                 kj::FunctionParam<void(kj::StringPtr)> warn);

}  // namespace talos::machined
