#include "logd/spool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

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
  EXPECT_EQ(3u, spool->sentLines());
  open();
  EXPECT_EQ("a:3\n", rest());
  EXPECT_EQ(3u, spool->sentLines());
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
  EXPECT_EQ(200'000u, kept + spool->droppedLines());
  EXPECT_EQ(spool->droppedLines(), spool->unreported());
  auto dropped = spool->droppedLines();
  deliver(1);
  spool->delivered(spool->cursor(), dropped);
  EXPECT_EQ(0u, spool->unreported());
  open();
  EXPECT_EQ(dropped, spool->droppedLines());
  EXPECT_EQ(0u, spool->unreported());
  // Delivered lines of the cursor's segment do not count as dropped.
  while (spool->droppedLines() == dropped) add("a", lines, 16'000 * ++added);
  EXPECT_EQ(0u, (spool->droppedLines() - dropped) % 1000);
  auto delivered = spool->sentLines();
  uint64_t left = 0;
  for (auto from = spool->cursor();;) {
    KJ_IF_MAYBE (batch, spool->read(from)) {
      left += batch->count;
      from = batch->next;
    } else {
      break;
    }
  }
  EXPECT_EQ(added * 1000, delivered + left + spool->droppedLines());
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
  EXPECT_EQ(2u, spool->repeatedLines());
  auto second = KJ_ASSERT_NONNULL(spool->take(first.next));
  EXPECT_FALSE(second.repeated);
  open();
  EXPECT_EQ(2u, spool->repeatedLines());

  spool->acknowledged(second.next);
  auto lines = kj::str(kj::strArray(kj::repeat("0123456789abcde"_kj, 1000), "\n"), "\n");
  uint64_t added = 0;
  while (spool->droppedLines() == 0) {
    ASSERT_LT(added, 100'000u);
    add("a", lines, 6 + 16'000 * ++added);
  }
  EXPECT_EQ(3u, spool->sentLines());
  EXPECT_EQ(0u, spool->droppedLines() % 1000);
}

TEST_F(SpoolTest, SaysWhatALogMissed) {
  open().begin("boot-1");
  add("a", "1\n", 2);
  spool->appendMissed(LogStream::SERVICES, "a", kj::UNIX_EPOCH, 77, 79);
  add("a", "2\n", 81);
  EXPECT_EQ("a:1\na:77 bytes of this log were overwritten before they could be sent\n!a:2\n",
            rest());
  EXPECT_EQ(77u, spool->missedBytes());
}

}  // namespace
}  // namespace talos::logd
