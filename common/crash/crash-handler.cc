#include "common/crash/crash-handler.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "common/base/log.h"
#include "common/base/waits.h"
#include "common/crash/core-writer.h"
#include "common/crash/service-page.h"

namespace talos::crash {
namespace {

constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
constexpr unsigned kMostFrames = 64;
constexpr size_t kHandlerStack = 128u << 10;
constexpr size_t kMostMap = 12u << 10;
constexpr size_t kMostBuildId = 64;  // bytes; SHA-1 has 20

struct Image {
  uintptr_t base = 0;  // subtracted from addresses: 0 for a program with a fixed place
  char buildId[2 * kMostBuildId + 1] = {};
};

// Everything that the handler needs. A handler has no argument of ours, so this object is global;
// nothing else uses it, and it is never freed.
struct Installed {
  ServicePage* page;
  int map;       // /proc/self/maps of this program, -1: it could not be opened
  int mappings;  // /proc/self/smaps, for a core; the same
  Image image;
  StaticData data;
  char program[32];
  std::atomic<bool> entered;
};
Installed* installed = nullptr;

// Appends lines to the record. A line is complete before the size includes it.
class RecordWriter {
 public:
  explicit RecordWriter(ServicePage& page) : page(page) {}

  RecordWriter& text(const char* s) {
    while (*s != 0) put(*s++);
    return *this;
  }
  RecordWriter& number(uint64_t value) {
    char digits[20];
    unsigned n = 0;
    do {
      digits[n++] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    while (n > 0) put(digits[--n]);
    return *this;
  }
  RecordWriter& address(uintptr_t value) {
    text("0x");
    int shift = 60;
    while (shift > 0 && (value >> shift) == 0) shift -= 4;
    for (; shift >= 0; shift -= 4) put("0123456789abcdef"[value >> shift & 15]);
    return *this;
  }
  void endLine() {
    put('\n');
    page.size.store(used);
  }
  // Return where the kernel may write; the caller reports how much it wrote there.
  char* free() { return page.record + used; }
  size_t room() const { return kMostRecord - used; }
  void wrote(size_t bytes) {
    used += static_cast<uint32_t>(bytes);
    page.size.store(used);
  }

 private:
  ServicePage& page;
  uint32_t used = 0;

  void put(char c) {
    if (used < kMostRecord) page.record[used++] = c;
  }
};

struct Registers {
  uintptr_t pc, sp, frame;
  uintptr_t caller;  // return address while there is no frame yet; 0: it is on the stack
};

Registers registersOf(const void* context) {
  auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  auto at = [&](int index) { return static_cast<uintptr_t>(machine.gregs[index]); };
  return {at(REG_RIP), at(REG_RSP), at(REG_RBP), 0};
#elif defined(__aarch64__)
  return {machine.pc, machine.sp, machine.regs[29], machine.regs[30]};
#else
#error "the registers of this architecture are not known"
#endif
}

// Frames below the signal's; those above it belong to the handler.
struct Trace {
  RecordWriter& out;
  uintptr_t base;
  uintptr_t pc;
  bool found = false;
  unsigned frames = 0;

  void add(uintptr_t address) {
    out.text("frame ").address(address - base).endLine();
    ++frames;
  }
};

_Unwind_Reason_Code addFrame(_Unwind_Context* context, void* argument) {
  auto& trace = *static_cast<Trace*>(argument);
  int before = 0;  // the address is that of the instruction itself, not the one after a call
  auto address = static_cast<uintptr_t>(_Unwind_GetIPInfo(context, &before));
  if (address == 0) return _URC_END_OF_STACK;
  if (!trace.found) {
    trace.found = address == trace.pc;
    return _URC_NO_REASON;  // the first frame is written already
  }
  trace.add(before != 0 ? address : address - 1);
  return trace.frames < kMostFrames ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void writeStack(RecordWriter& out, const Registers& at, uintptr_t base) {
  Trace trace{.out = out, .base = base, .pc = at.pc};
  trace.add(at.pc);
  _Unwind_Backtrace(addFrame, &trace);
  if (trace.frames > 1 || trace.found) return;
  // A call to an address outside any function: the return address is where the call has put it.
  auto caller = at.caller != 0 ? at.caller : *reinterpret_cast<const uintptr_t*>(at.sp);
  trace.add(caller - 1);
}

void writeMap(RecordWriter& out, int map) {
  if (map < 0) return;
  out.text("map").endLine();
  size_t left = out.room() < kMostMap ? out.room() : kMostMap;
  while (left > 0) {
    // Not read(): a program may hang in the code that waits, which all such functions share.
    auto n = syscall(SYS_read, map, out.free(), left);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    out.wrote(static_cast<size_t>(n));
    left -= static_cast<size_t>(n);
  }
}

void writeWaits(RecordWriter& out) {
  Wait::forEach([&](const char* text, uint64_t ns) {
    out.text("wait ").number(ns / 1'000'000).text(" ").text(text).endLine();
  });
}

// Returns true if the signal was sent: a fault has a positive code, a sent signal has not.
bool wasSent(const siginfo_t& info) {
  return info.si_code <= 0;
}

void writeRecord(int number, const siginfo_t& info, const void* context) {
  auto& self = *installed;
  RecordWriter out(*self.page);
  auto at = registersOf(context);
  out.text("signal ").number(static_cast<unsigned>(number)).endLine();
  out.text("program ").text(self.program).endLine();
  out.text("build-id ").text(self.image.buildId).endLine();
  out.text("pid ").number(static_cast<unsigned>(getpid())).endLine();
  if (wasSent(info)) {
    out.text("sender ").number(static_cast<unsigned>(info.si_pid)).endLine();
  } else {
    out.text("address ").address(reinterpret_cast<uintptr_t>(info.si_addr)).endLine();
  }
  out.text("register pc=").address(at.pc - self.image.base).endLine();
  out.text("register sp=").address(at.sp).endLine();
  out.text("register frame=").address(at.frame).endLine();
  writeStack(out, at, self.image.base);
  writeWaits(out);
  if (number == kShowStack) {
    out.text("end").endLine();
  } else {
    writeMap(out, self.map);
  }
}

// Writes the record; the program continues. The unwinding code was prepared, and takes only a lock
// that is recursive.
void onShowStack(int number, siginfo_t* info, void* context) {
  int before = errno;
  if (!installed->entered.load()) writeRecord(number, *info, context);
  errno = before;
}

// Writes the core after the record, which a fault in this function leaves unchanged.
void writeOwnCore(int number, const siginfo_t& info, const void* context) {
  auto& self = *installed;
  auto& page = *self.page;
  if (page.keepsCores.load() != 1 || self.mappings < 0) return;
  auto size = writeCore({.signal = number,
                         .info = info,
                         .context = context,
                         .program = self.program,
                         .data = self.data,
                         .mappings = self.mappings},
                        page.core, kMostCore);
  page.coreSize.store(static_cast<uint32_t>(size));
}

void onFault(int number, siginfo_t* info, void* context) {
  int before = errno;
  // From here on, a fault ends the program.
  for (int fault : kFaults) signal(fault, SIG_DFL);
  if (!installed->entered.exchange(true)) {
    installed->page->coreSize.store(0);
    writeRecord(number, *info, context);
    writeOwnCore(number, *info, context);
  }
  errno = before;
  if (!wasSent(*info)) return;  // the instruction faults again
  // The signal is blocked in here, and is delivered when this function returns.
  auto thread = syscall(SYS_gettid);
  if (syscall(SYS_tgkill, getpid(), thread, number) != 0) _exit(128 + number);
}

void addHexadecimal(Image& image, const unsigned char* bytes, size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  if (count > kMostBuildId) return;
  for (size_t i = 0; i < count; ++i) {
    image.buildId[2 * i] = kDigits[bytes[i] >> 4];
    image.buildId[2 * i + 1] = kDigits[bytes[i] & 15];
  }
}

void readNotes(Image& image, const char* at, size_t size) {
  auto padded = [](size_t n) { return (n + 3) & ~size_t{3}; };
  ElfW(Nhdr) note;
  while (size >= sizeof note) {
    memcpy(&note, at, sizeof note);
    size_t whole = sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
    if (whole > size) return;
    auto name = at + sizeof note;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
      auto bytes = reinterpret_cast<const unsigned char*>(name + padded(note.n_namesz));
      return addHexadecimal(image, bytes, note.n_descsz);
    }
    at += whole;
    size -= whole;
  }
}

// Reads the first object, which is the program itself.
int readProgram(dl_phdr_info* info, size_t, void* argument) {
  auto& image = *static_cast<Image*>(argument);
  image.base = info->dlpi_addr;
  for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
    auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    readNotes(image, reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr),
              header.p_memsz);
  }
  return 1;
}

Image ownImage() {
  Image image;
  dl_iterate_phdr(readProgram, &image);
  return image;
}

void useOwnStack() {
  void* memory = mmap(nullptr, kHandlerStack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) KJ_FAIL_SYSCALL("mmap(stack of the handler)", errno);
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = kHandlerStack;
  KJ_SYSCALL(sigaltstack(&stack, nullptr));
}

void catchFaults() {
  struct sigaction action{};
  action.sa_sigaction = onFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  // One signal at a time: others wait, unless the handler itself faults.
  sigfillset(&action.sa_mask);
  for (int fault : kFaults) {
    sigdelset(&action.sa_mask, fault);
    KJ_SYSCALL(sigaction(fault, &action, nullptr));
  }
  // A fault in this handler is reported as a fault.
  action.sa_sigaction = onShowStack;
  action.sa_flags |= SA_RESTART;
  KJ_SYSCALL(sigaction(kShowStack, &action, nullptr));
}

_Unwind_Reason_Code firstFrame(_Unwind_Context*, void*) {
  return _URC_END_OF_STACK;
}

}  // namespace

kj::String ownBuildId() {
  return kj::str(kj::StringPtr(ownImage().buildId));
}

void reportCrashesTo(int page, const char* program) {
  struct stat info;
  KJ_SYSCALL(fstat(page, &info));
  KJ_REQUIRE(info.st_size == static_cast<off_t>(kServicePageSize), "no page of a service",
             info.st_size);
  void* mapped = mmap(nullptr, kServicePageSize, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
  if (mapped == MAP_FAILED) KJ_FAIL_SYSCALL("mmap(page of the service)", errno);
  if (installed == nullptr) installed = new Installed{};
  auto& self = *installed;
  self.page = static_cast<ServicePage*>(mapped);
  self.image = ownImage();
  self.entered = false;
  strncpy(self.program, program, sizeof self.program - 1);
  // Opened now, because later there may be no descriptor left, and no right to open a file.
  self.map = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  self.mappings = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
  self.data = StaticData::ofThisProgram();
  _Unwind_Backtrace(firstFrame, nullptr);  // it prepares itself at its first use
  log::followLevel(self.page->level);
  useOwnStack();
  catchFaults();
}

void reportCrashes(const char* program) {
  auto value = getenv(kServicePageVariable);
  if (value == nullptr) return;
  KJ_IF_MAYBE (page, kj::StringPtr(value).tryParseAs<int>()) {
    unsetenv(kServicePageVariable);
    KJ_SYSCALL(fcntl(*page, F_SETFD, FD_CLOEXEC));
    reportCrashesTo(*page, program);
  }
}

}  // namespace talos::crash
