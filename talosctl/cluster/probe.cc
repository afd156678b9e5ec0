#include "talosctl/cluster/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"

namespace talos::cluster {
namespace {

constexpr int kWorks = 42;  // exit status that no failure has

// In a child of its own: KVM_RUN may never return.
[[noreturn]] void runThreeInstructions() {
  alarm(2);
  // mov dx, 0x3f8; mov al, 'x'; out dx, al
  const unsigned char code[] = {0xba, 0xf8, 0x03, 0xb0, 'x', 0xee};
  int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
  int vm = kvm < 0 ? -1 : ioctl(kvm, KVM_CREATE_VM, 0);
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (vm < 0 || memory == MAP_FAILED) _exit(1);
  memcpy(memory, code, sizeof code);
  kvm_userspace_memory_region region = {};
  region.guest_phys_addr = 0x1000;
  region.memory_size = 4096;
  region.userspace_addr = reinterpret_cast<uintptr_t>(memory);
  if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region) < 0) _exit(1);
  int cpu = ioctl(vm, KVM_CREATE_VCPU, 0);
  int size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
  if (cpu < 0 || size <= 0) _exit(1);
  void* shared = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
  if (shared == MAP_FAILED) _exit(1);
  kvm_sregs special;
  if (ioctl(cpu, KVM_GET_SREGS, &special) < 0) _exit(1);
  special.cs.base = 0;
  special.cs.selector = 0;
  kvm_regs registers = {};
  registers.rip = 0x1000;
  registers.rflags = 2;
  if (ioctl(cpu, KVM_SET_SREGS, &special) < 0 || ioctl(cpu, KVM_SET_REGS, &registers) < 0) _exit(1);
  auto* run = static_cast<kvm_run*>(shared);
  bool came =
      ioctl(cpu, KVM_RUN, 0) == 0 && run->exit_reason == KVM_EXIT_IO && run->io.port == 0x3f8;
  _exit(came ? kWorks : 1);
}

}  // namespace

bool kvmWorks() {
  if (access("/dev/kvm", R_OK | W_OK) < 0) return false;
  pid_t child = fork();
  if (child == 0) runThreeInstructions();
  if (child < 0) return false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == kWorks;
}

kj::String buildFolder() {
  char self[4096];
  ssize_t n;
  KJ_SYSCALL(n = readlink("/proc/self/exe", self, sizeof self - 1));
  auto path = kj::heapString(self, n);
  for (int up = 0; up < 2; ++up) {  // …/build/out/talosctl
    KJ_IF_MAYBE (slash, path.findLast('/')) {
      path = kj::heapString(path.slice(0, *slash));
    }
  }
  return path;
}

Qemu findQemu(kj::StringPtr root) {
  constexpr kj::StringPtr kProgram = "/usr/bin/qemu-system-x86_64"_kj;
  auto inRoot = root.size() > 0 ? kj::str(root) : kj::str(buildFolder(), "/root");
  auto program = kj::str(inRoot, kProgram);
  if (access(program.cStr(), X_OK) == 0) return {kj::mv(inRoot), kj::mv(program)};
  if (root.size() == 0 && access(kProgram.cStr(), X_OK) == 0) return {kj::str(), kj::str(kProgram)};
  fail(ErrorKind::kNotFound,
       kj::str("no QEMU: neither ", program, " nor ", kProgram,
               "; run `make` in the checkout, or name a tree that holds one with --qemu-root"));
}

}  // namespace talos::cluster
