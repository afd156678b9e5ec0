#include "common/crash/core-writer.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

namespace talos::crash {
namespace {

constexpr unsigned kMostParts = 16;
// Below the stack pointer, which a function may use without moving it.
constexpr uintptr_t kRedZone = 128;
// A stack that overflowed ends so far above the pointer at the most.
constexpr uintptr_t kMostOverflow = 1u << 20;

#if defined(__x86_64__)
constexpr auto kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr auto kMachine = EM_AARCH64;
#else
#error "the registers of this architecture are not known"
#endif

uintptr_t threadPointer() {
#if defined(__x86_64__)
  uintptr_t pointer;
  asm("mov %%fs:0, %0" : "=r"(pointer));
  return pointer;
#else
  return reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
#endif
}

uintptr_t stackPointer(const ucontext_t& context) {
#if defined(__x86_64__)
  return static_cast<uintptr_t>(context.uc_mcontext.gregs[REG_RSP]);
#else
  return context.uc_mcontext.sp;
#endif
}

void fillRegisters(const ucontext_t& context, elf_gregset_t& out) {
  auto& machine = context.uc_mcontext;
#if defined(__x86_64__)
  // Registers in the order of user_regs_struct; -1: not among those of a signal.
  constexpr int kOrder[] = {REG_R15, REG_R14, REG_R13, REG_R12, REG_RBP, REG_RBX, REG_R11,
                            REG_R10, REG_R9,  REG_R8,  REG_RAX, REG_RCX, REG_RDX, REG_RSI,
                            REG_RDI, -1,      REG_RIP, -1,      REG_EFL, REG_RSP, -1};
  for (unsigned i = 0; i < sizeof kOrder / sizeof *kOrder; ++i) {
    out[i] = kOrder[i] < 0 ? 0 : static_cast<elf_greg_t>(machine.gregs[kOrder[i]]);
  }
  constexpr unsigned kOrigRax = 15, kCs = 17, kSs = 20, kFsBase = 21;
  out[kOrigRax] = static_cast<elf_greg_t>(-1);  // not in a system call
  out[kCs] = static_cast<uint16_t>(machine.gregs[REG_CSGSFS]);
  out[kSs] = static_cast<uint16_t>(static_cast<uint64_t>(machine.gregs[REG_CSGSFS]) >> 48);
  out[kFsBase] = threadPointer();
#else
  constexpr unsigned kGeneral = 31;
  for (unsigned i = 0; i < kGeneral; ++i) out[i] = machine.regs[i];
  out[kGeneral] = machine.sp;
  out[kGeneral + 1] = machine.pc;
  out[kGeneral + 2] = machine.pstate;
#endif
}

// One entry of the list of mappings.
struct Mapping {
  uintptr_t begin = 0, end = 0;
  bool readable = false, dumped = true;
};

// Reads /proc/<pid>/smaps from its start, line by line, in its own buffer: "7f00-7f20 rw-p …", then
// lines "Key: …", of which "VmFlags:" is the last.
class Mappings {
 public:
  explicit Mappings(int fd) : fd(fd) { syscall(SYS_lseek, fd, 0, SEEK_SET); }

  bool next(Mapping& out) {
    Mapping found;
    bool any = false;
    while (readLine()) {
      if (isHead()) {
        found = Mapping{};
        any = parseHead(found);
      } else if (any && startsWith("VmFlags:")) {
        found.dumped = strstr(line, " dd") == nullptr;
        out = found;
        return true;
      }
    }
    return false;
  }

 private:
  int fd;
  char buffer[1024];
  size_t at = 0, filled = 0;
  char line[256];  // longer lines are cut: the relevant part is at their beginning

  bool readLine() {
    size_t size = 0;
    for (;;) {
      if (at == filled) {
        auto n = syscall(SYS_read, fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at = 0;
        filled = static_cast<size_t>(n);
      }
      char c = buffer[at++];
      if (c == '\n') break;
      if (size + 1 < sizeof line) line[size++] = c;
    }
    line[size] = 0;
    return true;
  }
  bool startsWith(const char* text) const { return strncmp(line, text, strlen(text)) == 0; }
  static int digitOf(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  }
  bool isHead() const { return digitOf(line[0]) >= 0; }
  bool parseHead(Mapping& out) const {
    const char* from = line;
    auto number = [&](uintptr_t& value) {
      value = 0;
      for (; digitOf(*from) >= 0; ++from) {
        value = value << 4 | static_cast<uintptr_t>(digitOf(*from));
      }
    };
    number(out.begin);
    if (*from++ != '-') return false;
    number(out.end);
    if (*from++ != ' ') return false;
    out.readable = *from == 'r';
    return true;
  }
};

struct Parts {
  StaticData::Part all[kMostParts];
  unsigned count = 0;

  void add(uintptr_t begin, uintptr_t end) {
    if (begin >= end || count == kMostParts) return;
    all[count++] = {begin, end - begin};
  }
};

// Returns the parts that a core has of the wanted ones, with the stack last.
Parts partsOf(const CoreSource& source) {
  Parts wanted, found;
  for (unsigned i = 0; i < source.data.count; ++i) {
    auto& part = source.data.parts[i];
    wanted.add(part.begin, part.begin + part.size);
  }
  auto thread = threadPointer();
#if defined(__x86_64__)
  wanted.add(thread - source.data.threadLocal, thread + 2 * sizeof(void*));
#else
  wanted.add(thread, thread + 2 * sizeof(void*) + source.data.threadLocal);
#endif
  auto sp = stackPointer(*static_cast<const ucontext_t*>(source.context)) - kRedZone;
  StaticData::Part stack;
  Mappings mappings(source.mappings);
  Mapping one;
  bool above = false;
  while (mappings.next(one)) {
    bool isIn = one.readable && one.dumped;
    for (unsigned i = 0; i < wanted.count && isIn; ++i) {
      auto begin = wanted.all[i].begin, end = begin + wanted.all[i].size;
      found.add(begin > one.begin ? begin : one.begin, end < one.end ? end : one.end);
    }
    if (above || one.end <= sp) continue;
    above = true;  // the first one that ends above it
    auto begin = sp > one.begin ? sp : one.begin;
    if (isIn && begin - sp < kMostOverflow) stack = {begin, one.end - begin};
  }
  if (stack.size > 0 && found.count == kMostParts) --found.count;
  found.add(stack.begin, stack.begin + stack.size);
  return found;
}

class Writer {
 public:
  Writer(unsigned char* out, size_t room) : out(out), room(room) {}
  // Returns false, and writes nothing, if there is no room for all of it.
  bool add(const void* bytes, size_t size) {
    if (room - used < size) return false;
    memcpy(out + used, bytes, size);
    used += size;
    return true;
  }
  template <typename T>
  bool add(const T& value) {
    return add(&value, sizeof value);
  }
  bool note(uint32_t type, const void* bytes, size_t size) {
    constexpr char kName[8] = "CORE";
    Elf64_Nhdr header = {5, static_cast<Elf64_Word>(size), type};
    return add(header) && add(kName, sizeof kName) && add(bytes, size);
  }
  size_t size() const { return used; }
  size_t left() const { return room - used; }
  unsigned char* at(size_t offset) { return out + offset; }

 private:
  unsigned char* out;
  size_t room, used = 0;
};

bool writeNotes(const CoreSource& source, Writer& out) {
  elf_prstatus status;
  memset(&status, 0, sizeof status);
  status.pr_info.si_signo = source.signal;
  status.pr_info.si_code = source.info.si_code;
  status.pr_cursig = static_cast<short>(source.signal);
  status.pr_pid = static_cast<int>(syscall(SYS_gettid));
  fillRegisters(*static_cast<const ucontext_t*>(source.context), status.pr_reg);
  elf_prpsinfo program;
  memset(&program, 0, sizeof program);
  program.pr_pid = getpid();
  strncpy(program.pr_fname, source.program, sizeof program.pr_fname - 1);
  strncpy(program.pr_psargs, source.program, sizeof program.pr_psargs - 1);
  return out.note(NT_PRSTATUS, &status, sizeof status) &&
         out.note(NT_PRPSINFO, &program, sizeof program) &&
         out.note(NT_SIGINFO, &source.info, sizeof source.info);
}

Elf64_Ehdr headerOf(unsigned parts) {
  Elf64_Ehdr header;
  memset(&header, 0, sizeof header);
  memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_CORE;
  header.e_machine = kMachine;
  header.e_version = EV_CURRENT;
  header.e_phoff = sizeof header;
  header.e_ehsize = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = static_cast<Elf64_Half>(1 + parts);
  return header;
}

static_assert(sizeof(elf_prstatus) % 4 == 0 && sizeof(elf_prpsinfo) % 4 == 0 &&
              sizeof(siginfo_t) % 4 == 0);

size_t aligned(size_t size, size_t to) {
  return to == 0 ? size : (size + to - 1) / to * to;
}

// Reads the first object, which is the program itself.
int readParts(dl_phdr_info* info, size_t, void* argument) {
  auto& data = *static_cast<StaticData*>(argument);
  uintptr_t constantBegin = 0, constantEnd = 0;  // since the start: as the file has it
  for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
    auto& header = info->dlpi_phdr[i];
    if (header.p_type == PT_TLS) data.threadLocal = aligned(header.p_memsz, header.p_align);
    if (header.p_type != PT_GNU_RELRO) continue;
    constantBegin = info->dlpi_addr + header.p_vaddr;
    constantEnd = constantBegin + header.p_memsz;
  }
  for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
    auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W) == 0) continue;
    auto begin = info->dlpi_addr + header.p_vaddr, end = begin + header.p_memsz;
    if (begin >= constantBegin && begin < constantEnd) begin = constantEnd;
    if (begin < end && data.count < StaticData::kMost) {
      data.parts[data.count++] = {begin, end - begin};
    }
  }
  return 1;
}

}  // namespace

StaticData StaticData::ofThisProgram() {
  StaticData data;
  dl_iterate_phdr(readParts, &data);
  return data;
}

size_t writeCore(const CoreSource& source, unsigned char* memory, size_t room) {
  Writer out(memory, room);
  auto parts = partsOf(source);
  Elf64_Phdr headers[1 + kMostParts];
  memset(headers, 0, sizeof headers);
  auto table = (1 + parts.count) * sizeof(Elf64_Phdr);
  if (!out.add(headerOf(parts.count)) || !out.add(headers, table)) return 0;
  headers[0].p_type = PT_NOTE;
  headers[0].p_offset = out.size();
  if (!writeNotes(source, out)) return 0;
  headers[0].p_filesz = out.size() - headers[0].p_offset;
  headers[0].p_align = 4;
  for (unsigned i = 0; i < parts.count; ++i) {
    auto& part = parts.all[i];
    auto size = part.size < out.left() ? part.size : out.left();
    auto& header = headers[1 + i];
    header.p_type = PT_LOAD;
    header.p_flags = PF_R | PF_W;
    header.p_offset = out.size();
    header.p_vaddr = part.begin;
    header.p_filesz = header.p_memsz = size;
    header.p_align = 1;
    out.add(reinterpret_cast<const void*>(part.begin), size);
  }
  memcpy(out.at(sizeof(Elf64_Ehdr)), headers, table);
  return out.size();
}

}  // namespace talos::crash
