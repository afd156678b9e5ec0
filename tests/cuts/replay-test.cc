#include "tests/cuts/replay.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "tests/harness/process.h"

namespace talos::cuts {
namespace {

using disk::kSector;
using harness::slurp;

// Two disks, and the operations of a machine on them: the same for the same number.
struct Machine {
  static constexpr unsigned kSectors = 64, kEvents = 40;
  Scratch scratch;
  kj::WaitScope& scope;
  disk::MachineDisks disks;
  std::vector<std::string> paths;
  std::vector<disk::Export*> exports;
  std::mt19937 chance;

  Machine(kj::WaitScope& scope, unsigned number) : scope(scope), chance(number) {
    for (const char* name : {"a", "b"}) {
      paths.push_back(scratch.path() + "/" + name);
      std::ofstream(paths.back(), std::ios::binary)
          << std::string(3 * kSector, 'o') << std::string((kSectors - 3) * kSector, '\0');
      int fd = open(paths.back().c_str(), O_RDWR | O_CLOEXEC);
      exports.push_back(&disks.add(kj::heap<disk::FileMedium>(kj::AutoCloseFd(fd))));
    }
  }
  // True if it changes a disk.
  bool step() {
    auto& disk = *exports[chance() % 2];
    uint64_t first = chance() % (kSectors - 8), count = 1 + chance() % 8;
    bool durable = chance() % 4 == 0;
    auto kind = chance() % 6;
    auto bytes = kj::heapArray<kj::byte>(count * kSector);
    for (auto& byte : bytes) byte = static_cast<kj::byte>('a' + chance() % 26);
    if (kind == 0) {
      disk.flush().poll(scope);
    } else if (kind == 1) {
      disk.zero(first * kSector, count * kSector, durable).poll(scope);
    } else {
      disk.write(first * kSector, bytes, durable).poll(scope);
    }
    return kind != 0;
  }
};

struct Loop {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
};

std::string recordOf(kj::WaitScope& scope, unsigned number, const Scratch& scratch) {
  Machine machine(scope, number);
  auto path = scratch.path() + "/log";
  machine.disks.record(path.c_str(), 1 << 20);
  for (unsigned i = 0; i < Machine::kEvents; ++i) machine.step();
  EXPECT_EQ(machine.disks.recording().events, Machine::kEvents);
  EXPECT_TRUE(machine.disks.recording().running);
  return path;
}

// Catches: a replay that differs from the power cut of the machine itself: writes that are missing
// in the log, out of their order, without their flags or flushes; a cut that is not undone.
TEST(Replay, IsWhatTheMachinesOwnCutLeaves) {
  Loop it;
  for (unsigned number = 1; number <= 20; ++number) {
    Scratch scratch;
    Replay replay(it.scope, recordOf(it.scope, number, scratch), scratch.path());
    ASSERT_EQ(replay.events(), Machine::kEvents);
    size_t write = 0;
    for (size_t event = 0; event < replay.events(); ++event) {
      if (!replay.changes(event)) continue;
      ++write;
      for (uint64_t seed : {0, 3}) {
        Machine machine(it.scope, number);
        auto cutting = machine.disks.cut(write, seed);
        while (!cutting.poll(machine.scope)) machine.step();
        auto own = cutting.wait(machine.scope);
        std::vector<std::string> left;
        auto said = replay.cut(event, Replay::When::kAt, seed, [&] {
          for (auto& path : replay.images()) left.push_back(slurp(path));
        });
        for (size_t i : {0, 1}) {
          EXPECT_TRUE(left.at(i) == slurp(machine.paths[i]))
              << "disk " << i << ", write " << write << " of " << number << ", seed " << seed;
        }
        EXPECT_EQ(said.unflushed, own.unflushed);
        EXPECT_EQ(said.kept, own.kept);
      }
    }
    EXPECT_EQ(write, replay.writes());
  }
}

// Catches: a cut at once that loses flushed writes, or counts the next write as done.
TEST(Replay, ACutAtOnceHasWhatWasFlushed) {
  Scratch scratch;
  Loop it;
  Replay replay(it.scope, recordOf(it.scope, 7, scratch), scratch.path());
  for (size_t event = 0; event <= replay.events(); ++event) {
    Machine machine(it.scope, 7);
    for (size_t i = 0; i < event; ++i) machine.step();
    machine.disks.cut(0, 0).wait(machine.scope);
    replay.cut(event, Replay::When::kBefore, 0, [&] {
      for (size_t i : {0, 1}) {
        EXPECT_TRUE(slurp(replay.images()[i]) == slurp(machine.paths[i])) << event;
      }
    });
  }
}

// Catches: a recording that stops the machine, is reported as complete when it is not, overwrites a
// file, or continues after it was stopped.
TEST(Recording, EndsWhenItIsFullOrStopped) {
  Scratch scratch;
  Loop it;
  Machine machine(it.scope, 1);
  auto full = scratch.path() + "/full", other = scratch.path() + "/other";
  machine.disks.record(full.c_str(), 96 << 10);
  EXPECT_ANY_THROW(machine.disks.record(other.c_str(), 1 << 20)) << "there is one";
  for (unsigned i = 0; i < 40; ++i) machine.step();
  auto recording = machine.disks.recording();
  EXPECT_FALSE(recording.running);
  EXPECT_EQ(std::string(recording.problem.cStr()), full + " would have more than 0 MiB");
  EXPECT_LE(recording.bytes, 96u << 10);
  Replay replay(it.scope, full, scratch.path());
  EXPECT_EQ(replay.events(), recording.events);
  EXPECT_ANY_THROW(machine.disks.record(full.c_str(), 1 << 20)) << "the file is there";
  EXPECT_EQ(access(full.c_str(), F_OK), 0) << "somebody else's";
  machine.disks.record(other.c_str(), 1 << 20);
  machine.step();
  machine.disks.stopRecording();
  machine.step();
  EXPECT_EQ(machine.disks.recording().events, 1u);
  EXPECT_EQ(machine.disks.recording().problem.size(), 0u);
  EXPECT_ANY_THROW(machine.disks.record((scratch.path() + "/no/such").c_str(), 1 << 20));
  auto small = scratch.path() + "/small";
  EXPECT_ANY_THROW(machine.disks.record(small.c_str(), 512));
  EXPECT_NE(access(small.c_str(), F_OK), 0) << "what is on the disks is left in a file";
}

}  // namespace
}  // namespace talos::cuts
