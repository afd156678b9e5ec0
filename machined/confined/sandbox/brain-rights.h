// The rights of the brain. It is root and does the work that needs root. The rights that it never
// uses are taken from it, and from all programs that it starts itself, before it reads its first
// byte. Process 1 keeps all rights, and starts the services. For the brain, it also starts the two
// processes that load modules and send raw commands to disks
// (machined/process1/helpers/kernel-helpers.h).
//
// docs/machined.md lists the capabilities with their reasons.
#pragma once

#include <kj/string.h>
#include <linux/capability.h>
#include <stdint.h>

namespace talos::confine {

struct BrainCapability {
  kj::StringPtr name;  // as in the documents
  unsigned number;
};
constexpr BrainCapability kBrainCapabilities[] = {
    {"CHOWN"_kj, CAP_CHOWN},
    {"DAC_OVERRIDE"_kj, CAP_DAC_OVERRIDE},
    {"FOWNER"_kj, CAP_FOWNER},
    {"FSETID"_kj, CAP_FSETID},
    {"KILL"_kj, CAP_KILL},
    {"SETGID"_kj, CAP_SETGID},
    {"SETUID"_kj, CAP_SETUID},
    {"SETPCAP"_kj, CAP_SETPCAP},
    {"NET_BIND_SERVICE"_kj, CAP_NET_BIND_SERVICE},
    {"NET_ADMIN"_kj, CAP_NET_ADMIN},
    {"IPC_LOCK"_kj, CAP_IPC_LOCK},
    {"SYS_PTRACE"_kj, CAP_SYS_PTRACE},
    {"SYS_ADMIN"_kj, CAP_SYS_ADMIN},
    {"SYS_NICE"_kj, CAP_SYS_NICE},
    {"SYS_TIME"_kj, CAP_SYS_TIME},
    {"MKNOD"_kj, CAP_MKNOD},
    {"SETFCAP"_kj, CAP_SETFCAP},
    {"SYSLOG"_kj, CAP_SYSLOG},
    {"SYS_RESOURCE"_kj, CAP_SYS_RESOURCE},
    {"SYS_TTY_CONFIG"_kj, CAP_SYS_TTY_CONFIG},
};

// Returns the mask, as in /proc/<pid>/status.
constexpr uint64_t brainCapabilities() {
  uint64_t mask = 0;
  for (auto& each : kBrainCapabilities) mask |= uint64_t{1} << each.number;
  return mask;
}

// Keeps only the brain's rights, as far as the process has them, sets no-new-privileges and a
// filter that refuses the other calls. For good; call it before there are threads.
void keepBrainRights();

}  // namespace talos::confine
