// The daemons that a node in a container runs when a developer looks at one of them alone: those
// that the argument talos.debug.services=networkd,vipd names, and those after which these start. A
// machine knows no such argument. Pure.
#pragma once

#include <kj/function.h>

#include <set>

#include "common/kernel/kernel-arguments.h"
#include "machined/brain/daemon-table.h"

namespace talos::machined {

// Ids; none: all daemons of the table. A name that no daemon has is said to `warn`, and chooses
// nothing.
kj::Maybe<std::set<kj::StringPtr>> chosenDaemons(const KernelArguments& arguments,
                                                 kj::ArrayPtr<const Daemon> table,
                                                 kj::FunctionParam<void(kj::StringPtr)> warn);

}  // namespace talos::machined
