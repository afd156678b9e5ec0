#include "machined/install/user-disk.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/error.h"

namespace talos::install {
namespace {

constexpr uint64_t kGiB = 1024 * kMiB;

std::string show(std::vector<uint64_t> sizes, uint64_t disk, unsigned sector = 512) {
  std::string text;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 auto table = userLayout(kj::arrayPtr(sizes.data(), sizes.size()), disk, sector);
                 for (auto& p : table.partitions) {
                   text += std::string(p.name.cStr()) + " " +
                           std::to_string(p.first * sector / kMiB) + "-" +
                           std::to_string((p.last + 1) * sector / kMiB) + " ";
                 }
               })) {
    text = messageOf(*e).cStr();
  }
  return text;
}

// Catches: partitions that overlap, are smaller than asked for, or reach into the table's copy.
TEST(UserLayout, OnePartitionBehindTheOther) {
  EXPECT_EQ(show({0}, kGiB), "user-disk-1 1-1023 ");
  EXPECT_EQ(show({100 * kMiB, 0}, kGiB, 4096), "user-disk-1 1-101 user-disk-2 101-1023 ");
  EXPECT_EQ(show({1, 200'000'000}, kGiB), "user-disk-1 1-2 user-disk-2 2-193 ");
  EXPECT_EQ(show({1022 * kMiB}, kGiB), "user-disk-1 1-1023 ");
  EXPECT_EQ(show({1022 * kMiB + 1}, kGiB), "it has 1024 MiB, which is too small for partition 1");
  EXPECT_EQ(show({1022 * kMiB, 0}, kGiB), "it has 1024 MiB, which is too small for partition 2");
  EXPECT_EQ(show({~uint64_t{0} - kMiB, 0}, kGiB),
            "it has 1024 MiB, which is too small for partition 1");
  EXPECT_EQ(show({0}, 100), "it has 0 MiB, which is too small for partition 1");
}

}  // namespace
}  // namespace talos::install
