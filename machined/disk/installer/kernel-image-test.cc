#include "machined/disk/installer/kernel-image.h"

#include <gtest/gtest.h>
#include <string.h>

#include <string>
#include <vector>

#include "common/base/error.h"

namespace talos::install {
namespace {

using KernelHead = std::vector<kj::byte>;

std::string problem(const KernelHead& head, uint64_t size, kj::StringPtr arch) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                      [&] { checkKernel({head.data(), head.size()}, size, arch); })) {
    return messageOf(*e).cStr();
  }
  return "";
}

void putNumber(KernelHead& head, size_t at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) head[at + i] = static_cast<kj::byte>(value >> (8 * i));
}

KernelHead bzImage(kj::byte setupSectors, uint32_t paragraphs) {
  KernelHead head(kKernelHeadBytes);
  head[0x1f1] = setupSectors;
  putNumber(head, 0x1f4, paragraphs, 4);
  memcpy(head.data() + 0x202, "HdrS", 4);
  return head;
}

// Returns a head like that of Debian's kernel for arm64: two sections; the second one ends the
// file.
constexpr size_t kPe = 0x40, kTable = kPe + 24 + 0xa0;
KernelHead armImage(uint32_t end) {
  KernelHead head(kKernelHeadBytes);
  memcpy(head.data(), "MZ", 2);
  memcpy(head.data() + 0x38, "ARM\x64", 4);
  putNumber(head, 0x3c, kPe, 4);
  memcpy(head.data() + kPe, "PE", 2);
  putNumber(head, kPe + 4, 0xaa64, 2);
  putNumber(head, kPe + 6, 2, 2);
  putNumber(head, kPe + 20, 0xa0, 2);
  putNumber(head, kTable + 16, 0x1000, 4);  // 0x1000 to 0x2000
  putNumber(head, kTable + 20, 0x1000, 4);
  putNumber(head, kTable + 40 + 16, end - 0x2000, 4);
  putNumber(head, kTable + 40 + 20, 0x2000, 4);
  return head;
}

constexpr const char* kNoBzImage = "vmlinuz is not a kernel (a bzImage for x86-64)";
constexpr const char* kNoArmImage = "vmlinuz is not a kernel (an Image for arm64 with an EFI stub)";

}  // namespace

// Catches: a truncated kernel that passes; a complete kernel that does not.
TEST(KernelImage, HasWhatItsHeaderSays) {
  auto problem = [](const KernelHead& head, uint64_t size) {
    return install::problem(head, size, "amd64");
  };
  EXPECT_EQ(problem(bzImage(3, 100), 4 * 512 + 1600), "");
  EXPECT_EQ(problem(bzImage(3, 100), 1 << 20), "");  // followed by a signature
  EXPECT_EQ(problem(bzImage(3, 100), 4 * 512 + 1599),
            "vmlinuz is cut off: it has 3647 bytes, and its header says 3648");
  EXPECT_EQ(problem(bzImage(0, 0), 5 * 512), "");
  EXPECT_NE(problem(bzImage(0, 0), 5 * 512 - 1), "");
  EXPECT_NE(problem(bzImage(255, 0xffffffff), 1 << 30), "");
}

// Catches: the same for the other architecture, whose header also has the size in memory.
TEST(KernelImage, OfArm64HasAllSections) {
  EXPECT_EQ(problem(armImage(0x3000), 0x3000, "arm64"), "");
  EXPECT_EQ(problem(armImage(0x3000), 0x4000, "arm64"), "");
  EXPECT_EQ(problem(armImage(0x3000), 0x2fff, "arm64"),
            "vmlinuz is cut off: it has 12287 bytes, and its header says 12288");
  auto overflow = armImage(0x3000);
  putNumber(overflow, kTable + 40 + 16, 0xffffffff, 4);
  EXPECT_NE(problem(overflow, 0x3000, "arm64"), "");
  auto compressed = armImage(0x3000);
  memset(compressed.data() + 0x38, 0, 4);
  memcpy(compressed.data() + 4, "zimg", 4);
  EXPECT_EQ(problem(compressed, 0x3000, "arm64"), "");
}

// Catches: another file that is taken for a kernel; a short file that is read beyond its end.
TEST(KernelImage, AnotherFileIsNone) {
  EXPECT_EQ(problem({}, 0, "amd64"), kNoBzImage);
  EXPECT_EQ(problem({}, 0, "arm64"), kNoArmImage);
  EXPECT_EQ(problem(KernelHead(kKernelHeadBytes), 1 << 20, "amd64"), kNoBzImage);
  EXPECT_EQ(problem(KernelHead(kKernelHeadBytes), 1 << 20, "arm64"), kNoArmImage);
  auto head = bzImage(3, 1);
  head.resize(0x205);
  EXPECT_EQ(problem(head, 1 << 20, "amd64"), kNoBzImage);
  for (size_t size = 0; size < kTable + 80; ++size) {
    auto cut = armImage(0x3000);
    cut.resize(size);
    cut.shrink_to_fit();
    EXPECT_EQ(problem(cut, 1 << 20, "arm64"), kNoArmImage) << size;
  }
}

// Catches: a kernel of the other architecture, which the firmware's loader would refuse at the next
// start; an EFI program that is not a kernel; offsets that lead out of the bytes.
TEST(KernelImage, OfTheOtherArchitecture) {
  EXPECT_EQ(problem(armImage(0x3000), 1 << 20, "amd64"), kNoBzImage);
  EXPECT_EQ(problem(bzImage(3, 1), 1 << 20, "arm64"), kNoArmImage);
  struct {
    size_t at;
    uint64_t value;
    size_t bytes;
  } changes[] = {
      {0, 0, 2},             // not "MZ"
      {0x38, 0, 4},          // no magic of a kernel
      {kPe, 0, 2},           // no PE header at its place
      {kPe + 4, 0x8664, 2},  // x86-64
      {kPe + 6, 0xffff, 2},  // sections beyond the bytes
      {kPe + 20, 0xffff, 2},
      {0x3c, 0xffffffff, 4},
      {0x3c, kKernelHeadBytes - 8, 4},
  };
  for (auto& change : changes) {
    auto head = armImage(0x3000);
    putNumber(head, change.at, change.value, change.bytes);
    EXPECT_EQ(problem(head, 1 << 20, "arm64"), kNoArmImage) << change.at;
  }
}

}  // namespace talos::install
