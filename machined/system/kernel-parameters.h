// Kernel settings that the brain makes before anything else runs.
#pragma once

#include "common/kernel/kernel-arguments.h"

namespace talos::machined {

// Kernel parameters that hardening asks for and that are not there, one line each.
kj::Vector<kj::String> missingKsppParameters(const KernelArguments& arguments);

struct Sysctl {
  kj::StringPtr key, value;
};
// Those of KSPP and those that a Kubernetes node needs. For a container only those of its network
// namespace: all others would be its host's.
kj::ArrayPtr<const Sysctl> requiredSysctls(bool container);

struct SysctlResult {
  kj::Vector<kj::String> absent;   // keys of a module or an option that this kernel does not have
  kj::Vector<kj::String> refused;  // "key=value: why"
};
// Every link that there is goes on to take addresses and routes from router advertisements when
// this node forwards IPv6 (accept_ra is 2 where it is 1). Of later ones networkd sets it for those
// of the node; others are of pods, which are no routers of the node. Returns the links, "eth0"; one
// that refuses is left out.
kj::Vector<kj::String> acceptRouterAdvertisements(kj::StringPtr procSys);

// Attempts all of them below `procSys` ("/proc/sys").
SysctlResult writeSysctls(kj::StringPtr procSys, kj::ArrayPtr<const Sysctl> sysctls);

// Open files of this process: soft = hard = 1048576, or as many as a container's launcher allows.
void raiseFileLimit();

}  // namespace talos::machined
