#include "machined/disk/installer/kernel-image.h"

#include <gtest/gtest.h>
#include <string.h>

#include <vector>

#include "common/base/error.h"

namespace talos::install {
namespace {

std::string problem(const std::vector<kj::byte>& head, uint64_t size) {
  KJ_IF_MAYBE (e,
               kj::runCatchingExceptions([&] { checkKernel({head.data(), head.size()}, size); })) {
    return messageOf(*e).cStr();
  }
  return "";
}

std::vector<kj::byte> headOf(kj::byte setupSectors, uint32_t paragraphs) {
  std::vector<kj::byte> head(kKernelHeadBytes);
  head[0x1f1] = setupSectors;
  memcpy(head.data() + 0x1f4, &paragraphs, sizeof paragraphs);
  memcpy(head.data() + 0x202, "HdrS", 4);
  return head;
}

}  // namespace

// Catches: a kernel that is cut off and passes, one that is whole and does not.
TEST(KernelImage, HasWhatItsHeaderSays) {
  EXPECT_EQ(problem(headOf(3, 100), 4 * 512 + 1600), "");
  EXPECT_EQ(problem(headOf(3, 100), 1 << 20), "");  // with a signature behind it
  EXPECT_EQ(problem(headOf(3, 100), 4 * 512 + 1599),
            "vmlinuz is cut off: it has 3647 bytes, and its header says 3648");
  EXPECT_EQ(problem(headOf(0, 0), 5 * 512), "");
  EXPECT_NE(problem(headOf(0, 0), 5 * 512 - 1), "");
  EXPECT_NE(problem(headOf(255, 0xffffffff), 1 << 30), "");
}

// Catches: another file that is taken for a kernel, a short one that is read beyond its end.
TEST(KernelImage, WhatIsNone) {
  auto none = "vmlinuz is not a kernel (a bzImage for x86-64)";
  EXPECT_EQ(problem({}, 0), none);
  EXPECT_EQ(problem(std::vector<kj::byte>(kKernelHeadBytes), 1 << 20), none);
  auto head = headOf(3, 1);
  head.resize(0x205);
  EXPECT_EQ(problem(head, 1 << 20), none);
}

}  // namespace talos::install
