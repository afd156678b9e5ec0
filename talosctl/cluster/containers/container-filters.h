// Filters that the kernel applies to a container: of devices, and of system calls.
//
// The device filter of a cgroup is a small BPF program that the kernel runs when a process of the
// cgroup opens or creates a device file. It applies to the whole tree below, in addition to other
// filters there, and disappears with the cgroup.
#pragma once

#include <kj/vector.h>
#include <linux/bpf.h>
#include <linux/filter.h>

#include "talosctl/cluster/containers/container-plan.h"

namespace talos::container {

// Allows to create device files, and to open the devices of the list. Pure.
kj::Vector<bpf_insn> deviceFilter(kj::ArrayPtr<const AllowedDevice> allowed);

// Attaches the filter to this cgroup (v2; hybrid hosts have v2 as well). Throws kFailedPrecondition
// naming the feature that the kernel lacks.
void attachDeviceFilter(kj::StringPtr cgroup, kj::ArrayPtr<const bpf_insn> program);

// The seccomp filter of a container. System calls that affect the host despite dropped capabilities
// and namespaces fail with EPERM: loading a kernel for kexec, opening files by handle (which
// reaches the host's whole file system), performance counters, the kernel's log, swap. Pure:
// returns the program of the kernel's filter.

// Returns the filter for x86-64 and its 32-bit calls; calls of another architecture, or of x32, are
// refused.
kj::Vector<sock_filter> systemCallFilter();

}  // namespace talos::container
