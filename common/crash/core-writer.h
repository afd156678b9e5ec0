// Writes the core of a program that dies: an ELF file for a debugger, with the registers, the live
// part of the stack of the thread that faulted, and the static data of the program.
//
// A core contains only what is on this list. The heap is never in it, because keys, tokens and
// configs travel through the heap (common/memory/wiped-heap.cc), nor is the dead part of the stack,
// other threads, or mapped memory. Memory that was excluded with MADV_DONTDUMP is left out, as in a
// core of the kernel. The program's code is in the file with the same build id.
//
// For a signal handler: it allocates nothing, takes no lock, and makes no system call except to
// read the list of mappings. A fault in it leaves no core.
#pragma once

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

namespace talos::crash {

// Writable parts of a program, from its ELF headers.
struct StaticData {
  struct Part {
    uintptr_t begin = 0;
    size_t size = 0;
  };
  static constexpr unsigned kMost = 4;
  Part parts[kMost];
  unsigned count = 0;
  size_t threadLocal = 0;  // bytes for each thread, with their alignment

  static StaticData ofThisProgram();
};

struct CoreSource {
  int signal;
  const siginfo_t& info;
  const void* context;  // ucontext_t
  const char* program;
  const StaticData& data;
  int mappings;  // /proc/self/smaps; read from its start
};

// Returns the size of the core; 0 if there is no room for one. The part of the stack that does not
// fit is left out, the outermost part first.
size_t writeCore(const CoreSource& source, unsigned char* out, size_t room);

}  // namespace talos::crash
