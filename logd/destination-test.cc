#include "logd/destination.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>

#include "common/base/error.h"
#include "common/testing/test-tree.h"
#include "common/testing/virtual-time.h"
#include "logd/receiver.h"
#include "tests/models/test-log-feed.h"

namespace talos::logd {
namespace {

using config::LogStream;

struct InlineDisk final : DiskQueue {
  unsigned failing = 0;  // this many pieces of work fail
  bool keeps = false;    // keep added work until work()
  std::deque<kj::Function<void()>> kept;
  void add(kj::Function<void()> work) override {
    if (failing > 0) {
      --failing;
      fail(ErrorKind::kUnavailable, "the disk is gone");
    }
    if (keeps) return kept.push_back(kj::mv(work));
    work();
  }
  void work() {
    for (keeps = false; !kept.empty(); kept.pop_front()) kept.front()();
  }
};

// A receiver whose kernel acknowledges as many bytes as the test says.
struct ReceiverModel {
  std::string got;            // received on the current connection
  uint64_t acknowledged = 0;  // bytes of `got`
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
    start("tcp://logs.example.org:514", buffer,
          Dial([this]() -> kj::Promise<kj::Own<ReceiverConnection>> {
            if (receiver.refuses) return error(ErrorKind::kUnavailable, "Connection refused");
            receiver.got.clear();
            receiver.over = false;
            ++receiver.connections;
            return kj::Own<ReceiverConnection>(kj::heap<ModelConnection>(receiver));
          }));
  }
  void start(kj::StringPtr endpoint, uint64_t buffer, Connection connection) {
    destination = nullptr;
    DestinationSettings settings;
    settings.endpoint = kj::str(endpoint);
    settings.streams = kj::arr(LogStream::SERVICES);
    settings.bufferBytes = buffer;
    destination = kj::heap<Destination>(DestinationDependencies{.timer = timer,
                                                                .clock = kj::nullClock(),
                                                                .random = random,
                                                                .disk = disk,
                                                                .machined = feed.machined(),
                                                                .hostname = hostname},
                                        kj::mv(settings), tree.at("spool"), kj::mv(connection));
    scope.poll();
  }
  void pass(kj::Duration time) { advance(timer, scope, time); }
  void log(kj::StringPtr lines) {
    feed.append("a", lines);
    scope.poll();
  }
  // Returns the texts that the current connection received, joined.
  std::string texts() {
    std::string out;
    for (size_t at = 0; (at = receiver.got.find("{\"msg\":\"", at)) != std::string::npos;) {
      at += 8;
      out += receiver.got.substr(at, receiver.got.find('"', at) - at) + ",";
    }
    return out;
  }
};

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

// A receiver of OTLP that gives the test's answers, and then accepts everything.
struct OtlpModel final : OtlpReceiver {
  struct Request {
    std::string texts = {};  // joined
    size_t bytes;
  };
  std::vector<Request> requests;
  std::deque<OtlpAnswer> answers;
  bool refuses = false;
  kj::Maybe<InlineDisk&> losesDisk;  // The disk fails while the next request is answered.

  kj::Promise<OtlpAnswer> post(kj::ArrayPtr<const char> body) override {
    KJ_IF_MAYBE (disk, losesDisk) disk->failing = 1;
    losesDisk = nullptr;
    if (refuses) return error(ErrorKind::kUnavailable, "Connection refused");
    Request request{.bytes = body.size()};
    std::string text(body.begin(), body.size());
    constexpr kj::StringPtr kBody = "\"body\":{\"stringValue\":\""_kj;
    for (size_t at = 0; (at = text.find(kBody.cStr(), at)) != std::string::npos;) {
      at += kBody.size();
      request.texts += text.substr(at, text.find("\"},\"attributes", at) - at) + ",";
    }
    requests.push_back(request);
    if (answers.empty()) return OtlpAnswer{.outcome = OtlpAnswer::Outcome::kAccepted};
    auto answer = kj::mv(answers.front());
    answers.pop_front();
    return kj::mv(answer);
  }
};

struct OtlpDestinationTest : public DestinationTest {
  ~OtlpDestinationTest() noexcept override {}

  OtlpModel otlp;
  void startOtlp(uint64_t buffer = 1u << 20) {
    start("http://otel.example.org:4318", buffer,
          kj::Own<OtlpReceiver>(&otlp, kj::NullDisposer::instance));
  }
  void answer(OtlpAnswer answer) { otlp.answers.push_back(kj::mv(answer)); }
  // Returns the texts of all requests, with "|" between two.
  std::string sent() {
    std::string out;
    for (auto& request : otlp.requests) out += (out.empty() ? "" : "|") + request.texts;
    return out;
  }
  static OtlpAnswer answerOf(OtlpAnswer::Outcome outcome, kj::StringPtr message) {
    return {.outcome = outcome, .message = kj::str(message)};
  }
};

using Outcome = OtlpAnswer::Outcome;

// Catches: lines that count as delivered before the answer; a pause that is not kept; a pause that
// loses its lines; an error that stays after a success.
TEST_F(OtlpDestinationTest, WaitsAsTheReceiverSaysAndSendsAgain) {
  auto later = answerOf(Outcome::kLater, "503 Service Unavailable");
  later.pause = 20 * kj::SECONDS;
  answer(kj::mv(later));
  startOtlp();
  log("1\n2\n");
  EXPECT_EQ("1,2,", sent());
  EXPECT_EQ(0u, destination->status().sentLines);
  EXPECT_TRUE(destination->status().connected);
  EXPECT_EQ("the receiver answered 503 Service Unavailable", destination->status().lastError);
  log("3\n");
  pass(19 * kj::SECONDS);
  EXPECT_EQ("1,2,", sent());
  pass(2 * kj::SECONDS);
  EXPECT_EQ("1,2,|1,2,3,", sent());
  EXPECT_EQ(3u, destination->status().sentLines);
  EXPECT_EQ(0u, destination->status().waitingBytes);
  EXPECT_EQ("", destination->status().lastError);
  // The pauses grow if the receiver does not specify one.
  for (unsigned i = 0; i < 4; ++i) answer(answerOf(Outcome::kLater, "429"));
  log("4\n");
  otlp.requests.clear();
  pass(6 * kj::SECONDS);
  EXPECT_EQ(2u, otlp.requests.size());  // after 1 s and 3 s, and the next request 4 s later
  pass(10 * kj::SECONDS);
  EXPECT_EQ("4,|4,|4,|4,", sent());
}

// Catches: the next request before the disk has the answer to the last one: if the disk fails, the
// same lines would be sent again and again without a pause.
TEST_F(OtlpDestinationTest, WaitsUntilTheAnswerIsOnTheDisk) {
  startOtlp();
  otlp.losesDisk = disk;
  log("1\n");
  EXPECT_EQ("1,", sent());
  EXPECT_EQ("the disk is gone", destination->status().lastError);
  EXPECT_EQ(0u, destination->status().sentLines);
  pass(2 * kj::SECONDS);
  EXPECT_EQ("1,|1,", sent());
  EXPECT_EQ(1u, destination->status().sentLines);
  EXPECT_EQ("", destination->status().lastError);
}

// Catches: a refused request that is sent for ever, or is missing in all counts; a partial success
// that is sent again, or counts as a full success.
TEST_F(OtlpDestinationTest, CountsWhatTheReceiverWillNeverTake) {
  answer(answerOf(Outcome::kRefused, "400 Bad Request: no"));
  auto partial = answerOf(Outcome::kAccepted, "200 OK: too old");
  partial.rejected = 1;
  startOtlp();
  log("1\n2\n");
  EXPECT_EQ("1,2,", sent());
  EXPECT_EQ(2u, destination->status().refusedLines);
  EXPECT_EQ(0u, destination->status().sentLines);
  EXPECT_EQ("the receiver refused lines: 400 Bad Request: no", destination->status().lastError);
  answer(kj::mv(partial));
  log("3\n4\n5\n");
  EXPECT_EQ("1,2,|3,4,5,", sent());
  EXPECT_EQ(3u, destination->status().refusedLines);
  EXPECT_EQ(2u, destination->status().sentLines);
  EXPECT_EQ("the receiver refused lines: 200 OK: too old", destination->status().lastError);
  auto liar = answerOf(Outcome::kAccepted, "200 OK");
  liar.rejected = UINT64_MAX;
  answer(kj::mv(liar));
  log("6\n");
  EXPECT_EQ(4u, destination->status().refusedLines);
  EXPECT_EQ(2u, destination->status().sentLines);
  log("7\n");
  EXPECT_EQ("", destination->status().lastError);
  pass(60 * kj::SECONDS);
  EXPECT_EQ("1,2,|3,4,5,|6,|7,", sent());
  startOtlp();  // The counts are on the disk.
  log("8\n");
  EXPECT_EQ(4u, destination->status().refusedLines);
  EXPECT_EQ(4u, destination->status().sentLines);
}

// Catches: an unbounded request; a request too large for the receiver, whose lines are lost
// although smaller requests would be accepted; a request that is halved for ever.
TEST_F(OtlpDestinationTest, SendsSmallerRequestsWhereTheyAreTooLarge) {
  otlp.refuses = true;
  startOtlp(16u << 20);
  auto lines = kj::str(kj::strArray(kj::repeat("0123456789abcdef"_kj, 1000), "\n"), "\n");
  for (unsigned i = 0; i < 60; ++i) log(lines);
  EXPECT_FALSE(destination->status().connected);
  EXPECT_EQ("Connection refused", destination->status().lastError);
  for (unsigned i = 0; i < 3; ++i) answer(answerOf(Outcome::kTooLarge, "413"));
  otlp.refuses = false;
  pass(60 * kj::SECONDS);
  ASSERT_GT(otlp.requests.size(), 4u);
  for (unsigned i = 1; i < 4; ++i) {
    EXPECT_LT(otlp.requests[i].texts.size(), otlp.requests[i - 1].texts.size() * 2 / 3);
  }
  for (auto& request : otlp.requests) EXPECT_LE(request.texts.size(), kMostOfRequest);
  EXPECT_GT(otlp.requests[0].texts.size(), kMostOfRequest / 2);
  EXPECT_EQ(60'000u, destination->status().sentLines);
  EXPECT_EQ(0u, destination->status().refusedLines);
  answer(answerOf(Outcome::kTooLarge, "413"));
  log("a\n");  // a single line cannot be split
  EXPECT_EQ(1u, destination->status().refusedLines);
}

// Catches: lines that are lost although the receiver was only away; a loss that is not reported in
// its place.
TEST_F(OtlpDestinationTest, SaysWhatWasDroppedToReceiversOfOtlp) {
  otlp.refuses = true;
  startOtlp();
  auto lines = kj::str(kj::strArray(kj::repeat("0123456789abcdef"_kj, 1000), "\n"), "\n");
  for (unsigned i = 0; i < 100; ++i) log(lines);
  auto dropped = destination->status().droppedLines;
  EXPECT_GT(dropped, 0u);
  // The report in a refused request has not arrived.
  answer(answerOf(Outcome::kRefused, "400"));
  otlp.refuses = false;
  pass(60 * kj::SECONDS);
  auto notice = std::to_string(dropped) + " lines were dropped: the buffer for this receiver";
  ASSERT_GT(otlp.requests.size(), 2u);
  for (size_t i = 0; i < otlp.requests.size(); ++i) {
    auto at = otlp.requests[i].texts.find(notice);
    EXPECT_EQ(i < 2, at != std::string::npos) << i;
    if (i < 2) EXPECT_LT(at, 100u);
  }
  auto status = destination->status();
  EXPECT_EQ(100'000u, dropped + status.sentLines + status.refusedLines);
  EXPECT_GT(status.refusedLines, 0u);
}

}  // namespace
}  // namespace talos::logd
