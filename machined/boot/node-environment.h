// Reads facts about the machine: firmware, kernel, command line, environment; and sets its host
// name. A thin layer.
//
// In a container the kernel and its command line belong to the host. The environment that the
// launcher gave process 1 is used instead (machined/process1/init/inside-container.h).
#pragma once

#include "common/config/config.h"
#include "common/kernel/kernel-arguments.h"
#include "machined/boot/sequences.h"
#include "machined/confined/parser-client/config-url-parameter.h"
#include "machined/process1/process1.h"

namespace talos::machined {

kj::String smbiosUuid();  // empty if missing
// Returns the variables that are known now. The address is that of the machine's first network
// card.
UrlVariables urlVariables();
// Returns the UUID in the byte order of Talos 0.9, whatever the version of SMBIOS: keys of volumes
// are derived from it.
kj::String systemUuid();
kj::String thisBootId();
config::Mode configMode(Mode mode);
kj::String platformOf(const KernelArguments& arguments);
// Returns the kernel's arguments; in a container, the arguments with which the launcher replaced
// the host's, and the host name as talos.hostname.
KernelArguments kernelArguments();
// Reads the launcher's USERDATA (base64) at each call; the caller zeroes the copy.
using UserData = kj::Function<kj::Maybe<kj::Array<char>>()>;
UserData userDataOf(Process1& process1);

// Sets the host name in the kernel and in /etc/hostname.
void applyHostname(kj::StringPtr hostname, kj::StringPtr domainname);

// Returns the address to listen on, which includes IPv6 if the kernel has it.
kj::StringPtr anyAddress();

}  // namespace talos::machined
