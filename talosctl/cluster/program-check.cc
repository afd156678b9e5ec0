#include "talosctl/cluster/program-check.h"

#include <elf.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/program-window.h"
#include "common/crash/daemon-mark.h"

namespace talos::talosctl {
namespace {

#ifdef __aarch64__
constexpr auto kMachine = EM_AARCH64;
#else
constexpr auto kMachine = EM_X86_64;
#endif

// Returns nullptr if the value is not complete.
template <typename T>
kj::Maybe<T> at(kj::ArrayPtr<const char> bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return nullptr;
  T result;
  memcpy(&result, bytes.begin() + offset, sizeof result);
  return result;
}

// Compares the name of a section, which ends with a zero.
bool isNamed(kj::ArrayPtr<const char> bytes, uint64_t offset, kj::ArrayPtr<const char> name) {
  return offset <= bytes.size() && bytes.size() - offset >= name.size() &&
         bytes.slice(offset, offset + name.size()) == name;
}

kj::Maybe<crash::DaemonMark> markOf(kj::ArrayPtr<const char> bytes, const Elf64_Ehdr& header) {
  auto section = [&](uint64_t index) {
    return at<Elf64_Shdr>(bytes, header.e_shoff + index * sizeof(Elf64_Shdr));
  };
  auto names = section(header.e_shstrndx);
  KJ_IF_MAYBE (texts, names) {
    for (unsigned i = 0; i < header.e_shnum; ++i) {
      auto one = section(i);
      KJ_IF_MAYBE (found, one) {
        auto name = kj::arrayPtr(crash::kDaemonMarkSection, sizeof crash::kDaemonMarkSection);
        if (!isNamed(bytes, texts->sh_offset + found->sh_name, name)) continue;
        return at<crash::DaemonMark>(bytes, found->sh_offset);
      }
    }
  }
  return nullptr;
}

}  // namespace

void checkProgram(kj::StringPtr path, kj::StringPtr service, kj::ArrayPtr<const char> bytes) {
  auto refuse = [&](kj::StringPtr why) {
    fail(ErrorKind::kInvalidArgument, kj::str(path, " is not a program that a node can run: ", why,
                                              "; use one of this build, as build/out/", service));
  };
  if (bytes.size() > program_window::kMostProgram) refuse("it is larger than 64 MiB");
  auto isElf = bytes.size() >= SELFMAG && bytes.slice(0, SELFMAG) == kj::arrayPtr(ELFMAG, SELFMAG);
  auto header = at<Elf64_Ehdr>(bytes, 0).orDefault({});
  if (!isElf || header.e_ident[0] == 0) refuse("it is not an ELF file");
  bool same = header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == kMachine;
  if (!same) refuse("it is for another architecture");
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN) refuse("it is not executable");
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    auto part = at<Elf64_Phdr>(bytes, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (part == nullptr) refuse("its headers are cut off");
    // A node has no libraries for foreign programs.
    if (KJ_ASSERT_NONNULL(part).p_type == PT_INTERP) refuse("it needs shared libraries");
  }
  auto mark = markOf(bytes, header);
  if (mark == nullptr) refuse("it is no daemon of this system, or of a build without marks");
  auto& of = KJ_ASSERT_NONNULL(mark);
  if (memchr(of.name, 0, sizeof of.name) == nullptr || service != kj::StringPtr(of.name)) {
    refuse("it is another daemon");
  }
  if (of.pageBytes != crash::kMarkedPage || of.recordAt != crash::kMarkedRecord ||
      of.coreAt != crash::kMarkedCore) {
    refuse("it is of another build, whose page of a service machined does not have");
  }
}

}  // namespace talos::talosctl
