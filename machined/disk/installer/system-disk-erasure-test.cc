#include "machined/disk/installer/system-disk-erasure.h"

#include <gtest/gtest.h>
#include <string.h>

#include <functional>
#include <map>
#include <string>

#include "common/base/error.h"
#include "machined/disk/devices/meta-values.h"

namespace talos::install {
namespace {

using machined::kMetaBytes;
using machined::MetaTag;
using machined::MetaValues;
using Kind = EraseStep::Kind;

constexpr uint64_t kDisk = 2048 * kMiB;
constexpr unsigned kSector = 512;
constexpr auto kMark = static_cast<uint32_t>(MetaTag::kReset);

gpt::Table installedTable() {
  auto table = layout(kDisk, kSector);
  finish(table);
  return table;
}

std::string show(const gpt::Table& table, kj::ArrayPtr<const kj::StringPtr> labels,
                 uint64_t disk = kDisk) {
  static constexpr const char* kKinds[] = {"zero", "unname", "fat", "xfs", "only mark", "no mark"};
  std::string text;
  for (auto& step : eraseSteps(table, kSector, disk, labels)) {
    if (!text.empty()) text += "; ";
    text += std::string(kKinds[static_cast<int>(step.kind)]) + " " + step.what.cStr();
    if (step.kind == Kind::kZero) {
      text += " " + std::to_string(step.offset >> 10) + "+" + std::to_string(step.size >> 10);
    }
  }
  return text;
}

// Catches: a lost step; key slots that stay; a mark that is erased before the data that it stands
// for; a label that erases another partition.
TEST(Erasure, Steps) {
  auto table = installedTable();
  struct Row {
    std::vector<kj::StringPtr> labels;
    const char* steps;  // KiB
  };
  Row rows[] = {
      {{"EPHEMERAL"}, "zero EPHEMERAL 515072+16384; no mark META"},
      {{"STATE"}, "zero STATE 412672+102400; no mark META"},
      {{"BOOT", "EPHEMERAL", "STATE"},
       "zero STATE 412672+102400; zero EPHEMERAL 515072+16384; zero BOOT 104448+16384; xfs BOOT; "
       "no mark META"},
      {{"EFI", "BIOS"}, "zero EFI 1024+16384; fat EFI; zero BIOS 103424+1024; no mark META"},
      {{"META"}, "only mark META; zero META 411904+768; zero META 411648+256"},
      {{},
       "zero STATE 412672+102400; zero EPHEMERAL 515072+16384; only mark META; "
       "unname partition table; zero partition table 2096128+1024; zero partition table 0+0; "
       "zero partition table 0+1023; zero META 411904+768; zero META 411648+256"},
  };
  for (auto& row : rows) {
    EXPECT_EQ(show(table, kj::arrayPtr(row.labels.data(), row.labels.size())), row.steps);
  }
  // A disk that has grown: the copy is at the previous end.
  EXPECT_NE(show(table, nullptr, 2 * kDisk)
                .find("zero partition table 4193280+1024; zero partition table 2096128+1024; "),
            std::string::npos);
}

// Catches: a reset that erases a part of a disk that differs from the request.
TEST(Erasure, APartitionThatIsNotThere) {
  auto table = installedTable();
  table.partitions.resize(4);
  kj::StringPtr labels[] = {"BOOT"_kj, "STATE"_kj};
  auto failure = kj::runCatchingExceptions([&] { eraseSteps(table, kSector, kDisk, labels); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)), "the disk has no partition STATE");
}

// A disk that stores only written sectors.
struct MemoryDisk {
  std::map<uint64_t, std::string> sectors;

  kj::Array<const kj::byte> read(uint64_t offset, size_t size) const {
    auto bytes = kj::heapArray<kj::byte>(size);
    memset(bytes.begin(), 0, size);
    for (size_t at = 0; at < size; at += kSector) {
      auto found = sectors.find((offset + at) / kSector);
      if (found != sectors.end())
        memcpy(bytes.begin() + at, found->second.data(), kj::min(kSector, size - at));
    }
    return kj::heapArray<const kj::byte>(bytes.asPtr());
  }
  void write(uint64_t offset, kj::ArrayPtr<const kj::byte> bytes) {
    for (size_t at = 0; at < bytes.size(); at += kSector) {
      auto part = bytes.slice(at, kj::min(bytes.size(), at + kSector));
      sectors[(offset + at) / kSector] =
          std::string(reinterpret_cast<const char*>(part.begin()), part.size());
      sectors[(offset + at) / kSector].resize(kSector);
    }
  }
  void zero(uint64_t offset, uint64_t size) {
    sectors.erase(sectors.lower_bound(offset / kSector),
                  sectors.lower_bound((offset + size) / kSector));
  }
  bool firstSectorIsEmpty() const { return sectors.find(0) == sectors.end(); }
  kj::Maybe<gpt::Table> table() const {
    return gpt::read([this](uint64_t offset, size_t size) { return read(offset, size); }, kSector);
  }
  MetaValues meta(const Place& place) const { return MetaValues(read(place.offset, kMetaBytes)); }
};

// Returns all writes of an erasure, each of at most one step: smaller ones than a disk would do.
std::vector<std::function<void(MemoryDisk&)>> writesOf(const MemoryDisk& begin,
                                                       const gpt::Table& table,
                                                       kj::ArrayPtr<const kj::StringPtr> labels) {
  std::vector<std::function<void(MemoryDisk&)>> writes;
  auto now = begin;
  auto add = [&](std::function<void(MemoryDisk&)> write) {
    write(now);
    writes.push_back(kj::mv(write));
  };
  for (auto& step : eraseSteps(table, kSector, kDisk, labels)) {
    if (step.kind == Kind::kZero) {
      auto piece = kj::max<uint64_t>(step.size / 4 / kSector * kSector, kSector);
      for (uint64_t done = 0; done < step.size; done += piece) {
        auto size = kj::min(piece, step.size - done);
        add([at = step.offset + done, size](MemoryDisk& disk) { disk.zero(at, size); });
      }
    } else if (step.kind == Kind::kUnname) {
      auto old = KJ_ASSERT_NONNULL(now.table()), renamed = KJ_ASSERT_NONNULL(now.table());
      install::begin(renamed);
      for (auto& write : gpt::writes(renamed, kSector, old)) {
        auto bytes =
            std::string(reinterpret_cast<const char*>(write.bytes.begin()), write.bytes.size());
        add([at = write.offset, bytes](MemoryDisk& disk) {
          disk.write(at, kj::StringPtr(bytes.data(), bytes.size()).asBytes());
        });
      }
    } else if (step.kind == Kind::kOnlyMark || step.kind == Kind::kNoMark) {
      auto values = now.meta(KJ_ASSERT_NONNULL(find(table, kMeta, kSector)));
      eraseValues(step, values);
      for (auto& write : values.writes()) {
        auto bytes =
            std::string(reinterpret_cast<const char*>(write.bytes.begin()), write.bytes.size());
        add([at = step.offset + write.offset, bytes](MemoryDisk& disk) {
          disk.write(at, kj::StringPtr(bytes.data(), bytes.size()).asBytes());
        });
      }
    }
  }
  return writes;
}

MemoryDisk installedDisk(const gpt::Table& table) {
  MemoryDisk disk;
  for (auto& write : gpt::writes(table, kSector)) disk.write(write.offset, write.bytes);
  auto meta = KJ_ASSERT_NONNULL(find(table, kMeta, kSector));
  auto values = disk.meta(meta);
  values.set(9, "a key of encryption"_kj.asBytes());
  values.set(10, "a user's"_kj.asBytes());
  values.set(kMark, "off"_kj.asBytes());
  for (auto& write : values.writes()) disk.write(meta.offset + write.offset, write.bytes);
  for (auto label : {kState, kEphemeral}) {
    disk.write(KJ_ASSERT_NONNULL(find(table, label, kSector)).offset, "XFSB or LUKS"_kj.asBytes());
  }
  return disk;
}

// Catches: a cut after which the reset is not finished, and the data or the keys still exist; keys
// of an erased STATE that stay readable in META, or keys of a kept STATE that are removed; a table
// that is erased before the keys; a mark that stays and erases the next installation.
TEST(Erasure, ACutAtAnyWriteIsFinishedLater) {
  auto table = installedTable();
  auto state = KJ_ASSERT_NONNULL(find(table, kState, kSector)),
       ephemeral = KJ_ASSERT_NONNULL(find(table, kEphemeral, kSector)),
       meta = KJ_ASSERT_NONNULL(find(table, kMeta, kSector));
  std::vector<std::vector<kj::StringPtr>> labelSets = {
      {}, {"STATE", "EPHEMERAL"}, {"STATE", "EPHEMERAL", "META"}, {"EPHEMERAL"}};
  for (auto& labelSet : labelSets) {
    auto labels = kj::arrayPtr(labelSet.data(), labelSet.size());
    auto begin = installedDisk(table);
    auto writes = writesOf(begin, table, labels);
    ASSERT_GE(writes.size(), 6u);
    for (size_t cut = 0; cut <= writes.size(); ++cut) {
      auto disk = begin;
      for (size_t i = 0; i < cut; ++i) writes[i](disk);
      SCOPED_TRACE("labels " + std::to_string(labelSet.size()) + ", cut at " + std::to_string(cut));
      auto table = disk.table();
      bool visible = table.map([](gpt::Table& t) { return t.inForce; }).orDefault(false);
      bool marked = visible && disk.meta(meta).get(kMark) != nullptr;
      bool withState = labelSet.size() != 1;
      bool empty = (!withState || disk.read(state.offset, 64)[0] == 0) &&
                   disk.read(ephemeral.offset, 64)[0] == 0;
      EXPECT_TRUE(marked || empty);
      if (labelSet.empty()) {
        EXPECT_TRUE(marked || disk.firstSectorIsEmpty());
        // The rest of the table does not belong to an installed node.
        KJ_IF_MAYBE (t, table) {
          if (!visible) EXPECT_EQ(installedOn(*t), Installed::kUnfinished);
        }
      } else {
        EXPECT_TRUE(visible);
      }
      // The keys of an erased STATE are removed; those of an existing STATE are needed.
      if (!marked && withState) EXPECT_EQ(disk.meta(meta).get(9), nullptr);
      if (cut == writes.size()) {
        EXPECT_FALSE(marked);
        EXPECT_EQ(visible, !labelSet.empty());
        EXPECT_EQ(visible && disk.meta(meta).get(9) != nullptr, !withState);
        EXPECT_EQ(visible && disk.meta(meta).get(10) != nullptr,
                  labelSet.size() == 1 || labelSet.size() == 2);
      }
    }
  }
}

}  // namespace
}  // namespace talos::install
