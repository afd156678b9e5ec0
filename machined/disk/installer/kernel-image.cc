#include "machined/disk/installer/kernel-image.h"

#include <string.h>

#include "common/base/error.h"

namespace talos::install {
namespace {

using Head = kj::ArrayPtr<const kj::byte>;

uint64_t numberAt(Head head, size_t offset, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i > 0; --i) value = value << 8 | head[offset + i - 1];
  return value;
}
bool hasAt(Head head, size_t offset, kj::StringPtr magic) {
  return offset <= head.size() && magic.size() <= head.size() - offset &&
         memcmp(head.begin() + offset, magic.begin(), magic.size()) == 0;
}

// Each returns the minimum size of the file in bytes; nullptr if it is not such a kernel.
kj::Maybe<uint64_t> sizeOfBzImage(Head head) {
  // Offsets in the file, and the units of the values there.
  constexpr size_t kSetupSectors = 0x1f1, kSystemSize = 0x1f4, kMagic = 0x202;
  constexpr uint64_t kSector = 512, kParagraph = 16;
  constexpr uint64_t kUsualSetupSectors = 4;  // if the header says 0
  if (!hasAt(head, kMagic, "HdrS")) return nullptr;
  uint64_t setup = head[kSetupSectors] == 0 ? kUsualSetupSectors : head[kSetupSectors];
  return (1 + setup) * kSector + numberAt(head, kSystemSize, 4) * kParagraph;
}

kj::Maybe<uint64_t> sizeOfArmImage(Head head) {
  constexpr size_t kZimg = 4, kArm = 0x38, kPeOffset = 0x3c, kPeHeader = 24, kLeastHead = 0x40;
  constexpr size_t kMachine = 4, kSections = 6, kOptionalSize = 20;  // after "PE\0\0"
  constexpr size_t kSection = 40, kRawSize = 16, kRawOffset = 20;    // of an entry of the table
  constexpr uint64_t kArm64 = 0xaa64;
  if (head.size() < kLeastHead || !hasAt(head, 0, "MZ")) return nullptr;
  if (!hasAt(head, kArm, "ARM\x64") && !hasAt(head, kZimg, "zimg")) return nullptr;
  size_t pe = numberAt(head, kPeOffset, 4);
  if (pe > head.size() || head.size() - pe < kPeHeader) return nullptr;
  if (!hasAt(head, pe, "PE\0\0"_kj) || numberAt(head, pe + kMachine, 2) != kArm64) return nullptr;
  uint64_t whole = 0;
  auto at = pe + kPeHeader + numberAt(head, pe + kOptionalSize, 2);
  for (auto left = numberAt(head, pe + kSections, 2); left > 0; --left, at += kSection) {
    if (at > head.size() || head.size() - at < kSection) return nullptr;
    whole = kj::max(whole, numberAt(head, at + kRawOffset, 4) + numberAt(head, at + kRawSize, 4));
  }
  return whole;
}

struct Format {
  kj::StringPtr arch, name;
  kj::Maybe<uint64_t> (*sizeOf)(Head head);
};
constexpr Format kFormats[] = {
    {"amd64"_kj, "a bzImage for x86-64"_kj, sizeOfBzImage},
    {"arm64"_kj, "an Image for arm64 with an EFI stub"_kj, sizeOfArmImage},
};

}  // namespace

void checkKernel(Head head, uint64_t size, kj::StringPtr arch) {
  const Format* format = nullptr;
  for (auto& each : kFormats) {
    if (each.arch == arch) format = &each;
  }
  KJ_REQUIRE(format != nullptr, "kernels of this architecture are not known", arch);
  KJ_IF_MAYBE (whole, format->sizeOf(head)) {
    if (size >= *whole) return;
    fail(ErrorKind::kInvalidArgument,
         kj::str("vmlinuz is cut off: it has ", size, " bytes, and its header says ", *whole));
  }
  fail(ErrorKind::kInvalidArgument, kj::str("vmlinuz is not a kernel (", format->name, ")"));
}

}  // namespace talos::install
