#include "logd/destination.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/testing/test-tree.h"
#include "common/testing/virtual-time.h"
#include "logd/test-log-feed.h"

namespace talos::logd {
namespace {

using config::LogStream;

struct InlineDisk final : DiskQueue {
  void add(kj::Function<void()> work) override { work(); }
};

// A receiver whose kernel acknowledges what the test says.
struct ReceiverModel {
  std::string got;            // on the current connection
  uint64_t acknowledged = 0;  // of it
  bool acknowledgesAll = true, refuses = false, over = false;
  unsigned connections = 0;
  kj::Own<kj::PromiseFulfiller<void>> breaks;

  void breakConnection() {
    over = true;
    breaks->reject(error(ErrorKind::kUnavailable, "the receiver closed the connection"));
  }
};

class ModelConnection final : public ReceiverConnection {
 public:
  explicit ModelConnection(ReceiverModel& model) : model(model) {}
  kj::Promise<void> write(kj::ArrayPtr<const char> bytes) override {
    model.got.append(bytes.begin(), bytes.size());
    return kj::READY_NOW;
  }
  uint64_t written() const override { return model.got.size(); }
  kj::Maybe<uint64_t> delivered() override {
    if (model.over) return nullptr;
    return model.acknowledgesAll ? model.got.size() : model.acknowledged;
  }
  kj::Promise<void> ended() override {
    auto paf = kj::newPromiseAndFulfiller<void>();
    model.breaks = kj::mv(paf.fulfiller);
    return kj::mv(paf.promise);
  }

 private:
  ReceiverModel& model;
};

struct DestinationTest : public testing::Test {
  ~DestinationTest() noexcept override {}

  kj::UnixEventPort port;
  kj::EventLoop loop{port};
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  machined::TestTree tree;
  InlineDisk disk;
  FeedModel feed{port};
  ReceiverModel receiver;
  kj::String hostname = kj::str("node-1");
  kj::Function<double()> random = [] { return 0.5; };
  kj::Own<Destination> destination;

  void start(uint64_t buffer = 1u << 20) {
    destination = nullptr;
    DestinationSettings settings;
    settings.endpoint = kj::str("tcp://logs.example.org:514");
    settings.streams = kj::arr(LogStream::SERVICES);
    settings.bufferBytes = buffer;
    destination = kj::heap<Destination>(
        DestinationDependencies{.timer = timer,
                                .clock = kj::nullClock(),
                                .random = random,
                                .disk = disk,
                                .machined = feed.machined(),
                                .hostname = hostname},
        kj::mv(settings), tree.at("spool"), [this]() -> kj::Promise<kj::Own<ReceiverConnection>> {
          if (receiver.refuses) return error(ErrorKind::kUnavailable, "Connection refused");
          receiver.got.clear();
          receiver.over = false;
          ++receiver.connections;
          return kj::Own<ReceiverConnection>(kj::heap<ModelConnection>(receiver));
        });
    scope.poll();
  }
  void pass(kj::Duration time) { advance(timer, scope, time); }
  void log(kj::StringPtr lines) {
    feed.append("a", lines);
    scope.poll();
  }
  // The texts that the current connection got, joined.
  std::string texts() {
    std::string out;
    for (size_t at = 0; (at = receiver.got.find("{\"msg\":\"", at)) != std::string::npos;) {
      at += 8;
      out += receiver.got.substr(at, receiver.got.find('"', at) - at) + ",";
    }
    return out;
  }
};

// Catches: a cursor that moves when lines are written instead of when they are acknowledged, which
// loses them; one that does not move, which sends them twice.
TEST_F(DestinationTest, SendsAgainWhatWasNotAcknowledged) {
  start();
  log("1\n2\n");
  pass(1 * kj::SECONDS);
  EXPECT_EQ("1,2,", texts());
  receiver.acknowledgesAll = false;
  receiver.acknowledged = receiver.got.size();
  log("3\n");
  auto third = receiver.got.size();
  log("4\n");
  pass(1 * kj::SECONDS);
  EXPECT_EQ("1,2,3,4,", texts());
  receiver.acknowledged = third;
  pass(1 * kj::SECONDS);
  EXPECT_EQ(3u, destination->status().sentLines);
  receiver.breakConnection();
  scope.poll();
  EXPECT_FALSE(destination->status().connected);
  EXPECT_EQ("the receiver closed the connection", destination->status().lastError);
  log("5\n");
  receiver.acknowledgesAll = true;
  pass(5 * kj::SECONDS);
  EXPECT_EQ(2u, receiver.connections);
  EXPECT_EQ("4,5,", texts());
  EXPECT_TRUE(destination->status().connected);
  EXPECT_EQ("", destination->status().lastError);
  EXPECT_EQ(5u, destination->status().sentLines);
  EXPECT_EQ(0u, destination->status().waitingBytes);
}

// Catches: a queue that a connection's acknowledgements overtake, which grows without bound.
TEST_F(DestinationTest, HasABoundOnTheWay) {
  start(16u << 20);
  receiver.acknowledgesAll = false;
  auto lines = kj::str(kj::strArray(kj::repeat("0123456789abcdef"_kj, 1000), "\n"), "\n");
  for (unsigned i = 0; i < 100; ++i) log(lines);
  pass(2 * kj::SECONDS);
  EXPECT_GT(receiver.got.size(), kMostInFlight / 2);
  EXPECT_LT(receiver.got.size(), kMostInFlight + 400'000);
  receiver.acknowledgesAll = true;
  pass(60 * kj::SECONDS);
  EXPECT_EQ(100'000u, destination->status().sentLines);
}

// Catches: lines that a restart of this program or of machined loses or doubles.
TEST_F(DestinationTest, GoesOnAfterRestarts) {
  receiver.refuses = true;
  start();
  log("1\n");
  EXPECT_EQ("Connection refused", destination->status().lastError);
  start();
  EXPECT_EQ(2u, feed.known);
  log("2\n");
  feed.end->reject(error(ErrorKind::kUnavailable, "machined has gone"));
  pass(1 * kj::SECONDS);
  EXPECT_EQ(3u, feed.follows);
  EXPECT_EQ(4u, feed.known);
  log("3\n");
  receiver.refuses = false;
  pass(60 * kj::SECONDS);
  EXPECT_EQ("1,2,3,", texts());
  start();
  pass(60 * kj::SECONDS);
  log("4\n");
  pass(1 * kj::SECONDS);
  EXPECT_EQ("4,", texts());
  EXPECT_EQ(4u, destination->status().sentLines);
}

// Catches: lines that are dropped silently, or reported on each connection anew.
TEST_F(DestinationTest, SaysWhatWasDropped) {
  receiver.refuses = true;
  start();
  auto lines = kj::str(kj::strArray(kj::repeat("0123456789abcdef"_kj, 1000), "\n"), "\n");
  for (unsigned i = 0; i < 100; ++i) log(lines);
  auto dropped = destination->status().droppedLines;
  EXPECT_GT(dropped, 0u);
  receiver.refuses = false;
  pass(60 * kj::SECONDS);
  auto notice = kj::str(dropped, " lines were dropped: the buffer for this receiver was full");
  auto at = receiver.got.find(notice.cStr());
  ASSERT_NE(std::string::npos, at);
  EXPECT_LT(at, 100u);  // before the lines that are left
  EXPECT_EQ(std::string::npos, receiver.got.find("were dropped", at + notice.size()));
  EXPECT_EQ(100'000u, dropped + destination->status().sentLines);
  receiver.breakConnection();
  pass(60 * kj::SECONDS);
  EXPECT_EQ("", receiver.got);
}

}  // namespace
}  // namespace talos::logd
