#include "common/crash/core-writer.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "common/base/file.h"
#include "common/crash/crash-handler.h"
#include "common/crash/crash-record.h"
#include "common/crash/service-page.h"
#include "common/crash/symbol-table.h"
#include "common/testing/sanitizers.h"

namespace talos::crash {
namespace {

#define CORES_NEED_OWN_HANDLERS() \
  if (kSanitized) GTEST_SKIP() << "a sanitizer has its own handlers"

// Places at which the crashing process has put its values; it shares this struct with the test.
struct Places {
  uintptr_t onStack, onHeap;
  size_t stackBelow;
};

volatile uint64_t ofTheProgram = 0;
thread_local volatile uint64_t ofTheThread = 0;
alignas(4096) char excludedPages[4096] = {1};
volatile int* volatile noPlace = nullptr;

constexpr uint64_t kOfTheProgram = 0x1122334455667788, kOnStack = 0x99aabbccddeeff00,
                   kOfTheThread = 0x0f1e2d3c4b5a6978;
// Joins two halves, so that no register and no constant holds the whole text.
std::string secretText(const char* kind) {
  return std::string("secret-") + "of-the-" + kind;
}

[[gnu::noinline]] void leaveOnDeadStack() {
  char deep[4096];
  auto text = secretText("past");
  for (size_t i = 0; i + text.size() < sizeof deep; i += text.size()) {
    memcpy(deep + i, text.data(), text.size());
  }
  asm volatile("" : : "r"(deep) : "memory");
}

[[gnu::noinline]] void crashWithValues(Places& places) {
  leaveOnDeadStack();
  volatile uint64_t onStack = kOnStack;
  ofTheProgram = kOfTheProgram;
  ofTheThread = kOfTheThread;
  auto heap = static_cast<char*>(malloc(64));
  auto text = secretText("heap");
  memcpy(heap, text.c_str(), text.size() + 1);
  auto excluded = secretText("excluded");
  memcpy(excludedPages, excluded.c_str(), excluded.size() + 1);
  KJ_SYSCALL(madvise(excludedPages, sizeof excludedPages, MADV_DONTDUMP));
  places.onStack = reinterpret_cast<uintptr_t>(&onStack);
  places.onHeap = reinterpret_cast<uintptr_t>(heap);
  explicit_bzero(text.data(), text.size());
  explicit_bzero(excluded.data(), excluded.size());
  *noPlace = 1;
}

class Core {
 public:
  explicit Core(kj::Array<kj::byte> bytes) : bytes(kj::mv(bytes)) {
    header = read<Elf64_Ehdr>(0);
    KJ_REQUIRE(memcmp(header.e_ident, ELFMAG, SELFMAG) == 0);
    for (unsigned i = 0; i < header.e_phnum; ++i) {
      parts.add(read<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr)));
    }
  }
  template <typename T>
  T read(size_t offset) const {
    T value;
    KJ_REQUIRE(offset + sizeof value <= bytes.size(), "beyond the core", offset);
    memcpy(&value, bytes.begin() + offset, sizeof value);
    return value;
  }
  // Returns nullptr if the core does not have this address.
  kj::Maybe<uint64_t> at(uintptr_t address) const {
    for (auto& part : parts) {
      bool has = part.p_type == PT_LOAD && address >= part.p_vaddr &&
                 address + 8 <= part.p_vaddr + part.p_filesz;
      if (has) return read<uint64_t>(part.p_offset + (address - part.p_vaddr));
    }
    return nullptr;
  }
  kj::Maybe<size_t> note(uint32_t type) const {  // offset of the note's content
    auto end = parts[0].p_offset + parts[0].p_filesz;
    for (size_t at = parts[0].p_offset; at < end;) {
      auto one = read<Elf64_Nhdr>(at);
      auto content = at + sizeof one + 8;
      if (one.n_type == type) return content;
      at = content + one.n_descsz;
    }
    return nullptr;
  }
  bool contains(const std::string& text) const {
    return memmem(bytes.begin(), bytes.size(), text.data(), text.size()) != nullptr;
  }
  size_t size() const { return bytes.size(); }

  Elf64_Ehdr header;
  kj::Vector<Elf64_Phdr> parts;

 private:
  kj::Array<kj::byte> bytes;
};

struct Crashed {
  kj::Maybe<Core> core;
  CrashRecord record;
  Places places;
};

Crashed crashOnce(bool keep, void (*work)(Places& places)) {
  int raw;
  KJ_SYSCALL(raw = memfd_create("page", MFD_CLOEXEC));
  kj::AutoCloseFd page(raw);
  KJ_SYSCALL(ftruncate(page, kServicePageSize));
  uint8_t keeps = keep ? 1 : 0;
  KJ_SYSCALL(pwrite(page, &keeps, 1, offsetof(ServicePage, keepsCores)));
  uint32_t stale = 7;  // of an earlier crash
  KJ_SYSCALL(pwrite(page, &stale, sizeof stale, offsetof(ServicePage, coreSize)));
  auto shared = static_cast<Places*>(
      mmap(nullptr, sizeof(Places), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  KJ_REQUIRE(shared != MAP_FAILED);
  KJ_DEFER(munmap(shared, sizeof(Places)));
  auto child = fork();
  if (child == 0) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    reportCrashesTo(page, "crasher");
    work(*shared);
    _exit(0);
  }
  int status;
  KJ_SYSCALL(waitpid(child, &status, 0));
  KJ_REQUIRE(WIFSIGNALED(status));
  auto bytes = kj::heapArray<kj::byte>(kServicePageSize);
  KJ_REQUIRE(readAt(page, 0, bytes, "page") == bytes.size());
  auto& content = *reinterpret_cast<const ServicePage*>(bytes.begin());
  Crashed crashed{
      nullptr,
      KJ_REQUIRE_NONNULL(parseCrashRecord(kj::arrayPtr(content.record, content.size.load()))),
      *shared};
  if (content.coreSize > 0) {
    crashed.core = Core(kj::heapArray<kj::byte>(kj::arrayPtr(content.core, content.coreSize)));
  }
  return crashed;
}

// Catches: a core that no debugger could use: without registers, the stack or static data.
// Catches: secrets in a core: the heap, remains of an earlier call on the stack, or a page that the
// program has excluded.
TEST(CoreWriter, HasStackAndStaticDataAndNoSecrets) {
  CORES_NEED_OWN_HANDLERS();
  auto crashed = crashOnce(true, crashWithValues);
  auto& core = KJ_ASSERT_NONNULL(crashed.core);
  EXPECT_EQ(ET_CORE, core.header.e_type);
  EXPECT_EQ(kOnStack, KJ_ASSERT_NONNULL(core.at(crashed.places.onStack)));
  EXPECT_EQ(kOfTheProgram, KJ_ASSERT_NONNULL(core.at(reinterpret_cast<uintptr_t>(&ofTheProgram))));
  // The child has the addresses of its parent.
  EXPECT_EQ(kOfTheThread, KJ_ASSERT_NONNULL(core.at(reinterpret_cast<uintptr_t>(&ofTheThread))));

  auto status = core.read<elf_prstatus>(KJ_ASSERT_NONNULL(core.note(NT_PRSTATUS)));
  EXPECT_EQ(SIGSEGV, status.pr_cursig);
  EXPECT_EQ(crashed.record.pid, static_cast<uint32_t>(status.pr_pid));
#ifdef __x86_64__
  constexpr unsigned kRip = 16, kRsp = 19;
  EXPECT_EQ(KJ_ASSERT_NONNULL(parseAddress(crashed.record.frames[0])), status.pr_reg[kRip]);
  EXPECT_FALSE(core.at(status.pr_reg[kRsp]) == nullptr);
#endif
  auto info = core.read<siginfo_t>(KJ_ASSERT_NONNULL(core.note(NT_SIGINFO)));
  EXPECT_EQ(nullptr, info.si_addr);

  EXPECT_TRUE(core.at(crashed.places.onHeap) == nullptr);
  for (auto kind : {"heap", "past", "excluded"}) {
    EXPECT_FALSE(core.contains(secretText(kind))) << kind;
  }
  EXPECT_TRUE(core.at(reinterpret_cast<uintptr_t>(excludedPages)) == nullptr);
  EXPECT_FALSE(crashed.record.map.empty());
}

// Catches: a core that was not requested; a core of an earlier crash that is taken for this one's.
TEST(CoreWriter, WithoutTheSwitchThereIsNone) {
  CORES_NEED_OWN_HANDLERS();
  auto crashed = crashOnce(false, crashWithValues);
  EXPECT_TRUE(crashed.core == nullptr);
  EXPECT_EQ(SIGSEGV, crashed.record.signal);
}

[[gnu::noinline]] int fillStack(Places& places, size_t level) {
  volatile char page[4096];
  page[0] = static_cast<char>(level);
  if (level == 0) {
    places.onStack = reinterpret_cast<uintptr_t>(page);
    *noPlace = 1;
    return page[0];
  }
  return fillStack(places, level - 1) + page[0];
}

// Catches: a deep stack that makes a core larger than its place, or that loses its innermost part.
TEST(CoreWriter, ADeepStackIsCutAtItsOuterEnd) {
  CORES_NEED_OWN_HANDLERS();
  auto crashed =
      crashOnce(true, [](Places& places) { ofTheProgram = fillStack(places, 500) != 0; });
  auto& core = KJ_ASSERT_NONNULL(crashed.core);
  EXPECT_EQ(kMostCore, core.size());
  EXPECT_FALSE(core.at(crashed.places.onStack) == nullptr);
}

[[gnu::noinline]] int exhaustStack(int level) {
  volatile char page[4096];
  page[0] = static_cast<char>(level);
  return level == -1 ? page[0] : exhaustStack(level + 1) + page[0];
}

// Catches: a stack that has overflowed, whose pointer is in no mapping, and a core without it.
TEST(CoreWriter, AStackThatOverflowedIsIn) {
  CORES_NEED_OWN_HANDLERS();
  auto crashed = crashOnce(true, [](Places&) {
    struct rlimit small = {1u << 20, 1u << 20};
    setrlimit(RLIMIT_STACK, &small);
    ofTheProgram = exhaustStack(0) != 0;
  });
  auto& core = KJ_ASSERT_NONNULL(crashed.core);
  auto& last = core.parts[core.parts.size() - 1];
  EXPECT_LT(256u << 10, last.p_filesz);
}

}  // namespace
}  // namespace talos::crash
