#include "talosctl/cluster/containers/container-filters.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/syscall.h>

namespace talos::container {
namespace {

struct Asked {
  uint32_t access, kind, major, minor;
};

// Runs the program as the kernel does; -1 if its verifier would refuse the program.
int verdict(kj::ArrayPtr<const bpf_insn> code, Asked asked) {
  bpf_cgroup_dev_ctx context{asked.access << 16 | asked.kind, asked.major, asked.minor};
  uint64_t reg[11] = {};
  for (size_t at = 0; at < code.size(); ++at) {
    auto& it = code[at];
    auto skip = [&](bool yes) { at += yes ? it.off : 0; };
    switch (it.code) {
      case BPF_LDX | BPF_W | BPF_MEM: {
        uint32_t value;
        memcpy(&value, reinterpret_cast<const char*>(&context) + it.off, sizeof value);
        reg[it.dst_reg] = value;
        break;
      }
      case BPF_ALU64 | BPF_MOV | BPF_K:
        reg[it.dst_reg] = it.imm;
        break;
      case BPF_ALU64 | BPF_MOV | BPF_X:
        reg[it.dst_reg] = reg[it.src_reg];
        break;
      case BPF_ALU64 | BPF_RSH | BPF_K:
        reg[it.dst_reg] >>= it.imm;
        break;
      case BPF_ALU64 | BPF_AND | BPF_K:
        reg[it.dst_reg] &= it.imm;
        break;
      case BPF_JMP | BPF_JNE | BPF_K:
        skip(reg[it.dst_reg] != static_cast<uint32_t>(it.imm));
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        skip(reg[it.dst_reg] == static_cast<uint32_t>(it.imm));
        break;
      case BPF_JMP | BPF_EXIT:
        return static_cast<int>(reg[0]);
      default:
        return -1;
    }
  }
  return -1;
}

constexpr uint32_t kBoth = BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE;

// Catches: a jump that is off by one, a disk with the numbers of an allowed character device, an
// access requested together with the creation of the file, a minor number that is not compared.
TEST(DeviceFilter, OpensWhatIsListedAndMakesAnything) {
  auto code = deviceFilter(allowedDevices());
  auto chars = [&](uint32_t major, uint32_t minor, uint32_t access = kBoth) {
    return verdict(code, {access, BPF_DEVCG_DEV_CHAR, major, minor});
  };
  EXPECT_EQ(chars(1, 3), 1);
  EXPECT_EQ(chars(1, 9), 1);
  EXPECT_EQ(chars(5, 2, BPF_DEVCG_ACC_READ), 1);
  EXPECT_EQ(chars(136, 0), 1);
  EXPECT_EQ(chars(136, 999), 1);
  EXPECT_EQ(chars(10, 200), 1);
  EXPECT_EQ(chars(1, 1), 0) << "memory";
  EXPECT_EQ(chars(1, 11), 0) << "the kernel's log";
  EXPECT_EQ(chars(5, 1), 0) << "the console";
  EXPECT_EQ(chars(10, 232), 0) << "KVM";
  EXPECT_EQ(chars(4, 3), 0);
  for (uint32_t major : {1u, 5u, 8u, 136u, 254u}) {
    EXPECT_EQ(verdict(code, {kBoth, BPF_DEVCG_DEV_BLOCK, major, 3}), 0) << major;
    EXPECT_EQ(verdict(code, {BPF_DEVCG_ACC_MKNOD, BPF_DEVCG_DEV_BLOCK, major, 3}), 1) << major;
    EXPECT_EQ(verdict(code, {BPF_DEVCG_ACC_MKNOD | kBoth, BPF_DEVCG_DEV_BLOCK, major, 3}), 0);
  }
}

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
