// What the machine's surroundings tell the brain: firmware, kernel, command line, environment; and
// the two places where it tells them its name. Thin.
#pragma once

#include "common/base/kernel-arguments.h"
#include "common/config/config.h"
#include "machined/boot/sequences.h"

namespace talos::machined {

kj::String smbiosUuid();  // empty where there is none
kj::String thisBootId();
config::Mode configMode(Mode mode);
kj::String platformOf(const KernelArguments& arguments);
kj::Maybe<kj::StringPtr> userData();

// To the kernel and to /etc/hostname.
void applyHostname(kj::StringPtr hostname, kj::StringPtr domainname);

// To listen at: of IPv6 too, where the kernel has it.
kj::StringPtr anyAddress();

}  // namespace talos::machined
