#include "talosctl/cluster/containers/container-filters.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/error.h"

namespace talos::container {
namespace {

// Registers of the program: r1 is the context, r0 the result.
constexpr uint8_t kAnswer = BPF_REG_0, kContext = BPF_REG_1, kAccess = BPF_REG_2,
                  kMajor = BPF_REG_3, kMinor = BPF_REG_4;

bpf_insn instruction(uint8_t code, uint8_t target, uint8_t source, int16_t offset, int32_t value) {
  bpf_insn made{};
  made.code = code;
  made.dst_reg = target;
  made.src_reg = source;
  made.off = offset;
  made.imm = value;
  return made;
}

bpf_insn load(uint8_t target, size_t offset) {
  return instruction(BPF_LDX | BPF_W | BPF_MEM, target, kContext, offset, 0);
}
bpf_insn unlessEqual(uint8_t reg, uint32_t value, int16_t skip) {
  return instruction(BPF_JMP | BPF_JNE | BPF_K, reg, 0, skip, value);
}

void answer(kj::Vector<bpf_insn>& code, bool allow) {
  code.add(instruction(BPF_ALU64 | BPF_MOV | BPF_K, kAnswer, 0, 0, allow));
  code.add(instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
}

}  // namespace

kj::Vector<bpf_insn> deviceFilter(kj::ArrayPtr<const AllowedDevice> allowed) {
  kj::Vector<bpf_insn> code;
  code.add(load(kAccess, offsetof(bpf_cgroup_dev_ctx, access_type)));
  code.add(load(kMajor, offsetof(bpf_cgroup_dev_ctx, major)));
  code.add(load(kMinor, offsetof(bpf_cgroup_dev_ctx, minor)));
  // access_type: the requested access << 16, the kind of device in the low half.
  auto asked = instruction(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_5, kAccess, 0, 0);
  code.add(asked);
  code.add(instruction(BPF_ALU64 | BPF_RSH | BPF_K, BPF_REG_5, 0, 0, 16));
  code.add(unlessEqual(BPF_REG_5, BPF_DEVCG_ACC_MKNOD, 2));
  answer(code, true);
  code.add(instruction(BPF_ALU64 | BPF_AND | BPF_K, kAccess, 0, 0, 0xffff));
  code.add(instruction(BPF_JMP | BPF_JEQ | BPF_K, kAccess, 0, 2, BPF_DEVCG_DEV_CHAR));
  answer(code, false);
  for (auto& device : allowed) {
    bool any = device.minor == kAnyMinor;
    code.add(unlessEqual(kMajor, device.major, any ? 2 : 3));
    if (!any) code.add(unlessEqual(kMinor, device.minor, 2));
    answer(code, true);
  }
  answer(code, false);
  return code;
}

void attachDeviceFilter(kj::StringPtr cgroup, kj::ArrayPtr<const bpf_insn> program) {
  auto check = [&](int64_t result, kj::StringPtr what) {
    if (result >= 0) return static_cast<int>(result);
    fail(ErrorKind::kFailedPrecondition,
         kj::str("cannot restrict the devices of containers: ", what, ": ", strerror(errno),
                 "; the kernel needs CONFIG_CGROUP_BPF"));
  };
  bpf_attr attributes{};
  attributes.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
  attributes.insns = reinterpret_cast<uint64_t>(program.begin());
  attributes.insn_cnt = program.size();
  attributes.license = reinterpret_cast<uint64_t>("Apache-2.0");
  kj::AutoCloseFd loaded(check(syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes),
                               "load the BPF program"));
  kj::AutoCloseFd folder(check(open(cgroup.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), cgroup));
  attributes = {};
  attributes.target_fd = folder.get();
  attributes.attach_bpf_fd = loaded.get();
  attributes.attach_type = BPF_CGROUP_DEVICE;
  // Filters of cgroups below must not replace this filter.
  attributes.attach_flags = BPF_F_ALLOW_MULTI;
  check(syscall(SYS_bpf, BPF_PROG_ATTACH, &attributes, sizeof attributes),
        "attach the BPF program");
}

namespace {

constexpr unsigned kRefused[] = {
    SYS_kexec_load, SYS_kexec_file_load, SYS_open_by_handle_at, SYS_perf_event_open,
    SYS_syslog,     SYS_swapon,          SYS_swapoff,
};
// The same system calls in the 32-bit interface, which has no kexec_file_load.
constexpr unsigned kRefused32[] = {283, 342, 336, 103, 87, 115};

constexpr unsigned kX32 = 0x40000000;  // bit of the calls of x32

class Program {
 public:
  kj::Vector<sock_filter> code;

  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, offset); }
  void answer(uint32_t what) { add(BPF_RET | BPF_K, what); }
  void refuse() { answer(SECCOMP_RET_ERRNO | EPERM); }
  // Skips the next `skip` instructions unless the loaded value is `value`.
  void unless(uint32_t value, uint8_t skip) { add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip); }
  void refuseEach(kj::ArrayPtr<const unsigned> numbers) {
    for (auto number : numbers) {
      unless(number, 1);
      refuse();
    }
    answer(SECCOMP_RET_ALLOW);
  }
  void add(uint16_t operation, uint32_t value, uint8_t yes = 0, uint8_t no = 0) {
    code.add(sock_filter{.code = operation, .jt = yes, .jf = no, .k = value});
  }
};

}  // namespace

kj::Vector<sock_filter> systemCallFilter() {
  Program program;
  constexpr uint8_t kLength32 = 2 + 2 * kj::size(kRefused32);
  program.load(offsetof(seccomp_data, arch));
  program.unless(AUDIT_ARCH_I386, kLength32);
  program.load(offsetof(seccomp_data, nr));
  program.refuseEach(kRefused32);
  program.unless(AUDIT_ARCH_X86_64, 1);
  program.add(BPF_JMP | BPF_JA, 1);
  program.refuse();
  program.load(offsetof(seccomp_data, nr));
  program.add(BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1);
  program.refuse();
  program.refuseEach(kRefused);
  return kj::mv(program.code);
}

}  // namespace talos::container
