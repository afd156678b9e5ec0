// Power cuts of META writes without a machine, in the pieces in which a kernel sends them; and
// whether they would be noticed that are not as they should be.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <unistd.h>

#include "tests/cuts/image.h"
#include "tests/cuts/replay.h"

namespace talos::cuts {
namespace {

constexpr uint64_t kDiskBytes = 4 << 20, kMetaAt = 1 << 20;
constexpr size_t kPiece = 64 << 10;
constexpr unsigned kChanges = 10;

enum class Flushes { kAfterEachWrite, kAfterTheLast, kNone };

std::string valueOf(size_t change) {
  return "value-" + std::to_string(change);
}

std::string newDisk(const std::string& folder) {
  auto path = folder + "/disk";
  kj::AutoCloseFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  KJ_SYSCALL(ftruncate(fd, kDiskBytes));
  gpt::Table table{.disk = gpt::Guid::random(),
                   .partitions = {},
                   .sectors = kDiskBytes / disk::kSector,
                   .entriesAt = 0};
  table.partitions.add(gpt::Partition{.type = gpt::kLinuxData,
                                      .id = gpt::Guid::random(),
                                      .first = kMetaAt / disk::kSector,
                                      .last = (kMetaAt + machined::kMetaBytes) / disk::kSector - 1,
                                      .attributes = 0,
                                      .name = kj::str("META")});
  for (auto& write : gpt::writes(table, disk::kSector)) {
    KJ_REQUIRE(pwrite(fd, write.bytes.begin(), write.bytes.size(),
                      static_cast<off_t>(write.offset)) == write.bytes.size());
  }
  return path;
}

// The events at the end of each change.
std::vector<size_t> record(kj::WaitScope& scope, const Scratch& scratch, Flushes flushes) {
  disk::MachineDisks machine;
  auto path = newDisk(scratch.path());
  auto& disk = machine.add(
      kj::heap<disk::FileMedium>(kj::AutoCloseFd(open(path.c_str(), O_RDWR | O_CLOEXEC))));
  auto change = [&](uint32_t tag, const std::string& value) {
    auto bytes = kj::heapArray<kj::byte>(machined::kMetaBytes);
    disk.read(kMetaAt, bytes).wait(scope);
    machined::MetaValues values(bytes);
    values.set(tag, kj::arrayPtr(value.data(), value.size()).asBytes());
    auto writes = values.writes();
    for (auto& write : writes) {
      for (size_t at = 0; at < write.bytes.size(); at += kPiece) {
        auto piece = write.bytes.slice(at, kj::min(write.bytes.size(), at + kPiece));
        disk.write(kMetaAt + write.offset + at, piece, false).wait(scope);
      }
      bool last = &write == &writes.back();
      bool flush =
          flushes == Flushes::kAfterEachWrite || (flushes == Flushes::kAfterTheLast && last);
      if (flush) disk.flush().wait(scope);
    }
  };
  change(41, "other");
  change(40, valueOf(0));
  disk.flush().wait(scope);
  machine.record((scratch.path() + "/log").c_str(), 64 << 20);
  std::vector<size_t> ends = {0};
  for (unsigned i = 1; i <= kChanges; ++i) {
    change(40, valueOf(i));
    ends.push_back(machine.recording().events);
  }
  return ends;
}

// Returns the number of cuts that leave META in a state that is not allowed: at each write with
// three seeds, and after each change.
unsigned badCuts(Flushes flushes, unsigned& all) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  Scratch scratch;
  auto ends = record(scope, scratch, flushes);
  Replay replay(scope, scratch.path() + "/log", scratch.path());
  auto& image = replay.images()[0];
  unsigned bad = 0;
  auto look = [&](size_t before, size_t after) {
    auto value = metaValue(image, 40);
    bool good =
        (value == valueOf(before) || value == valueOf(after)) && metaValue(image, 41) == "other";
    bad += !good;
    ++all;
  };
  size_t change = 0;
  for (size_t event = 0; event <= replay.events(); ++event) {
    if (event == ends[change]) {
      replay.cut(event, Replay::When::kBefore, 0, [&] { look(change, change); });
      ++change;
    }
    if (event == replay.events() || !replay.changes(event)) continue;
    for (uint64_t seed : {uint64_t(0), uint64_t(event + 1), uint64_t(event + 1000)}) {
      replay.cut(event, Replay::When::kAt, seed, [&] { look(change - 1, change); });
    }
  }
  return bad;
}

// Catches: writes of META of which a cut leaves neither the old nor the new value; a check of cuts
// that finds nothing.
TEST(MetaCuts, OnlyFlushedWritesSurviveThem) {
  unsigned all = 0, without = 0;
  EXPECT_EQ(badCuts(Flushes::kAfterEachWrite, all), 0u);
  EXPECT_GE(all, 240u);
  EXPECT_GT(badCuts(Flushes::kAfterTheLast, without), 0u) << "both copies were damaged at once";
  EXPECT_GT(badCuts(Flushes::kNone, without), 0u) << "what was answered was lost";
}

}  // namespace
}  // namespace talos::cuts
