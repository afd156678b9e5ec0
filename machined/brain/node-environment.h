// What the machine's surroundings tell the brain: firmware, kernel, command line, environment; and
// the two places where it tells them its name. Thin.
//
// In a container the kernel and its command line are the host's, and what counts is what process 1
// was given by the launcher (machined/process1/init/inside-container.h).
#pragma once

#include "common/base/kernel-arguments.h"
#include "common/config/config.h"
#include "machined/boot/sequences.h"
#include "machined/process1/process1.h"

namespace talos::machined {

kj::String smbiosUuid();  // empty where there is none
// As the original reads it, whatever the version of SMBIOS: what keys of volumes are made of.
kj::String systemUuid();
kj::String thisBootId();
config::Mode configMode(Mode mode);
kj::String platformOf(const KernelArguments& arguments);
// Of the kernel; in a container its host name is all that is given, as talos.hostname.
KernelArguments kernelArguments();
// Reads the launcher's USERDATA (base64), each time that it is called; the copy is its caller's to
// zero.
using UserData = kj::Function<kj::Maybe<kj::Array<char>>()>;
UserData userDataOf(Process1& process1);

// To the kernel and to /etc/hostname.
void applyHostname(kj::StringPtr hostname, kj::StringPtr domainname);

// To listen at: of IPv6 too, where the kernel has it.
kj::StringPtr anyAddress();

}  // namespace talos::machined
