#include "common/memory/process-memory.h"

#include <elf.h>
#include <kj/debug.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace talos {

void releaseStartMemory() {
  auto* headers = reinterpret_cast<const Elf64_Phdr*>(getauxval(AT_PHDR));
  auto count = getauxval(AT_PHNUM);
  auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  if (headers == nullptr) return;
  // Difference between the actual and the intended address of the headers: 0 in a program that is
  // not relocated.
  uintptr_t shift = 0;
  for (unsigned long i = 0; i < count; i++) {
    if (headers[i].p_type == PT_PHDR)
      shift = reinterpret_cast<uintptr_t>(headers) - headers[i].p_vaddr;
  }
  for (unsigned long i = 0; i < count; i++) {
    // Writable segments hold data that exists only in this process.
    if (headers[i].p_type != PT_LOAD || (headers[i].p_flags & PF_W)) continue;
    auto begin = (shift + headers[i].p_vaddr) & ~(page - 1);
    auto end = (shift + headers[i].p_vaddr + headers[i].p_memsz) & ~(page - 1);
    if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  malloc_trim(0);
}

kj::Promise<void> releaseStartMemoryLater(kj::Timer& timer) {
  for (auto pause : {10 * kj::SECONDS, 50 * kj::SECONDS, 4 * kj::MINUTES}) {
    co_await timer.afterDelay(pause);
    releaseStartMemory();
  }
}

void keepHeapSmall() {
  // Each thread that allocates would get a heap of its size at the busiest moment; only the first
  // heap shrinks when its blocks are freed.
  mallopt(M_ARENA_MAX, 1);
  // A fixed threshold: by default it grows with each large block that is freed, and blocks below it
  // stay in the heap.
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

void refuseCoreDumps() {
  struct rlimit none = {0, 0};
  KJ_SYSCALL(setrlimit(RLIMIT_CORE, &none));
  KJ_SYSCALL(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
}

bool keepOffDisk(kj::ArrayPtr<const kj::byte> bytes) {
  return bytes.size() == 0 || mlock(bytes.begin(), bytes.size()) == 0;
}

}  // namespace talos
