#include "talosctl/cluster/program-check.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <string.h>

#include <string>

#include "common/base/error.h"
#include "common/base/program-window.h"
#include "common/crash/daemon-mark.h"

namespace talos::talosctl {
namespace {

// A file with everything that the check reads: a header, a part, the sections, the mark.
struct MadeProgram {
  Elf64_Ehdr header = {};
  Elf64_Phdr part = {};
  Elf64_Shdr sections[2] = {};
  char names[sizeof crash::kDaemonMarkSection];
  crash::DaemonMark mark = {"networkd", crash::kMarkedPage, crash::kMarkedRecord,
                            crash::kMarkedCore};

  MadeProgram() {
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
#ifdef __aarch64__
    header.e_machine = EM_AARCH64;
#else
    header.e_machine = EM_X86_64;
#endif
    header.e_type = ET_EXEC;
    header.e_phoff = offsetof(MadeProgram, part);
    header.e_phnum = 1;
    header.e_shoff = offsetof(MadeProgram, sections);
    header.e_shnum = 2;
    header.e_shstrndx = 1;
    part.p_type = PT_LOAD;
    memcpy(names, crash::kDaemonMarkSection, sizeof names);
    sections[0].sh_offset = offsetof(MadeProgram, mark);
    sections[1].sh_offset = offsetof(MadeProgram, names);
    sections[1].sh_name = 1;  // "talos.daemon"
  }
  // Returns why the file is refused; empty if it is accepted.
  std::string refusal(size_t bytes = sizeof(MadeProgram)) const {
    auto failed = kj::runCatchingExceptions([&] {
      checkProgram("it", "networkd", kj::arrayPtr(reinterpret_cast<const char*>(this), bytes));
    });
    KJ_IF_MAYBE (e, failed) return messageOf(*e).cStr();
    return "";
  }
};

void expectWhy(const MadeProgram& program, const std::string& why) {
  EXPECT_NE(program.refusal().find(why), std::string::npos) << why << ": " << program.refusal();
}

// Catches: a program that cannot run as this daemon and is put into a node.
TEST(ProgramCheck, TakesADaemonOfThisBuildOnly) {
  EXPECT_EQ("", MadeProgram().refusal());
  MadeProgram other;
  other.header.e_machine = EM_RISCV;
  expectWhy(other, "another architecture");
  other = MadeProgram();
  other.header.e_type = ET_REL;
  expectWhy(other, "not executable");
  other = MadeProgram();
  other.part.p_type = PT_INTERP;
  expectWhy(other, "shared libraries");
  other = MadeProgram();
  other.names[1] = 'T';
  expectWhy(other, "no daemon of this system");
  other = MadeProgram();
  strcpy(other.mark.name, "apid");
  expectWhy(other, "another daemon");
  memset(other.mark.name, 'n', sizeof other.mark.name);
  expectWhy(other, "another daemon");
  other = MadeProgram();
  other.mark.pageBytes *= 2;
  expectWhy(other, "of another build");
  other = MadeProgram();
  other.mark.coreAt += 8;
  expectWhy(other, "of another build");
}

// Catches: a read beyond the end of a file.
TEST(ProgramCheck, ACutFileIsRefusedWhereverItIsCut) {
  MadeProgram whole;
  for (size_t size = 0; size < offsetof(MadeProgram, mark) + sizeof whole.mark; ++size) {
    auto copy = kj::heapArray<char>(size);  // of exactly this size, for AddressSanitizer
    memcpy(copy.begin(), &whole, size);
    EXPECT_TRUE(kj::runCatchingExceptions([&] { checkProgram("it", "networkd", copy); }) != nullptr)
        << size;
  }
  whole.header.e_shoff = ~uint64_t(0) - 8;
  expectWhy(whole, "no daemon");
  whole = MadeProgram();
  whole.sections[1].sh_offset = ~uint64_t(0) - 2;
  expectWhy(whole, "no daemon");
  whole = MadeProgram();
  whole.header.e_phoff = ~uint64_t(0) - 8;
  expectWhy(whole, "cut off");
}

// Catches: a program that is larger than the window of a machine.
TEST(ProgramCheck, HasALargestSize) {
  auto large = kj::heapArray<char>(program_window::kMostProgram + 1);
  auto failed = kj::runCatchingExceptions([&] { checkProgram("it", "networkd", large); });
  EXPECT_NE(std::string(messageOf(KJ_ASSERT_NONNULL(failed)).cStr()).find("64 MiB"),
            std::string::npos);
}

}  // namespace
}  // namespace talos::talosctl
