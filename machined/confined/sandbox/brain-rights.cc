#include "machined/confined/sandbox/brain-rights.h"

#include <kj/debug.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "machined/confined/sandbox/seccomp.h"

namespace talos::confine {

void keepBrainRights() {
  constexpr uint64_t kept = brainCapabilities();
  for (unsigned c = 0;; ++c) {
    int has = prctl(PR_CAPBSET_READ, c, 0, 0, 0);
    if (has < 0) break;  // the kernel has no further capabilities
    if (has == 0 || (kept >> c & 1) != 0) continue;
    KJ_SYSCALL(prctl(PR_CAPBSET_DROP, c, 0, 0, 0), c);
  }
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2] = {};
  KJ_SYSCALL(syscall(SYS_capget, &header, data));
  for (unsigned i = 0; i < 2; ++i) {
    // Rights that the process lacks, as in a container, stay away.
    data[i].permitted &= static_cast<uint32_t>(kept >> (32 * i));
    data[i].effective = data[i].permitted;
    data[i].inheritable = 0;
  }
  KJ_SYSCALL(syscall(SYS_capset, &header, data));
  KJ_SYSCALL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  installBrainFilter();
}

}  // namespace talos::confine
