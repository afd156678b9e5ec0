// The seccomp filter of a container. System calls that reach the host in spite of all capabilities
// and namespaces fail with EPERM: loading a kernel for kexec, opening files by handle (which
// reaches all of the host's file system), performance counters, the kernel's log, swap. Pure: the
// program of the kernel's filter.
#pragma once

#include <kj/vector.h>
#include <linux/filter.h>

namespace talos::container {

// For x86-64 and its 32-bit calls; a call of another architecture, or of x32, is refused.
kj::Vector<sock_filter> systemCallFilter();

}  // namespace talos::container
