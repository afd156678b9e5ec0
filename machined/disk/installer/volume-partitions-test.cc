#include "machined/disk/installer/volume-partitions.h"

#include <gtest/gtest.h>
#include <string.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/disk/volume-labels.h"

namespace talos::install {
namespace {

constexpr unsigned kSectorBytes = 512;
constexpr uint64_t kVolumeDisk = 8192 * kMiB;

std::string show(const gpt::Table& table) {
  std::string text;
  for (auto& p : table.partitions) {
    text += kj::str(p.name, " ", p.first * kSectorBytes / kMiB, "+",
                    (p.last + 1 - p.first) * kSectorBytes / kMiB,
                    (p.attributes & kUnfinishedVolume) != 0 ? " unfinished\n" : "\n")
                .cStr();
  }
  return text;
}

gpt::Table tableWith(std::initializer_list<kj::StringPtr> names) {
  gpt::Table table{gpt::Guid::random(), {}, kVolumeDisk / kSectorBytes, 2};
  uint64_t first = kMiB / kSectorBytes;
  for (auto name : names) {
    table.partitions.add(gpt::Partition{gpt::kLinuxData, gpt::Guid::random(), first,
                                        first + 1024 * kMiB / kSectorBytes - 1, 0, kj::str(name)});
    first += 1024 * kMiB / kSectorBytes;
  }
  return table;
}

template <typename F>
std::string refused(F&& work) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { (void)work(); })) return messageOf(*e).cStr();
  return "";
}

constexpr VolumePartition kData{.name = "u-data"_kj, .offset = 4096 * kMiB, .size = 512 * kMiB};

}  // namespace

TEST(VolumePartition, IsAddedAsUnfinished) {
  EXPECT_EQ("u-data 4096+512 unfinished\n",
            show(withVolume(nullptr, kData, kVolumeDisk, kSectorBytes)));
  auto table = tableWith({"u-a", "r-b"});
  auto added = withVolume(table, kData, kVolumeDisk, kSectorBytes);
  EXPECT_EQ(show(table) + "u-data 4096+512 unfinished\n", show(added));
  EXPECT_EQ(table.partitions[1].id, added.partitions[1].id);
  EXPECT_EQ(table.disk, added.disk);
  EXPECT_EQ(table.entriesAt, added.entriesAt);
}

// Catches: a partition over the next one, over the table, or over its copy at the end.
TEST(VolumePartition, PlaceThatIsNotFreeIsRefused) {
  auto table = tableWith({"u-a", "r-b"});
  auto at = [&](uint64_t offset, uint64_t size) {
    return refused([&] {
      return withVolume(table, {.name = "u-data", .offset = offset, .size = size}, kVolumeDisk,
                        kSectorBytes);
    });
  };
  EXPECT_EQ("the place is that of u-a", at(kMiB, kMiB));
  EXPECT_EQ("the place is that of r-b", at(2048 * kMiB, 2 * kMiB));
  EXPECT_EQ("", at(2049 * kMiB, (8191 - 2049) * kMiB));
  EXPECT_EQ("the partition does not fit on the disk", at(2049 * kMiB, (8192 - 2049) * kMiB));
  EXPECT_EQ("the partition does not fit on the disk", at(2049 * kMiB, 0));
  EXPECT_EQ("the partition does not fit on the disk", at(2049 * kMiB + 512, kMiB));
}

TEST(VolumePartition, IsFinishedOnce) {
  auto table = withVolume(tableWith({"u-a"}), kData, kVolumeDisk, kSectorBytes);
  auto complete = KJ_ASSERT_NONNULL(finished(table, "u-data"));
  EXPECT_EQ("u-a 1+1024\nu-data 4096+512\n", show(complete));
  EXPECT_EQ(table.partitions[1].id, complete.partitions[1].id);
  EXPECT_TRUE(finished(complete, "u-data") == nullptr);
  EXPECT_EQ("it has no partition u-x", refused([&] { return finished(table, "u-x"); }));
}

// Catches: a name for which there is no room until its volume is complete.
TEST(VolumePartition, NameMayHaveAllCharactersOfADocument) {
  auto name = kj::str("u-", kj::repeat('x', 34));
  VolumePartition wanted{.name = name, .offset = kMiB, .size = kMiB};
  auto table = withVolume(nullptr, wanted, kVolumeDisk, kSectorBytes);
  EXPECT_EQ(name, KJ_ASSERT_NONNULL(finished(table, name)).partitions[0].name);
  EXPECT_EQ(5u, gpt::writes(table, kSectorBytes).size());
}

// Catches: a volume that shrinks, or grows over the next one.
TEST(VolumePartition, GrowsIntoFreeSpaceOnly) {
  auto table = tableWith({"u-a"});
  table.partitions.add(gpt::Partition{gpt::kLinuxData, gpt::Guid::random(),
                                      3072 * kMiB / kSectorBytes, 4096 * kMiB / kSectorBytes - 1, 0,
                                      kj::str("u-b")});
  auto grow = [&](uint64_t size) { return grownVolume(table, "u-a", size, kSectorBytes); };
  EXPECT_TRUE(grow(1024 * kMiB) == nullptr);
  EXPECT_TRUE(grow(512 * kMiB) == nullptr);
  EXPECT_EQ("u-a 1+3071\nu-b 3072+1024\n", show(KJ_ASSERT_NONNULL(grow(3071 * kMiB))));
  EXPECT_EQ("the space is that of u-b", refused([&] { return grow(3072 * kMiB); }));
}

// A power cut after each write: the disk has the old table or the new one. Catches: an order of
// writes that loses a partition, or moves it.
TEST(VolumePartition, EachWriteLeavesTheOldTableOrTheNewOne) {
  std::map<uint64_t, std::vector<kj::byte>> sectors;
  auto read = [&](uint64_t offset, size_t size) {
    auto bytes = kj::heapArray<kj::byte>(size);
    memset(bytes.begin(), 0, size);
    for (size_t at = 0; at < size; at += kSectorBytes) {
      auto found = sectors.find(offset + at);
      if (found != sectors.end()) memcpy(bytes.begin() + at, found->second.data(), kSectorBytes);
    }
    return kj::heapArray<const kj::byte>(bytes.begin(), size);
  };
  auto write = [&](const gpt::Write& step) {
    for (size_t at = 0; at < step.bytes.size(); at += kSectorBytes) {
      sectors[step.offset + at].assign(step.bytes.begin() + at,
                                       step.bytes.begin() + at + kSectorBytes);
    }
  };
  auto now = [&] {
    auto table = gpt::read(read, kSectorBytes);
    KJ_IF_MAYBE (t, table) return t->inForce ? show(*t) : std::string("not in force");
    return std::string("none");
  };
  auto change = [&](const gpt::Table& to) {
    auto there = gpt::read(read, kSectorBytes);
    auto before = now(), after = show(to);
    auto steps = gpt::writes(to, kSectorBytes,
                             there.map([](gpt::Table& t) -> const gpt::Table& { return t; }));
    for (auto& step : steps) {
      write(step);
      auto seen = now();
      EXPECT_TRUE(seen == before || seen == after || (before == "none" && seen == "not in force"))
          << seen;
    }
    EXPECT_EQ(after, now());
  };
  change(withVolume(nullptr, kData, kVolumeDisk, kSectorBytes));
  change(KJ_ASSERT_NONNULL(finished(KJ_ASSERT_NONNULL(gpt::read(read, kSectorBytes)), "u-data")));
  change(withVolume(KJ_ASSERT_NONNULL(gpt::read(read, kSectorBytes)),
                    {.name = "u-next", .offset = kMiB, .size = kMiB}, kVolumeDisk, kSectorBytes));
  change(KJ_ASSERT_NONNULL(grownVolume(KJ_ASSERT_NONNULL(gpt::read(read, kSectorBytes)), "u-data",
                                       1024 * kMiB, kSectorBytes)));
}

// Catches: a disk that counts as empty because its first sectors are zeros; a cut while the first
// table is written after which the disk is refused for ever.
TEST(VolumePartition, OnlyZerosAndTheRestOfAnUnfinishedTableAreAnEmptyDisk) {
  std::map<uint64_t, std::vector<kj::byte>> sectors;
  auto empty = [&] {
    return isEmptyDisk(
        [&](uint64_t offset, size_t size) {
          auto bytes = kj::heapArray<kj::byte>(size);
          memset(bytes.begin(), 0, size);
          for (auto& [at, data] : sectors) {
            if (at < offset || at >= offset + size) continue;
            memcpy(bytes.begin() + (at - offset), data.data(), kSectorBytes);
          }
          return kj::heapArray<const kj::byte>(bytes.begin(), size);
        },
        kVolumeDisk, kSectorBytes);
  };
  EXPECT_TRUE(empty());
  for (uint64_t at : {uint64_t{2 * kSectorBytes}, 8 * kMiB, 16 * kMiB - kSectorBytes,
                      kVolumeDisk - kMiB, kVolumeDisk - kSectorBytes}) {
    sectors[at] = std::vector<kj::byte>(kSectorBytes, 1);
    EXPECT_FALSE(empty()) << at;
    sectors.clear();
  }
  auto steps = gpt::writes(withVolume(nullptr, kData, kVolumeDisk, kSectorBytes), kSectorBytes);
  for (auto& step : steps.slice(0, steps.size() - 1)) {  // the last one puts it in force
    for (size_t at = 0; at < step.bytes.size(); at += kSectorBytes) {
      sectors[step.offset + at].assign(step.bytes.begin() + at,
                                       step.bytes.begin() + at + kSectorBytes);
      EXPECT_TRUE(empty()) << step.offset + at;
    }
  }
  sectors[8 * kMiB] = std::vector<kj::byte>(kSectorBytes, 1);
  EXPECT_FALSE(empty());
  sectors.clear();
  for (auto& step : gpt::writes(tableWith({"u-a"}), kSectorBytes)) {
    sectors[step.offset].assign(step.bytes.begin(), step.bytes.begin() + kSectorBytes);
  }
  EXPECT_FALSE(empty()) << "the table of a finished volume";
}

// Catches: a partition of another kind that becomes swap because of its name, or data that do.
TEST(Swap, OnlyAnEmptyPartitionForSwapAndSwapItselfAreWritten) {
  auto table = tableWith({"s-swap"});
  auto& partition = table.partitions[0];
  auto head = kj::heapArray<kj::byte>(kMiB);
  memset(head.begin(), 0, head.size());
  auto verdict = [&] { return notForSwap(partition, head).orDefault(kj::str("good")); };
  EXPECT_EQ("its partition \"s-swap\" is not one for swap", verdict());
  partition.type = gpt::kLinuxSwap;
  EXPECT_EQ("good", verdict());
  head[20000] = 1;
  EXPECT_EQ("s-swap is not empty and holds no swap; empty the partition if nothing on it is needed",
            verdict());
  auto header = swapHeader(64 * kMiB, gpt::Guid::random());
  memcpy(head.begin(), header.begin(), header.size());
  EXPECT_EQ("good", verdict());
  partition.name = kj::str("data");
  EXPECT_EQ("its partition \"data\" is not one for swap", verdict());
}

TEST(Swap, HeaderHasSizeAndMagic) {
  auto header = swapHeader(64 * kMiB, gpt::Guid::random());
  ASSERT_EQ(4096u, header.size());
  EXPECT_EQ(0, memcmp(header.end() - 10, "SWAPSPACE2", 10));
  EXPECT_EQ(1, header[1024]);
  EXPECT_EQ(64 * kMiB / 4096 - 1, header[1028] | header[1029] << 8u | header[1030] << 16u);
}

}  // namespace talos::install
