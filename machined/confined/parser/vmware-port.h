// The port on which the hypervisor of VMware answers its guests ("backdoor"), as open-vm-tools uses
// it: an `in` instruction whose registers the hypervisor reads and replaces.
//
// VMware allows it to any process; elsewhere the instruction ends the process with SIGSEGV. So only
// the confined process executes it, after the processor has named its hypervisor.
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

// Throws FailedPrecondition when this machine is not on VMware, or its processors are not x86.
PortCall vmwarePort();

// Returns the name in leaf 0x40000000 of CPUID, "VMwareVMware"; empty if no hypervisor announces
// itself. `cpuid` executes the instruction for the leaf in EAX.
using Cpuid = kj::Function<void(PortRegisters& registers)>;
kj::String hypervisorName(Cpuid cpuid);

}  // namespace talos::parse
