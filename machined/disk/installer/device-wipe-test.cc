#include "machined/disk/installer/device-wipe.h"

#include <gtest/gtest.h>

namespace talos::install {
namespace {

// Returns the parts in MiB: "offset+size offset+size".
std::string partsOf(uint64_t diskMiB, std::vector<WipedRange> partitions, bool zeroes = false) {
  for (auto& p : partitions) p = {p.offset * kMiB, p.size * kMiB};
  std::string text;
  for (auto& range :
       rangesToWipe(diskMiB * kMiB, kj::arrayPtr(partitions.data(), partitions.size()), zeroes)) {
    text += (text.empty() ? "" : " ") + std::to_string(range.offset / kMiB) + "+" +
            std::to_string(range.size / kMiB);
  }
  return text;
}

// Catches: a file system that is found again when a partition is made at the same place; the table
// erased before its partitions; a copy of the table at the end that is left, or a write beyond it.
TEST(DeviceWipe, TheBeginningAndTheEndOfEachPartitionAndOfTheDisk) {
  EXPECT_EQ("9999+1 0+16", partsOf(10000, {}));
  EXPECT_EQ("199+1 100+100 9999+1 200+16 9999+1 0+16", partsOf(10000, {{100, 100}, {200, 9800}}));
  EXPECT_EQ("9999+1 9000+16 9999+1 0+16", partsOf(10000, {{9000, 5000}, {20000, 10}}));
  EXPECT_EQ("63+1 0+64", partsOf(64, {}));
  EXPECT_EQ("0+10000", partsOf(10000, {{100, 100}}, true));
  std::string none;
  for (auto& range : rangesToWipe(0, nullptr, false)) none += std::to_string(range.size) + " ";
  EXPECT_EQ("0 0 ", none);
}

}  // namespace
}  // namespace talos::install
