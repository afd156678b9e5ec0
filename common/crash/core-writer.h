// Writes the core of a program that dies: an ELF file for a debugger, with the registers, the live
// part of the stack of the thread that faulted, and the static data of the program.
//
// It names what is in a core, not what is left out: the heap is never in it, because keys, tokens
// and configs travel through it (common/memory/wiped-heap.cc), nor is the dead part of the stack,
// other threads, or memory that is mapped. Of memory that was excluded with MADV_DONTDUMP nothing
// is in it, as in a core of the kernel. The program's code is in the file with the same build id.
//
// For a handler of a signal: it allocates nothing, takes no lock, and makes no system call but to
// read the list of mappings. A fault in it leaves no core.
#pragma once

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

namespace talos::crash {

// The writable parts of a program, as its headers have them.
struct StaticData {
  struct Part {
    uintptr_t begin = 0;
    size_t size = 0;
  };
  static constexpr unsigned kMost = 4;
  Part parts[kMost];
  unsigned count = 0;
  size_t threadLocal = 0;  // bytes of each thread, with their alignment

  static StaticData ofThisProgram();
};

struct CoreSource {
  int signal;
  const siginfo_t& info;
  const void* context;  // ucontext_t
  const char* program;
  const StaticData& data;
  int mappings;  // /proc/self/smaps; it is read from its start
};

// Returns the size of the core; 0: there is no room for one. What does not fit of the stack is left
// out, the outermost part first.
size_t writeCore(const CoreSource& source, unsigned char* out, size_t room);

}  // namespace talos::crash
