// Kernel settings that the brain makes before anything else runs.
#pragma once

#include "common/kernel/kernel-arguments.h"

namespace talos::machined {

// Returns the kernel parameters that hardening needs and that are missing, one line each.
kj::Vector<kj::String> missingKsppParameters(const KernelArguments& arguments);

struct Sysctl {
  kj::StringPtr key, value;
};
// Returns the settings of KSPP and those that a Kubernetes node needs. For a container only those
// of its network namespace: all others would be its host's.
kj::ArrayPtr<const Sysctl> requiredSysctls(bool container);

struct SysctlResult {
  kj::Vector<kj::String> absent;   // keys of a module or an option that this kernel does not have
  kj::Vector<kj::String> refused;  // "key=value: error"
};
// Makes every existing link continue to take addresses and routes from router advertisements when
// this node forwards IPv6: sets accept_ra to 2 where it is 1. networkd sets it for the node's later
// links; other links belong to pods, which are not routers of the node. Returns the changed links,
// "eth0", without those that refuse.
kj::Vector<kj::String> acceptRouterAdvertisements(kj::StringPtr procSys);

// Attempts all of them below `procSys` ("/proc/sys").
SysctlResult writeSysctls(kj::StringPtr procSys, kj::ArrayPtr<const Sysctl> sysctls);

// Sets the open files of this process: soft = hard = 1048576, or as many as a container's launcher
// allows.
void raiseFileLimit();

}  // namespace talos::machined
