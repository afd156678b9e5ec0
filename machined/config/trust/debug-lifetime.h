// The lifetime of etcd's and Kubernetes' certificates on a node in a container where a developer
// observes their renewal: the argument talos.debug.certificates=10m. A machine ignores this
// argument. Pure.
#pragma once

#include <kj/function.h>
#include <kj/time.h>

#include "common/kernel/kernel-arguments.h"

namespace talos::machined {

// Returns `usual` without the argument, or if it is not a duration from a minute to the usual one;
// reports such a value to `warn`.
kj::Duration certificateLifetime(const KernelArguments& arguments, kj::StringPtr platform,
                                 kj::Duration usual, kj::FunctionParam<void(kj::StringPtr)> warn);

}  // namespace talos::machined
