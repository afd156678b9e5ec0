// The port on which the hypervisor of VMware answers its guests ("backdoor"), as open-vm-tools uses
// it: an `in` instruction whose registers the hypervisor reads and replaces.
//
// VMware lets any process do that; elsewhere the instruction ends the process with SIGSEGV. So it
// is executed in the confined process alone, after the processor has said whose guest this is.
//
// Only x86 has such ports.
#pragma once

#include <kj/function.h>
#include <kj/string.h>
#include <stdint.h>

namespace talos::parse {

struct PortRegisters {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0, esi = 0, edi = 0;
};
using PortCall = kj::Function<void(PortRegisters& registers)>;

// FailedPrecondition when this machine is not on VMware, or its processors are not x86.
PortCall vmwarePort();

// The name in leaf 0x40000000 of CPUID, "VMwareVMware"; empty: no hypervisor says that it is there.
// `cpuid` executes the instruction for the leaf in EAX.
using Cpuid = kj::Function<void(PortRegisters& registers)>;
kj::String hypervisorName(Cpuid cpuid);

}  // namespace talos::parse
