// The device filter of a cgroup: a small BPF program that the kernel asks when a process of the
// cgroup opens or makes a device file. It is in force for the whole tree below, with any filter
// there besides, and goes with the cgroup.
#pragma once

#include <kj/vector.h>
#include <linux/bpf.h>

#include "talosctl/cluster/containers/container-plan.h"

namespace talos::container {

// Making device files is allowed, opening those of the list too. Pure.
kj::Vector<bpf_insn> deviceFilter(kj::ArrayPtr<const AllowedDevice> allowed);

// Puts the filter on this cgroup (of v2; hybrid hosts have one). Throws kFailedPrecondition saying
// what the kernel lacks.
void attachDeviceFilter(kj::StringPtr cgroup, kj::ArrayPtr<const bpf_insn> program);

}  // namespace talos::container
