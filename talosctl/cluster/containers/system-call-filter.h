// The seccomp filter of a container. System calls that affect the host despite dropped capabilities
// and namespaces fail with EPERM: loading a kernel for kexec, opening files by handle (which
// reaches the host's whole file system), performance counters, the kernel's log, swap. Pure:
// returns the program of the kernel's filter.
#pragma once

#include <kj/vector.h>
#include <linux/filter.h>

namespace talos::container {

// Returns the filter for x86-64 and its 32-bit calls; calls of another architecture, or of x32, are
// refused.
kj::Vector<sock_filter> systemCallFilter();

}  // namespace talos::container
