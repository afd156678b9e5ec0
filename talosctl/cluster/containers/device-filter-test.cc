#include "talosctl/cluster/containers/device-filter.h"

#include <gtest/gtest.h>
#include <string.h>

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

}  // namespace
}  // namespace talos::container
