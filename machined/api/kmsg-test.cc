#include "machined/api/kmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>

#include "common/base/error.h"
#include "common/testing/provided.h"

namespace talos::machined {
namespace {

// 2021-03-01T12:00:00Z
const kj::Date kBoot = kj::UNIX_EPOCH + 1'614'600'000 * kj::SECONDS;

kj::String lineOf(kj::StringPtr record) {
  KJ_IF_MAYBE (parsed, parseKmsg(record)) {
    return formatKmsg(*parsed, kBoot);
  }
  return kj::str("none");
}

struct Row {
  const char* record;
  const char* line;
};

// Catches: facilities and levels from the wrong bits, times off by units, dictionaries shown as
// text.
TEST(Kmsg, RecordsAsLines) {
  const Row rows[] = {
      {"6,339,5140900,-;NET: Registered protocol family 10\n SUBSYSTEM=net\n DEVICE=c1:1\n",
       "kern:    info: [2021-03-01T12:00:05.140900000Z]: NET: Registered protocol family 10\n"},
      {"4,2,0,-;a warning\n", "kern: warning: [2021-03-01T12:00:00.000000000Z]: a warning\n"},
      {"30,9,1,-;service\n", "daemon:    info: [2021-03-01T12:00:00.000001000Z]: service\n"},
      {"191,1,60000000,c,caller=T1;from local7\n",
       "local7:   debug: [2021-03-01T12:01:00.000000000Z]: from local7\n"},
      {"192,1,0,-;beyond\n", "24:   emerg: [2021-03-01T12:00:00.000000000Z]: beyond\n"},
      {"0,1,0,-;semi;colon, and comma\n",
       "kern:   emerg: [2021-03-01T12:00:00.000000000Z]: semi;colon, and comma\n"},
      {"0,1,0;no flags, no end",
       "kern:   emerg: [2021-03-01T12:00:00.000000000Z]: no flags, no end\n"},
      {"5,1,0,-;Kernel command line: quiet talos.config=https://u:p@h/x?token=t panic=0\n",
       "kern:  notice: [2021-03-01T12:00:00.000000000Z]: Kernel command line: quiet "
       "talos.config=https://***@h/x?*** panic=0\n"},
      {"0,1,0,-;\n", "kern:   emerg: [2021-03-01T12:00:00.000000000Z]: \n"},
  };
  for (auto& row : rows) EXPECT_EQ(lineOf(row.record), row.line);
}

// Catches: invalid bytes that are treated as a record.
TEST(Kmsg, InvalidBytesAreNoRecord) {
  for (auto record : {""_kj, ";"_kj, "6,339,514"_kj, "6,339;text"_kj, "x,1,2,-;t"_kj, "6,,2,-;t"_kj,
                      "6,-1,2,-;t"_kj, "99999999999999999999,1,2,-;t"_kj, ",,,;t"_kj}) {
    EXPECT_EQ(lineOf(record), "none") << record.cStr();
  }
}

// Catches: a time of the far future that overflows.
TEST(Kmsg, AbsurdTimesStayTimes) {
  EXPECT_TRUE(lineOf("6,1,18446744073709551615,-;x").startsWith("kern:    info: [21"));
}

// A model of the kernel's ring: the `capacity` newest records, and a reader that may be too slow.
struct Model {
  std::deque<std::pair<uint64_t, kj::String>> ring;
  size_t capacity = 1000;
  uint64_t nextSequence = 0;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> waiting;
  unsigned waits = 0;

  static uint64_t timeOf(uint64_t sequence) { return sequence * 1000; }  // microseconds
  void log(kj::StringPtr text) {
    ring.push_back(
        {nextSequence, kj::str("6,", nextSequence, ",", timeOf(nextSequence), ",-;", text, "\n")});
    ++nextSequence;
    if (ring.size() > capacity) ring.pop_front();
    KJ_IF_MAYBE (w, waiting) {
      (*w)->fulfill();
      waiting = nullptr;
    }
  }
};

class ModelSource final : public KmsgSource {
 public:
  explicit ModelSource(Model& model) : model(model) {}
  Read read(kj::ArrayPtr<char> buffer) override {
    if (model.ring.empty() || at >= model.nextSequence) return {.error = EAGAIN};
    auto oldest = model.ring.front().first;
    if (at < oldest && started) {
      at = oldest;
      return {.error = EPIPE};
    }
    started = true;
    at = kj::max(at, oldest);
    auto& record = model.ring[at - oldest].second;
    ++at;
    memcpy(buffer.begin(), record.begin(), record.size());
    return {.size = record.size()};
  }
  kj::Promise<void> whenReadable() override {
    ++model.waits;
    auto paf = kj::newPromiseAndFulfiller<void>();
    model.waiting = kj::mv(paf.fulfiller);
    return kj::mv(paf.promise);
  }
  void rewind() override { at = 0, started = false; }
  void skipToEnd() override { at = model.nextSequence, started = true; }

 private:
  Model& model;
  uint64_t at = 0;
  bool started = false;
};

// Everything that a sink received, as one text: lines, "[missed N]", and the last `next`.
struct Received {
  kj::Vector<kj::String> parts;
  uint64_t next = 0;
  unsigned calls = 0;
  kj::Maybe<kj::ForkedPromise<void>> gate;  // the sink takes nothing until this opens

  kj::String text() const { return kj::strArray(parts, " "); }
};

class Sink final : public rpc::LogSink::Server {
 public:
  explicit Sink(Received& received) : received(received) {}
  kj::Promise<void> write(WriteContext context) override {
    auto bytes = context.getParams().getBytes().asChars();
    ++received.calls;
    received.next = context.getParams().getNext();
    while (bytes.size() > 0) {
      size_t end = 0;
      while (bytes[end] != '\n') ++end;
      auto line = kj::heapString(bytes.slice(0, end));
      received.parts.add(kj::str(line.slice(KJ_ASSERT_NONNULL(line.findLast(' ')) + 1)));
      bytes = bytes.slice(end + 1, bytes.size());
    }
    return wait();
  }
  kj::Promise<void> missed(MissedContext context) override {
    received.parts.add(kj::str("[missed ", context.getParams().getBytes(), "]"));
    return wait();
  }

 private:
  Received& received;
  kj::Promise<void> wait() {
    KJ_IF_MAYBE (gate, received.gate) {
      return gate->addBranch();
    }
    return kj::READY_NOW;
  }
};

class KernelLog : public testing::Test {
 public:
  ~KernelLog() noexcept override {}

 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  Model model;
  Received received;

  kj::Promise<void> read(KmsgOptions options) {
    return readKmsg(kj::heap<ModelSource>(model), options, kj::heap<Sink>(received));
  }
  void log(unsigned count) {
    for (unsigned i = 0; i < count; ++i) model.log(kj::str('r', model.nextSequence));
  }
};

// Catches: a read of the whole log that does not end, or ends before the last record.
TEST_F(KernelLog, WithoutFollowItEnds) {
  log(3);
  read({}).wait(scope);
  EXPECT_EQ(received.text(), "r0 r1 r2");
  EXPECT_EQ(received.next, 3u);
  EXPECT_EQ(model.waits, 0u);
}

// Catches: new records that are shown only with the next one, a loop that spins without a new
// record.
TEST_F(KernelLog, FollowShowsWhatComes) {
  log(1);
  auto reading = read({.follow = true});
  EXPECT_FALSE(reading.poll(scope));
  EXPECT_EQ(received.text(), "r0");
  EXPECT_EQ(model.waits, 1u);
  log(2);
  EXPECT_FALSE(reading.poll(scope));
  EXPECT_EQ(received.text(), "r0 r1 r2");
  EXPECT_EQ(model.waits, 2u);
}

// Catches: onlyNew that repeats the past, or reports the excluded records as missed.
TEST_F(KernelLog, OnlyNewBeginsAtTheEnd) {
  log(5);
  auto reading = read({.follow = true, .onlyNew = true});
  EXPECT_FALSE(reading.poll(scope));
  EXPECT_EQ(received.text(), "");
  log(1);
  EXPECT_FALSE(reading.poll(scope));
  EXPECT_EQ(received.text(), "r5");
}

// Catches: records that are left out and then counted as lost, an older record, a text that is
// searched in the record instead of the line.
TEST_F(KernelLog, OnlyRecordsOfATimeAndWithAText) {
  log(12);
  read({.contains = "r1"}).wait(scope);
  EXPECT_EQ(received.text(), "r1 r10 r11");
  EXPECT_EQ(received.next, 12u);
  Received newer;
  readKmsg(kj::heap<ModelSource>(model), {.sinceMicroseconds = model.timeOf(10)},
           kj::heap<Sink>(newer))
      .wait(scope);
  EXPECT_EQ(newer.text(), "r10 r11");
  Received levels;
  readKmsg(kj::heap<ModelSource>(model), {.contains = "info: ["}, kj::heap<Sink>(levels))
      .wait(scope);
  EXPECT_EQ(levels.parts.size(), 12u);
}

// Catches: a resumed reader that repeats or skips a record.
TEST_F(KernelLog, ResumesBehindWhatWasRead) {
  log(5);
  read({.from = 3}).wait(scope);
  EXPECT_EQ(received.text(), "r3 r4");
  EXPECT_EQ(received.next, 5u);
  Received again;
  readKmsg(kj::heap<ModelSource>(model), {.from = 5}, kj::heap<Sink>(again)).wait(scope);
  EXPECT_EQ(again.text(), "");
}

// Catches: a gap between two connections that is not reported.
TEST_F(KernelLog, ResumesAfterAGapAndSaysSo) {
  model.capacity = 2;
  log(10);
  read({.from = 3}).wait(scope);
  EXPECT_EQ(received.text(), "[missed 5] r8 r9");
}

// Catches: the oldest record's number that counts as a loss on a first read.
TEST_F(KernelLog, FirstReadMissesNothing) {
  model.capacity = 2;
  log(10);
  read({}).wait(scope);
  EXPECT_EQ(received.text(), "r8 r9");
}

// Catches: a reader with the numbers of an earlier boot that waits in silence until these numbers
// come again.
TEST_F(KernelLog, NumbersOfAnEarlierBootMeanAll) {
  log(3);
  read({.from = 5000}).wait(scope);
  EXPECT_EQ(received.text(), "r0 r1 r2");
}

// Catches: records that are overwritten while a slow reader is busy and that end its stream (EPIPE)
// or are lost in silence; memory that grows with the unread records.
TEST_F(KernelLog, SlowReaderLearnsWhatItMissed) {
  model.capacity = 4;
  auto paf = kj::newPromiseAndFulfiller<void>();
  received.gate = paf.promise.fork();
  log(2);
  auto reading = read({.follow = true});
  EXPECT_FALSE(reading.poll(scope));
  EXPECT_EQ(received.text(), "r0 r1");  // received, but not yet acknowledged
  log(10);
  EXPECT_FALSE(reading.poll(scope));
  EXPECT_EQ(received.calls, 1u);
  paf.fulfiller->fulfill();
  EXPECT_FALSE(reading.poll(scope));
  EXPECT_EQ(received.text(), "r0 r1 [missed 6] r8 r9 r10 r11");
}

// Catches: one message for each record (a boot's worth of round trips), or a message that is too
// large.
TEST_F(KernelLog, LinesTravelInBatches) {
  log(1000);
  read({}).wait(scope);
  EXPECT_EQ(received.parts.size(), 1000u);
  EXPECT_LE(received.calls, 4u);
  EXPECT_GE(received.calls, 2u);
}

// Catches: a device that behaves differently from the model: one record a read, poll that wakes.
TEST(KmsgDevice, ReadsTheKernelsLog) {
  int device = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  TALOS_NEEDS(device >= 0, "root", "without root the kernel's log cannot be read");
  close(device);
  auto io = kj::setupAsyncIo();
  Received received;
  readKmsg(openKmsg(io.unixEventPort), {.boot = kernelEpoch()}, kj::heap<Sink>(received))
      .wait(io.waitScope);
  EXPECT_GT(received.parts.size(), 0u);
  EXPECT_GE(received.next, received.parts.size());
}

}  // namespace
}  // namespace talos::machined
