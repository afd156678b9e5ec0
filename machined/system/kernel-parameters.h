// What the brain sets in the kernel before anything else runs (spec boot-and-services.md §4.4,
// §5.5).
#pragma once

#include "common/base/kernel-arguments.h"

namespace talos::machined {

// Kernel parameters that hardening asks for and that are not there, one line each.
kj::Vector<kj::String> missingKsppParameters(const KernelArguments& arguments);

struct Sysctl {
  kj::StringPtr key, value;
};
// Those of KSPP and those that a Kubernetes node needs.
kj::ArrayPtr<const Sysctl> requiredSysctls(bool container);

// Attempts all of them below `procSys` ("/proc/sys"); throws what failed, joined. A key that this
// kernel does not have is returned instead: it belongs to a module or an option that is not there.
kj::Vector<kj::String> writeSysctls(kj::StringPtr procSys, kj::ArrayPtr<const Sysctl> sysctls);

// Open files of this process: soft = hard = 1048576.
void raiseFileLimit();

}  // namespace talos::machined
