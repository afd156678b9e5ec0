#include "logd/destination.h"

#include <kj/async-io.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <vector>

#include "logd/receiver.h"
#include "logd/test-destination.h"

namespace talos::logd {
namespace {

using config::LogStream;

// Catches: lines that machined has sent before it knows that the destination no longer follows, and
// that reach a removed destination (under AddressSanitizer also those that the disk has not
// accepted yet).
TEST_F(DestinationTest, ASinkIsHeldLongerThanTheDestination) {
  start();
  auto sink = KJ_ASSERT_NONNULL(feed.sink);
  auto send = [&] {
    auto request = sink.linesRequest();
    request.setStream(LogStream::SERVICES);
    request.setId("a");
    request.setBytes("1\n"_kj.asBytes());
    request.setNext(2);
    return request.send();
  };
  disk.keeps = true;
  auto waiting = send();
  scope.poll();
  EXPECT_EQ(disk.kept.size(), 1u);
  destination = nullptr;
  disk.work();
  auto refusal = [&](kj::Promise<void> call) {
    auto failure = kj::runCatchingExceptions([&] { call.wait(scope); });
    return std::string(messageOf(KJ_ASSERT_NONNULL(failure)).cStr());
  };
  EXPECT_EQ(refusal(kj::mv(waiting)), "the logs are not followed any more");
  EXPECT_EQ(refusal(send()), "the logs are not followed any more");
}

// Catches: a cursor that moves when lines are written instead of when they are acknowledged, which
// loses them; a cursor that does not move, which sends them twice.
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
  pass(kGrace + 1 * kj::SECONDS);
  EXPECT_EQ(3u, destination->status().sentLines);
  receiver.breakConnection();
  scope.poll();
  EXPECT_FALSE(destination->status().connected);
  EXPECT_EQ("the receiver closed the connection", destination->status().lastError);
  log("5\n");
  receiver.acknowledgesAll = true;
  pass(kGrace + 5 * kj::SECONDS);
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
  pass(kGrace + 1 * kj::SECONDS);
  EXPECT_EQ("4,", texts());
  EXPECT_EQ(4u, destination->status().sentLines);
}

// Catches: lines that count as sent because a load balancer without a receiver has acknowledged
// them; lines that are sent again without a mark, or uncounted; a mark on lines that were not sent
// before; a time of grace that begins with the connection instead of the acknowledgement.
TEST_F(DestinationTest, AcknowledgedLinesAreSentAgainIfTheConnectionBreaksSoon) {
  start();
  pass(2 * kGrace);
  log("1\n2\n");
  pass(kGrace - 1 * kj::SECONDS);
  EXPECT_EQ("1,2,", texts());
  EXPECT_EQ(std::string::npos, receiver.got.find("talos-repeated"));
  EXPECT_EQ(0u, destination->status().sentLines);
  EXPECT_GT(destination->status().waitingBytes, 0u);
  receiver.breakConnection();
  log("3\n");
  pass(4 * kj::SECONDS);
  EXPECT_EQ("1,2,3,", texts());
  EXPECT_EQ(2u, destination->status().repeatedLines);
  EXPECT_EQ(0u, destination->status().sentLines);
  auto third = receiver.got.find("\"msg\":\"3\"");
  EXPECT_NE(std::string::npos, receiver.got.find("\"talos-repeated\":true"));
  EXPECT_EQ(std::string::npos, receiver.got.find("talos-repeated", third));
  // A crash of this program does not forget what was sent.
  receiver.got.clear();
  start();
  pass(1 * kj::SECONDS);
  EXPECT_EQ("1,2,3,", texts());
  EXPECT_NE(std::string::npos, receiver.got.find("talos-repeated", receiver.got.find("\"3\"")));
  EXPECT_EQ(5u, destination->status().repeatedLines);
  pass(kGrace);
  EXPECT_EQ(3u, destination->status().sentLines);
  EXPECT_EQ(0u, destination->status().waitingBytes);
  receiver.breakConnection();
  pass(60 * kj::SECONDS);
  EXPECT_EQ("", receiver.got);
}

// Catches: lines that a fast log pushes out of the buffer, and that are reported as dropped
// although the receiver has acknowledged them.
TEST_F(DestinationTest, AcknowledgedLinesMakeRoomAsSentOnes) {
  start();
  auto lines = kj::str(kj::strArray(kj::repeat("0123456789abcdef"_kj, 1000), "\n"), "\n");
  for (unsigned i = 0; i < 100; ++i) {
    log(lines);
    pass(kGrace / 200);
  }
  EXPECT_EQ(0u, destination->status().droppedLines);
  EXPECT_GT(destination->status().sentLines, 0u);
  pass(2 * kGrace);
  EXPECT_EQ(100'000u, destination->status().sentLines);
  EXPECT_EQ(0u, destination->status().repeatedLines);
  // The connection that has acknowledged them breaks: they are in doubt again.
  for (unsigned i = 0; i < 20; ++i) log(lines);
  pass(1 * kj::SECONDS);
  receiver.refuses = true;
  receiver.breakConnection();
  scope.poll();
  for (unsigned i = 0; i < 100; ++i) log(lines);
  EXPECT_GT(destination->status().droppedLines, 20'000u);
  EXPECT_EQ(100'000u, destination->status().sentLines);
}

// A destination whose time is the test's, with sockets of the loopback address.
struct ResetTest : public testing::Test {
  ~ResetTest() noexcept override {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& real = io.provider->getTimer();
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  machined::TestTree tree;
  InlineDisk disk;
  FeedModel feed{io.unixEventPort};
  kj::String hostname = kj::str("node-1");
  kj::Function<double()> random = [] { return 0.5; };
  kj::Own<kj::ConnectionReceiver> listener =
      io.provider->getNetwork().parseAddress("127.0.0.1").wait(io.waitScope)->listen();
  kj::Own<Destination> destination;

  void start() {
    DestinationSettings settings;
    settings.endpoint = kj::str("tcp://127.0.0.1:", listener->getPort());
    settings.streams = kj::arr(LogStream::SERVICES);
    settings.bufferBytes = 1u << 20;
    destination = kj::heap<Destination>(
        DestinationDependencies{.timer = timer,
                                .clock = kj::nullClock(),
                                .random = random,
                                .disk = disk,
                                .machined = feed.machined(),
                                .hostname = hostname},
        kj::mv(settings), tree.at("spool"),
        Dial([this, address = ReceiverAddress::parse(settings.endpoint)]() {
          return connectReceiver({*io.lowLevelProvider, io.unixEventPort, real, disk}, address, "");
        }));
  }
  // Lets real time pass in small steps, and the destination's time if `moves`, until `condition`.
  bool waitUntil(bool moves, kj::FunctionParam<bool()> condition) {
    auto end = real.now() + 30 * kj::SECONDS;
    while (!condition()) {
      if (real.now() > end) return false;
      if (moves) timer.advanceTo(timer.now() + 20 * kj::MILLISECONDS);
      real.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return true;
  }
  kj::Own<kj::AsyncIoStream> accept() {
    kj::Own<kj::AsyncIoStream> stream;
    auto accepting = listener->accept()
                         .then([&](kj::Own<kj::AsyncIoStream> s) { stream = kj::mv(s); })
                         .eagerlyEvaluate(nullptr);
    EXPECT_TRUE(waitUntil(true, [&] { return stream.get() != nullptr; }));
    return stream;
  }
  // Reads whole lines.
  std::vector<std::string> read(kj::AsyncIoStream& from, size_t count) {
    std::string text;
    char buffer[4096];
    while (static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) < count) {
      auto size = real.timeoutAfter(30 * kj::SECONDS, from.tryRead(buffer, 1, sizeof buffer))
                      .wait(io.waitScope);
      if (size == 0) break;
      text.append(buffer, size);
    }
    std::vector<std::string> all;
    for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
      all.push_back(text.substr(at, end - at));
    }
    return all;
  }
};

// Catches: lines that are lost, or count as sent, because the kernel of a load balancer has
// acknowledged them before it resets the connection; lines out of order after it.
TEST_F(ResetTest, LinesOfAConnectionThatIsResetAreSentToTheNextOne) {
  constexpr unsigned kLines = 316;
  for (unsigned i = 0; i < kLines; ++i) feed.append("a", kj::str("line ", i, "\n"));
  start();
  {
    auto balancer = accept();
    EXPECT_GE(read(*balancer, 79).size(), 79u);
    // Longer than the polls of acknowledgements, shorter than the time of grace.
    auto soon = timer.now() + 1 * kj::SECONDS;
    EXPECT_TRUE(waitUntil(true, [&] { return timer.now() >= soon; }));
    EXPECT_TRUE(destination->status().connected);
    linger now{.l_onoff = 1, .l_linger = 0};
    balancer->setsockopt(SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  EXPECT_TRUE(waitUntil(false, [&] { return !destination->status().connected; }));
  EXPECT_EQ(0u, destination->status().sentLines);

  auto receiver = accept();
  auto got = read(*receiver, kLines);
  ASSERT_EQ(kLines, got.size());
  for (unsigned i = 0; i < kLines; ++i) {
    EXPECT_TRUE(got[i].starts_with(kj::str("{\"msg\":\"line ", i, "\"").cStr())) << got[i];
  }
  EXPECT_NE(std::string::npos, got[0].find("\"talos-repeated\":true"));
  EXPECT_GE(destination->status().repeatedLines, 79u);
  EXPECT_EQ(0u, destination->status().sentLines);
  auto before = timer.now();
  EXPECT_TRUE(waitUntil(true, [&] { return destination->status().sentLines == kLines; }));
  EXPECT_GE(timer.now() - before, kGrace - 1 * kj::SECONDS);
  EXPECT_EQ(0u, destination->status().waitingBytes);
}

// Catches: lines that are dropped silently, or reported again on each connection.
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
  EXPECT_LT(at, 100u);  // before the remaining lines
  EXPECT_EQ(std::string::npos, receiver.got.find("were dropped", at + notice.size()));
  EXPECT_EQ(100'000u, dropped + destination->status().sentLines);
  receiver.breakConnection();
  pass(60 * kj::SECONDS);
  EXPECT_EQ("", receiver.got);
}

}  // namespace
}  // namespace talos::logd
