#include "talosctl/cluster/containers/system-call-filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>

namespace talos::container {
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
