#include "talosctl/cluster/containers/system-call-filter.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/syscall.h>

namespace talos::container {
namespace {

// Runs the program as the kernel does.
uint32_t verdict(uint32_t arch, uint32_t number) {
  auto code = systemCallFilter();
  seccomp_data data{};
  data.arch = arch;
  data.nr = static_cast<int>(number);
  uint32_t accumulator = 0;
  for (size_t at = 0; at < code.size(); ++at) {
    auto& it = code[at];
    switch (it.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        memcpy(&accumulator, reinterpret_cast<const char*>(&data) + it.k, sizeof accumulator);
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += accumulator == it.k ? it.jt : it.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        at += accumulator >= it.k ? it.jt : it.jf;
        break;
      case BPF_JMP | BPF_JA:
        at += it.k;
        break;
      case BPF_RET | BPF_K:
        return it.k;
      default:
        ADD_FAILURE() << "unknown operation " << it.code;
        return 0;
    }
  }
  ADD_FAILURE() << "runs off its end";
  return 0;
}

constexpr uint32_t kRefused = SECCOMP_RET_ERRNO | EPERM;

// Catches: a jump that is off by one; the 32-bit numbers taken for the 64-bit numbers, or all
// allowed; x32, which is another way to the same calls.
TEST(SystemCallFilter, RefusesOnEveryWay) {
  for (uint32_t number : {SYS_kexec_load, SYS_kexec_file_load, SYS_open_by_handle_at,
                          SYS_perf_event_open, SYS_syslog, SYS_swapon, SYS_swapoff}) {
    EXPECT_EQ(verdict(AUDIT_ARCH_X86_64, number), kRefused) << number;
    EXPECT_EQ(verdict(AUDIT_ARCH_X86_64, number | 0x40000000), kRefused) << number;
  }
  for (uint32_t number : {283u, 342u, 336u, 103u, 87u, 115u}) {
    EXPECT_EQ(verdict(AUDIT_ARCH_I386, number), kRefused) << number;
  }
  EXPECT_EQ(verdict(AUDIT_ARCH_AARCH64, SYS_read), kRefused);
}

// Catches: a container in which ordinary calls fail.
TEST(SystemCallFilter, AllowsEverythingElse) {
  for (uint32_t number : {SYS_read, SYS_mount, SYS_reboot, SYS_clone3, SYS_bpf, SYS_ptrace,
                          SYS_name_to_handle_at, SYS_seccomp}) {
    EXPECT_EQ(verdict(AUDIT_ARCH_X86_64, number), uint32_t(SECCOMP_RET_ALLOW)) << number;
  }
  for (uint32_t number : {1u, 3u, 4u, 88u}) {
    EXPECT_EQ(verdict(AUDIT_ARCH_I386, number), uint32_t(SECCOMP_RET_ALLOW)) << number;
  }
}

}  // namespace
}  // namespace talos::container
