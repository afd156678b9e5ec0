// Reads the facts of the machine: firmware, kernel, command line, environment; and sets its host
// name. Thin.
//
// In a container the kernel and its command line are the host's, and the environment that the
// launcher gave process 1 counts instead (machined/process1/init/inside-container.h).
#pragma once

#include "common/config/config.h"
#include "common/kernel/kernel-arguments.h"
#include "machined/boot/sequences.h"
#include "machined/confined/parser-client/config-url-parameter.h"
#include "machined/process1/process1.h"

namespace talos::machined {

kj::String smbiosUuid();  // empty: none
// Of this machine, as far as they are known now. The address is that of its first network card.
UrlVariables urlVariables();
// In the byte order of Talos 0.9, whatever the version of SMBIOS: keys of volumes are made of it.
kj::String systemUuid();
kj::String thisBootId();
config::Mode configMode(Mode mode);
kj::String platformOf(const KernelArguments& arguments);
// The kernel's; in a container those that the launcher has put over the host's, and the host name
// as talos.hostname.
KernelArguments kernelArguments();
// Reads the launcher's USERDATA (base64) at each call; the caller zeroes the copy.
using UserData = kj::Function<kj::Maybe<kj::Array<char>>()>;
UserData userDataOf(Process1& process1);

// Sets it in the kernel and in /etc/hostname.
void applyHostname(kj::StringPtr hostname, kj::StringPtr domainname);

// The address to listen on: of IPv6 too, where the kernel has it.
kj::StringPtr anyAddress();

}  // namespace talos::machined
