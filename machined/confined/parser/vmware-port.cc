#include "machined/confined/parser/vmware-port.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <string.h>

#include "common/base/error.h"
#include "common/base/version.h"
#include "machined/confined/parser-client/parser-messages.h"

namespace talos::parse {
namespace {

constexpr uint32_t kFeatures = 1, kHypervisorLeaf = 0x4000'0000;
constexpr uint32_t kHypervisorBit = 1u << 31;  // of ECX

#if defined(__x86_64__)
void askProcessor(PortRegisters& r) {
  __cpuid(r.eax, r.eax, r.ebx, r.ecx, r.edx);
}

void callPort(PortRegisters& r) {
  asm volatile("inl %%dx, %%eax"
               : "+a"(r.eax), "+b"(r.ebx), "+c"(r.ecx), "+d"(r.edx), "+S"(r.esi), "+D"(r.edi)
               :
               : "memory", "cc");
}
#endif

}  // namespace

kj::String hypervisorName(Cpuid cpuid) {
  PortRegisters features{.eax = kFeatures}, leaf{.eax = kHypervisorLeaf};
  cpuid(features);
  if ((features.ecx & kHypervisorBit) == 0) return kj::String();
  cpuid(leaf);
  const uint32_t parts[] = {leaf.ebx, leaf.ecx, leaf.edx};
  char name[sizeof parts + 1] = {};
  memcpy(name, parts, sizeof parts);
  return machined::oneLine(name, sizeof parts);
}

PortCall vmwarePort() {
#if defined(__x86_64__)
  auto name = hypervisorName(askProcessor);
  if (name != "VMwareVMware") {
    auto instead = name.size() == 0 ? kj::str("no hypervisor shows itself")
                                    : kj::str("its hypervisor is \"", name, "\"");
    fail(ErrorKind::kFailedPrecondition,
         kj::str("this machine is not on VMware: ", instead, "; use another talos.platform"));
  }
  return callPort;
#else
  fail(ErrorKind::kFailedPrecondition,
       kj::str("the platform vmware is not available on ", buildVersion().arch,
               ": its variables are behind a port of x86; use another talos.platform"));
#endif
}

}  // namespace talos::parse
