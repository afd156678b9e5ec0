#include "logd/spool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "common/base/append-only-frames.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/testing/test-tree.h"

namespace talos::logd {
namespace {

using config::LogStream;

struct SpoolTest : public testing::Test {
  ~SpoolTest() noexcept override {}

  machined::TestTree tree;
  kj::String folder = tree.at("spool");
  kj::Own<Spool> spool;

  Spool& open(uint64_t bound = 1u << 20) {
    spool = nullptr;
    return *(spool = kj::heap<Spool>(folder, bound));
  }
  void add(kj::StringPtr id, kj::StringPtr lines, uint64_t position) {
    spool->append(LogStream::SERVICES, id, kj::UNIX_EPOCH + 7 * kj::SECONDS, lines, position);
  }
  // Returns all lines from a place on, with their logs.
  std::string rest(Spool::Place from) {
    std::string text;
    for (;;) {
      KJ_IF_MAYBE (batch, spool->read(from)) {
        text += kj::str(batch->id, ":", batch->lines, batch->missed ? "!" : "").cStr();
        from = batch->next;
      } else {
        return text;
      }
    }
  }
  std::string rest() { return rest(spool->cursor()); }
  uint64_t position(kj::StringPtr id) {
    auto found = spool->positions().find({LogStream::SERVICES, id.cStr()});
    return found == spool->positions().end() ? 0 : found->second;
  }
  // Delivers `count` batches.
  void deliver(unsigned count) {
    auto place = spool->cursor();
    for (; count > 0; --count) place = KJ_ASSERT_NONNULL(spool->read(place)).next;
    spool->delivered(place, 0);
  }
};

// Catches: a cursor that is not kept; lines that come again after a restart.
TEST_F(SpoolTest, GoesOnWhereItWas) {
  open().begin("boot-1");
  add("a", "1\n2\n", 4);
  add("b", "x\n", 2);
  add("a", "3\n", 6);
  EXPECT_EQ("a:1\n2\nb:x\na:3\n", rest());
  deliver(2);
  EXPECT_EQ("a:3\n", rest());
  EXPECT_EQ(3u, spool->counts().sentLines);
  open();
  EXPECT_EQ("a:3\n", rest());
  EXPECT_EQ(3u, spool->counts().sentLines);
  EXPECT_EQ("boot-1", spool->boot());
  EXPECT_EQ(6u, position("a"));
  EXPECT_EQ(2u, position("b"));
  // The lines of an earlier boot stay, its positions do not.
  spool->begin("boot-2");
  EXPECT_EQ(0u, position("a"));
  add("a", "new\n", 4);
  open();
  EXPECT_EQ("boot-2", spool->boot());
  EXPECT_EQ(4u, position("a"));
  EXPECT_EQ(0u, position("b"));
  EXPECT_EQ("a:3\na:new\n", rest());
}

// Catches: positions that are removed with their segment: their lines would come twice.
TEST_F(SpoolTest, KeepsThePositionsOfLogsThatAreSilent) {
  open().begin("boot-1");
  add("quiet", "once\n", 5);
  auto lines = kj::strArray(kj::repeat("0123456789abcde"_kj, 1000), "\n");
  for (unsigned i = 1; i < 100; ++i) {
    add("loud", lines, 16'000 * i);
    deliver(i == 1 ? 2 : 1);
  }
  EXPECT_LE(namesIn(folder).size(), 3u);  // the cursor, and one or two segments
  open();
  EXPECT_EQ(5u, position("quiet"));
  EXPECT_EQ(16'000u * 99, position("loud"));
  EXPECT_EQ("", rest());
  EXPECT_EQ(0u, spool->waitingBytes());
}

// Catches: a spool that grows beyond its bound; dropped lines that are counted not at all, or
// twice.
TEST_F(SpoolTest, DropsTheOldestAndCounts) {
  open().begin("boot-1");
  auto lines = kj::str(kj::strArray(kj::repeat("0123456789abcde"_kj, 1000), "\n"), "\n");
  unsigned added = 0;
  for (; added < 200; ++added) add("a", lines, 16'000 * (added + 1));
  EXPECT_LE(spool->waitingBytes(), 1u << 20);
  EXPECT_GE(spool->waitingBytes(), (7u << 20) / 8 - 32'000);
  uint64_t kept = 0;
  for (auto from = spool->cursor();;) {
    KJ_IF_MAYBE (batch, spool->read(from)) {
      kept += batch->count;
      from = batch->next;
    } else {
      break;
    }
  }
  EXPECT_EQ(200'000u, kept + spool->counts().droppedLines);
  EXPECT_EQ(spool->counts().droppedLines, spool->unreported());
  auto dropped = spool->counts().droppedLines;
  deliver(1);
  spool->delivered(spool->cursor(), dropped);
  EXPECT_EQ(0u, spool->unreported());
  open();
  EXPECT_EQ(dropped, spool->counts().droppedLines);
  EXPECT_EQ(0u, spool->unreported());
  // Delivered lines of the cursor's segment do not count as dropped.
  while (spool->counts().droppedLines == dropped) add("a", lines, 16'000 * ++added);
  EXPECT_EQ(0u, (spool->counts().droppedLines - dropped) % 1000);
  auto delivered = spool->counts().sentLines;
  uint64_t left = 0;
  for (auto from = spool->cursor();;) {
    KJ_IF_MAYBE (batch, spool->read(from)) {
      left += batch->count;
      from = batch->next;
    } else {
      break;
    }
  }
  EXPECT_EQ(added * 1000, delivered + left + spool->counts().droppedLines);
}

// Catches: half a frame that hides all following frames; a cursor after the end, which skips lines
// that are written there later.
TEST_F(SpoolTest, SurvivesAPowerCut) {
  open().begin("boot-1");
  add("a", "1\n", 2);
  add("a", "2\n", 4);
  deliver(2);
  kj::String newest;
  for (auto& name : namesIn(folder)) {
    if (name.endsWith(".lines")) newest = kj::str(folder, "/", name);
  }
  auto content = readFile(newest);
  for (size_t cut = 1; cut < 12; ++cut) {
    spool = nullptr;
    ASSERT_EQ(0, truncate(newest.cStr(), static_cast<off_t>(content.size() - cut)));
    open();
    EXPECT_EQ(2u, position("a"));
    EXPECT_EQ("", rest());
    add("a", "2 again\n", 4);
    EXPECT_EQ("a:2 again\n", rest());
    writeFileAtomically(newest, content, 0600);
    open();
    deliver(rest() == "" ? 0 : 1);
  }
}

// Catches: lines that are taken again without the mark, after a restart too; a mark on new lines;
// acknowledged lines that a full spool counts as dropped, or keeps beyond its bound.
TEST_F(SpoolTest, KnowsWhatWasTakenAndAcknowledged) {
  open().begin("boot-1");
  add("a", "1\n2\n", 4);
  add("a", "3\n", 6);
  auto first = KJ_ASSERT_NONNULL(spool->take(spool->cursor()));
  EXPECT_FALSE(first.repeated);
  open();
  EXPECT_TRUE(KJ_ASSERT_NONNULL(spool->take(spool->cursor())).repeated);
  EXPECT_EQ(2u, spool->counts().repeatedLines);
  auto second = KJ_ASSERT_NONNULL(spool->take(first.next));
  EXPECT_FALSE(second.repeated);
  open();
  EXPECT_EQ(2u, spool->counts().repeatedLines);

  spool->acknowledged(second.next);
  auto lines = kj::str(kj::strArray(kj::repeat("0123456789abcde"_kj, 1000), "\n"), "\n");
  uint64_t added = 0;
  while (spool->counts().droppedLines == 0) {
    ASSERT_LT(added, 100'000u);
    add("a", lines, 6 + 16'000 * ++added);
  }
  EXPECT_EQ(3u, spool->counts().sentLines);
  EXPECT_EQ(0u, spool->counts().droppedLines % 1000);
}

// Catches: missed bytes that are not reported in their place, or not counted; a count that a crash
// takes before anything is delivered.
TEST_F(SpoolTest, SaysWhatALogMissed) {
  open().begin("boot-1");
  add("a", "1\n", 2);
  spool->appendMissed(LogStream::SERVICES, "a", kj::UNIX_EPOCH, 77, 79);
  add("a", "2\n", 81);
  EXPECT_EQ("a:1\na:77 bytes of this log were overwritten before they could be sent\n!a:2\n",
            rest());
  EXPECT_EQ(77u, spool->counts().missedBytes);
  EXPECT_EQ(0u, spool->counts().missedRecords);
  open();
  EXPECT_EQ(77u, spool->counts().missedBytes);
}

// Catches: records of the kernel log that were overwritten and are in no count, or are taken for
// bytes; a count that a restart forgets.
TEST_F(SpoolTest, CountsMissedRecordsOfTheKernelLog) {
  open().begin("boot-1");
  spool->appendMissed(LogStream::KERNEL, "", kj::UNIX_EPOCH, 6, 0);
  spool->appendMissed(LogStream::KERNEL, "", kj::UNIX_EPOCH, 1, 0);
  EXPECT_EQ(7u, spool->counts().missedRecords);
  EXPECT_EQ(0u, spool->counts().missedBytes);
  deliver(2);
  open();
  EXPECT_EQ(7u, spool->counts().missedRecords);
}

struct DamagedSpoolTest : public SpoolTest {
  ~DamagedSpoolTest() noexcept override {}

  // Fills three quarters of the bound with frames of 1000 lines; returns the number of lines.
  uint64_t fill() {
    open().begin("boot-1");
    auto lines = kj::str(kj::strArray(kj::repeat("0123456789abcde"_kj, 1000), "\n"), "\n");
    for (unsigned i = 1; i <= 48; ++i) add("a", lines, 16'000 * i);
    return 48'000;
  }
  // Returns the path of a segment; segment 0 is that of before begin(), without lines.
  kj::String segment(size_t number) {
    kj::Vector<kj::String> paths;
    for (auto& name : namesIn(folder)) {
      if (name.endsWith(".lines")) paths.add(kj::str(folder, "/", name));
    }
    return kj::mv(paths[number]);
  }
  // Damages a byte at this place of a segment, and returns the number of bytes from the frame with
  // this byte on.
  size_t damage(kj::StringPtr path, size_t at) {
    auto content = readFile(path);
    size_t frame = 0;
    readFrames(content.asBytes(), [&](Piece piece) {
      auto size = kFrameHead + piece.bytes.size();
      if (frame + size <= at) frame += size;
    });
    int fd = ::open(path.cStr(), O_WRONLY | O_CLOEXEC);
    KJ_DEFER(close(fd));
    char other = static_cast<char>(content[at] ^ 1);
    EXPECT_EQ(1, pwrite(fd, &other, 1, static_cast<off_t>(at)));
    return content.size() - frame;
  }
  // Delivers everything; returns the reports of damage.
  std::string deliverAll() {
    std::string reports;
    auto from = spool->cursor();
    for (;;) {
      KJ_IF_MAYBE (batch, spool->read(from)) {
        if (batch->damaged > 0) reports.append(batch->lines.begin(), batch->lines.size());
        from = batch->next;
      } else {
        break;
      }
    }
    spool->delivered(from, 0);
    return reports;
  }
};

// Catches: a damaged segment whose lines are skipped without a count, while the spool is open or
// after a restart; a count that grows each time when the damage is read.
TEST_F(DamagedSpoolTest, CountsTheBytesAfterTheDamage) {
  for (bool restarts : {false, true}) {
    spool = nullptr;
    removeTree(folder);
    auto lines = fill();
    auto bytes = damage(segment(1), 40'000);
    if (restarts) open();
    auto report =
        std::to_string(bytes) + " bytes of lines were lost: the disk has damaged the buffer\n";
    EXPECT_NE(std::string::npos, rest().find(report));
    EXPECT_EQ(0u, spool->counts().damagedBytes);
    EXPECT_EQ(report, deliverAll());
    EXPECT_EQ(bytes, spool->counts().damagedBytes);
    EXPECT_EQ(0u, spool->waitingBytes());
    EXPECT_EQ(0u, spool->counts().droppedLines);
    EXPECT_LT(spool->counts().sentLines, lines);
    EXPECT_GT(spool->counts().sentLines * 16 + bytes, lines * 16);
    open();
    EXPECT_EQ(bytes, spool->counts().damagedBytes);
    EXPECT_EQ("", deliverAll());
  }
}

// Catches: damage in the newest segment that hides all lines that are written after it.
TEST_F(DamagedSpoolTest, LinesAfterDamageInTheNewestSegmentAreRead) {
  open().begin("boot-1");
  add("a", "1\n", 2);
  add("a", "2\n", 4);
  damage(segment(1), readFile(segment(1)).size() - 1);
  add("a", "3\n", 6);
  EXPECT_NE(std::string::npos, rest().find("a:1\n"));
  add("a", "4\n", 8);
  EXPECT_NE(std::string::npos, rest().find("a:4\n"));
  deliverAll();
  EXPECT_GT(spool->counts().damagedBytes, 0u);
  EXPECT_EQ(2u, spool->counts().sentLines);
  EXPECT_EQ(0u, spool->waitingBytes());
}

// Catches: damaged bytes that are lost without a count because the buffer is full; lines that count
// both as damaged and as dropped.
TEST_F(DamagedSpoolTest, DamageInADroppedSegmentCountsOnce) {
  fill();
  auto bytes = damage(segment(1), 40'000);
  open();
  auto lines = kj::str(kj::strArray(kj::repeat("0123456789abcde"_kj, 1000), "\n"), "\n");
  for (unsigned i = 49; spool->counts().droppedLines == 0; ++i) {
    ASSERT_LT(i, 200u);
    add("a", lines, 16'000 * i);
  }
  EXPECT_EQ(bytes, spool->counts().damagedBytes);
  EXPECT_EQ(2'000u, spool->counts().droppedLines);
  deliverAll();
  EXPECT_EQ(bytes, spool->counts().damagedBytes);
}

// Catches: a number of dropped lines below zero, which is 2^64, because lines after a damaged place
// were sent.
TEST_F(DamagedSpoolTest, DamageBeforeTheCursorDropsNoSentLines) {
  fill();
  deliver(4);
  damage(segment(0), 20'000);  // in the second of the delivered frames
  open();
  deliver(2);
  auto lines = kj::str(kj::strArray(kj::repeat("0123456789abcde"_kj, 1000), "\n"), "\n");
  for (unsigned i = 49; spool->counts().droppedLines == 0; ++i) {
    ASSERT_LT(i, 200u);
    add("a", lines, 16'000 * i);
  }
  EXPECT_LT(spool->counts().droppedLines, 48'000u);
}

}  // namespace
}  // namespace talos::logd
