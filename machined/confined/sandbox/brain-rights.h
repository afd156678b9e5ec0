// The rights of the brain. It is root and does the work that needs it; what it never does is taken
// from it, and from all programs that it starts itself, before it reads its first byte. Process 1
// keeps all rights, and starts the services. It also starts the two processes that load modules and
// ask disks by raw commands for the brain (machined/process1/helpers/kernel-helpers.h).
//
// docs/machined.md lists the capabilities with their reasons.
#pragma once

#include <kj/string.h>
#include <linux/capability.h>
#include <stdint.h>

namespace talos::confine {

struct BrainCapability {
  kj::StringPtr name;  // as the documents have it
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

// As a mask of /proc/<pid>/status.
constexpr uint64_t brainCapabilities() {
  uint64_t mask = 0;
  for (auto& each : kBrainCapabilities) mask |= uint64_t{1} << each.number;
  return mask;
}

// Keeps of the rights that it has those of the brain, sets no-new-privileges and a filter that
// refuses the other calls. For good; before there are threads.
void keepBrainRights();

}  // namespace talos::confine
