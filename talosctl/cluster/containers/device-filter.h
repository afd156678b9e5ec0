// The device filter of a cgroup: a small BPF program that the kernel runs when a process of the
// cgroup opens or creates a device file. It applies to the whole tree below, in addition to other
// filters there, and disappears with the cgroup.
#pragma once

#include <kj/vector.h>
#include <linux/bpf.h>

#include "talosctl/cluster/containers/container-plan.h"

namespace talos::container {

// Allows to create device files, and to open the devices of the list. Pure.
kj::Vector<bpf_insn> deviceFilter(kj::ArrayPtr<const AllowedDevice> allowed);

// Attaches the filter to this cgroup (v2; hybrid hosts have v2 as well). Throws kFailedPrecondition
// naming the feature that the kernel lacks.
void attachDeviceFilter(kj::StringPtr cgroup, kj::ArrayPtr<const bpf_insn> program);

}  // namespace talos::container
