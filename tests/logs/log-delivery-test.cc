// The program logd, with machined's store and logs, and two receivers that it reaches by proxies,
// which fail as load balancers do, in a network of this process alone. 100 lines come in each
// second. At the end each line has arrived, or logd has counted it as lost, and each line that came
// twice is marked. LOG_SECONDS is how long lines come, SEED the schedule. Prints a table in
// Markdown.
#include <ctype.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/file.h"
#include "common/testing/test-tree.h"
#include "logd/destination.h"
#include "machined/logs/log-feed.h"
#include "machined/process1/test-process1.h"
#include "rpc/feature-resources.capnp.h"
#include "tests/models/test-machined.h"

namespace talos::logd {
namespace {

constexpr unsigned kLinesPerSecond = 100;
constexpr size_t kLineBytes = 1000;
// Full after ten seconds without a receiver; never full.
constexpr uint64_t kSmallBuffer = 1u << 20, kAmpleBuffer = 64u << 20;
// A proxy that has accepted lines and forwards none resets within this time: logd's promise is for
// kGrace.
constexpr auto kMostSwallow = 2 * kj::SECONDS;
static_assert(kMostSwallow + 2 * kj::SECONDS < kGrace);

uint64_t fromVariable(const char* name, uint64_t fallback) {
  auto value = getenv(name);
  return value == nullptr ? fallback : strtoull(value, nullptr, 10);
}

// Lines at a receiver; they are numbered from 0.
struct Received {
  std::vector<unsigned> copies;  // by number
  std::vector<bool> reported;    // by number: logd told the receiver that it dropped this line
  uint64_t marked = 0, unmarked = 0, disordered = 0, unknown = 0;

  uint64_t distinct() const {
    return std::count_if(copies.begin(), copies.end(), [](auto count) { return count > 0; });
  }
  bool has(uint64_t number) const { return number < copies.size() && copies[number] > 0; }
  bool isReported(uint64_t number) const { return number < reported.size() && reported[number]; }
};

// A program that takes JSON lines.
class Receiver final : private kj::TaskSet::ErrorHandler {
 public:
  Receiver(kj::AsyncIoContext& io, unsigned port)
      : listener(
            io.provider->getNetwork().parseAddress("127.0.0.1", port).wait(io.waitScope)->listen()),
        connections(*this) {
    accepting = accept().eagerlyEvaluate([](kj::Exception&& e) { ADD_FAILURE() << text(e); });
  }
  Received received;

 private:
  struct Sequence {      // of one connection
    uint64_t next = 0;   // least number that keeps the order
    uint64_t drops = 0;  // reported as dropped before the next line
  };
  kj::Own<kj::ConnectionReceiver> listener;
  kj::TaskSet connections;
  kj::Promise<void> accepting = nullptr;

  static std::string text(const kj::Exception& e) { return kj::str(e).cStr(); }
  void taskFailed(kj::Exception&& e) override {
    if (e.getType() != kj::Exception::Type::DISCONNECTED) ADD_FAILURE() << text(e);
  }
  kj::Promise<void> accept() {
    for (;;) {
      auto stream = co_await listener->accept();
      connections.add(read(kj::mv(stream)));
    }
  }
  // The beginning of a line whose connection broke does not count.
  kj::Promise<void> read(kj::Own<kj::AsyncIoStream> stream) {
    std::string lines;
    Sequence sequence;
    char buffer[8192];
    for (;;) {
      auto size = co_await stream->tryRead(buffer, 1, sizeof buffer);
      if (size == 0) co_return;
      lines.append(buffer, size);
      size_t at = 0;
      for (size_t end; (end = lines.find('\n', at)) != std::string::npos; at = end + 1) {
        take(lines.substr(at, end - at), sequence);
      }
      lines.erase(0, at);
    }
  }
  void take(const std::string& line, Sequence& sequence) {
    constexpr const char* kBegin = "{\"msg\":\"line ";
    constexpr const char* kDropped = " lines were dropped: the buffer";
    if (auto end = line.find(kDropped); end != std::string::npos) {
      auto begin = end;
      while (begin > 0 && isdigit(static_cast<unsigned char>(line[begin - 1]))) --begin;
      sequence.drops += strtoull(line.c_str() + begin, nullptr, 10);
      return;
    }
    if (line.find(" were overwritten before they could be sent") != std::string::npos) return;
    if (!line.starts_with(kBegin)) {
      ++received.unknown;
      return;
    }
    auto number = strtoull(line.c_str() + strlen(kBegin), nullptr, 10);
    report(number - std::min<uint64_t>(number, sequence.drops), number);
    if (number < sequence.next) ++received.disordered;
    sequence = {.next = number + 1};
    if (received.copies.size() <= number) received.copies.resize(number + 1);
    if (received.copies[number]++ == 0) return;
    bool marked = line.find("\"talos-repeated\":true") != std::string::npos;
    ++(marked ? received.marked : received.unmarked);
  }
  void report(uint64_t from, uint64_t until) {
    if (received.reported.size() < until) received.reported.resize(until);
    for (auto number = from; number < until; ++number) received.reported[number] = true;
  }
};

enum class Behavior { kForward, kSwallow, kHold, kReset, kAway };
constexpr const char* kBehaviors[] = {"forwards", "accepts and forwards nothing",
                                      "accepts and does not read", "resets at once",
                                      "does not listen"};

struct Step {
  Behavior behavior;
  kj::Duration time = 0 * kj::SECONDS;  // since the connection, or since the step's beginning
  bool reset = false;                   // ends with a reset
};

// The steps of a proxy: of all kinds in a random order, or only long absences.
class Schedule {
 public:
  Schedule(uint64_t seed, bool absencesOnly, uint64_t seconds)
      : generator(seed), absencesOnly(absencesOnly), isLong(seconds >= 600) {}

  Step next() {
    if (absencesOnly) {
      away = !away;
      if (away) return {Behavior::kAway, between(14'000, 20'000)};
      // Longer than kGrace beside the lines of a full buffer: logd lets acknowledged lines make
      // room, and does not promise that those survive a reset.
      return {Behavior::kForward, between(14'000, 18'000), generator() % 2 == 0};
    }
    if (deck.empty()) {
      deck = {Behavior::kForward, Behavior::kSwallow, Behavior::kHold, Behavior::kReset,
              Behavior::kAway};
      std::shuffle(deck.begin(), deck.end(), generator);
      deck.push_back(Behavior::kForward);  // is the first
    }
    auto behavior = deck.back();
    deck.pop_back();
    return {behavior, timeOf(behavior), behavior == Behavior::kReset || generator() % 2 == 0};
  }

 private:
  std::mt19937_64 generator;
  bool absencesOnly, isLong, away = true;
  std::vector<Behavior> deck;

  kj::Duration between(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(generator) * kj::MILLISECONDS;
  }
  kj::Duration timeOf(Behavior behavior) {
    switch (behavior) {
      case Behavior::kForward:
        // A connection of half a minute lets logd dial quickly again.
        if (isLong && generator() % 4 == 0) return 35 * kj::SECONDS;
        return between(200, 9'000);
      case Behavior::kSwallow:
      case Behavior::kHold:
        return between(0, static_cast<int>(kMostSwallow / kj::MILLISECONDS));
      case Behavior::kAway:
        return between(500, 8'000);
      case Behavior::kReset:
        break;
    }
    return 0 * kj::SECONDS;
  }
};

// Stands before a receiver and accepts one connection after the other.
class Proxy {
 public:
  Proxy(kj::AsyncIoContext& io, unsigned port, unsigned receiverPort, Schedule schedule)
      : timer(io.provider->getTimer()), schedule(std::move(schedule)) {
    auto& network = io.provider->getNetwork();
    own = network.parseAddress("127.0.0.1", port).wait(io.waitScope);
    receiver = network.parseAddress("127.0.0.1", receiverPort).wait(io.waitScope);
    running = run().eagerlyEvaluate([](kj::Exception&& e) { ADD_FAILURE() << kj::str(e).cStr(); });
  }
  KJ_DISALLOW_COPY_AND_MOVE(Proxy);

  // From now on it forwards.
  void settle() { settled = true; }
  uint64_t count(Behavior behavior) const { return steps[static_cast<size_t>(behavior)]; }
  // Longest time from a connection whose lines it lost until it ended.
  kj::Duration longestSwallow() const { return longest; }

 private:
  kj::Timer& timer;
  Schedule schedule;
  kj::Own<kj::NetworkAddress> own, receiver;
  kj::Own<kj::ConnectionReceiver> listener;  // null: it does not listen
  bool settled = false;
  uint64_t steps[kj::size(kBehaviors)] = {};
  kj::Duration longest = 0 * kj::SECONDS;
  kj::Promise<void> running = nullptr;

  kj::Promise<void> run() {
    for (;;) {
      auto step = settled ? Step{Behavior::kForward} : schedule.next();
      ++steps[static_cast<size_t>(step.behavior)];
      if (step.behavior == Behavior::kAway) {
        listener = nullptr;
        co_await timer.afterDelay(step.time);
        continue;
      }
      if (listener.get() == nullptr) listener = own->listen();
      auto stream = co_await listener->accept();
      co_await serve(step, kj::mv(stream));
    }
  }
  kj::Promise<void> serve(Step step, kj::Own<kj::AsyncIoStream> stream) {
    auto accepted = timer.now();
    if (step.behavior == Behavior::kForward) {
      auto to = co_await receiver->connect();
      co_await untilOver(endOfForwarding(step.time), forward(*stream, *to));
    } else if (step.behavior == Behavior::kSwallow) {
      co_await untilOver(timer.afterDelay(step.time), swallow(*stream));
    } else if (step.behavior == Behavior::kHold) {
      co_await timer.afterDelay(step.time);
    }
    if (step.behavior != Behavior::kForward) longest = kj::max(longest, timer.now() - accepted);
    if (step.reset) {
      linger now{.l_onoff = 1, .l_linger = 0};
      stream->setsockopt(SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
  }
  kj::Promise<void> endOfForwarding(kj::Duration time) {
    co_await timer.afterDelay(time);
    if (settled) co_await kj::Promise<void>(kj::NEVER_DONE);
  }
  // The connection may end before.
  static kj::Promise<void> untilOver(kj::Promise<void> over, kj::Promise<void> work) {
    return work.exclusiveJoin(kj::mv(over)).catch_([](kj::Exception&& e) {
      if (e.getType() != kj::Exception::Type::DISCONNECTED) ADD_FAILURE() << kj::str(e).cStr();
    });
  }
  static kj::Promise<void> forward(kj::AsyncIoStream& from, kj::AsyncIoStream& to) {
    char buffer[8192];
    for (;;) {
      auto size = co_await from.tryRead(buffer, 1, sizeof buffer);
      if (size == 0) co_return;
      co_await to.write(buffer, size);
    }
  }
  static kj::Promise<void> swallow(kj::AsyncIoStream& from) {
    char buffer[8192];
    while (co_await from.tryRead(buffer, 1, sizeof buffer) > 0) {
    }
  }
};

// The program under test, with these sockets and folders of this test.
class LogdProgram {
 public:
  LogdProgram(kj::StringPtr store, kj::StringPtr state, kj::StringPtr log) {
    auto program = getenv("LOGD");
    KJ_REQUIRE(program != nullptr, "LOGD names the program under test; ctest sets it");
    KJ_SYSCALL(pid = fork());
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      int to = open(log.cStr(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
      dup2(to, STDOUT_FILENO);
      dup2(to, STDERR_FILENO);
      setenv(kStoreVariable.cStr(), store.cStr(), 1);
      setenv(kStateVariable.cStr(), state.cStr(), 1);
      execl(program, "logd", static_cast<char*>(nullptr));
      _exit(127);
    }
  }
  ~LogdProgram() noexcept {
    if (!runs()) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  KJ_DISALLOW_COPY_AND_MOVE(LogdProgram);

  bool runs() {
    if (pid > 0 && waitpid(pid, nullptr, WNOHANG) != 0) pid = 0;
    return pid > 0;
  }

 private:
  pid_t pid = 0;
};

// The way of the lines to one receiver.
struct Route {
  Route(kj::AsyncIoContext& io, const char* name, unsigned port, uint64_t buffer, Schedule schedule)
      : name(name),
        endpoint(kj::str("tcp://127.0.0.1:", port)),
        buffer(buffer),
        receiver(io, port + 1000),
        proxy(io, port, port + 1000, std::move(schedule)) {}

  const char* name;
  kj::String endpoint;
  uint64_t buffer;
  Receiver receiver;
  Proxy proxy;
};

// Counts of logd for one destination.
struct Counted {
  uint64_t sent = 0, dropped = 0, missedLines = 0, refused = 0, waitingBytes = 0;
  std::string error;

  uint64_t lost() const { return dropped + missedLines + refused; }
};

struct LogDelivery : public testing::Test {
  ~LogDelivery() noexcept override {}
  static void SetUpTestSuite() {
    KJ_SYSCALL(unshare(CLONE_NEWNET));
    kj::AutoCloseFd control(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request = {};
    strcpy(request.ifr_name, "lo");
    KJ_SYSCALL(ioctl(control, SIOCGIFFLAGS, &request));
    request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
    KJ_SYSCALL(ioctl(control, SIOCSIFFLAGS, &request));
  }

  const uint64_t seconds = fromVariable("LOG_SECONDS", 60), seed = fromVariable("SEED", 1);
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  machined::TestTree tree;
  machined::FakeMachine machine;
  machined::FakeProcess1 process1{machine};
  machined::Events events{kj::nullClock(), process1};
  machined::Logs logs{process1, io.unixEventPort};
  ModelMachined machined{io, kLogdUid};
  ModelKind& statuses = machined.kind<rpc::LogDestinationStatusSpec>();
  Route ample{io, "64 MiB", 5140, kAmpleBuffer, Schedule(seed, false, seconds)};
  Route small{io, "1 MiB", 5141, kSmallBuffer, Schedule(seed + 1, true, seconds)};
  uint64_t written = 0;

  void configure(const Route& route) {
    machined.kind<rpc::LogDestinationSpec>().set<rpc::LogDestinationSpec>(
        route.endpoint, "runtime.LogDestinationsController", [&](auto spec) {
          spec.setFormat(config::LogFormat::JSON_LINES);
          spec.initStreams(1).set(0, config::LogStream::SERVICES);
          spec.setBufferBytes(route.buffer);
        });
  }
  Counted statusOf(const Route& route) {
    Counted counted;
    KJ_IF_MAYBE (found, statuses.find(route.endpoint)) {
      auto spec = found->getSpec().getAs<rpc::LogDestinationStatusSpec>();
      counted.sent = spec.getSentLines();
      counted.dropped = spec.getDroppedLines();
      counted.missedLines = (spec.getMissedBytes() + kLineBytes - 1) / kLineBytes;
      counted.refused = spec.getRefusedLines();
      counted.waitingBytes = spec.getWaitingBytes();
      counted.error = kj::StringPtr(spec.getLastError()).cStr();
    }
    return counted;
  }
  // All lines have arrived, or are counted as lost.
  bool isSettled(const Route& route) {
    auto status = statusOf(route);
    return status.waitingBytes == 0 && status.sent + status.lost() >= written;
  }
  bool waitUntil(kj::FunctionParam<bool()> condition, kj::Duration most) {
    auto end = timer.now() + most;
    while (!condition()) {
      if (timer.now() > end) return false;
      timer.afterDelay(100 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return true;
  }
  // Lines of kLineBytes, for as long as LOG_SECONDS says.
  void write() {
    auto began = timer.now();
    const std::string padding(kLineBytes, 'x');
    for (uint64_t due = 0; due < seconds * kLinesPerSecond;) {
      timer.afterDelay(20 * kj::MILLISECONDS).wait(io.waitScope);
      due = static_cast<uint64_t>((timer.now() - began) / (1 * kj::SECONDS / kLinesPerSecond));
      due = std::min(due, seconds * kLinesPerSecond);
      while (written < due) {
        auto number = std::to_string(written++);
        auto line = "line " + std::string(10 - number.size(), '0') + number + " " + padding;
        line.resize(kLineBytes - 1);
        line += '\n';
        logs.append("writer", kj::ArrayPtr<const char>(line.data(), line.size()));
      }
    }
  }
  // Missing at the receiver, and neither reported to it as dropped nor overwritten before logd.
  uint64_t uncounted(const Route& route, const Counted& counted) const {
    auto& received = route.receiver.received;
    uint64_t unreported = 0;
    for (uint64_t number = 0; number < written; ++number) {
      if (!received.has(number) && !received.isReported(number)) ++unreported;
    }
    return unreported - std::min(unreported, counted.missedLines);
  }
  void printRow(const Route& route, const Counted& counted) const {
    auto& received = route.receiver.received;
    auto row = kj::str("| ", route.name, " | ", written, " | ", received.distinct(), " | ",
                       received.marked, " | ", received.unmarked, " | ", counted.lost(), " | ",
                       uncounted(route, counted), " |\n");
    printf("%s", row.cStr());
  }
  void printSteps(const Route& route) const {
    printf("the proxy of %s:", route.name);
    for (size_t i = 0; i < kj::size(kBehaviors); ++i) {
      printf("%s %s %llu times", i == 0 ? "" : ",", kBehaviors[i],
             static_cast<unsigned long long>(route.proxy.count(static_cast<Behavior>(i))));
    }
    printf("; lost connections lasted at most %lld ms\n",
           static_cast<long long>(route.proxy.longestSwallow() / kj::MILLISECONDS));
  }
  void expectDelivered(const Route& route, const Counted& counted) const {
    SCOPED_TRACE(route.name);
    auto& received = route.receiver.received;
    EXPECT_EQ(0u, uncounted(route, counted));
    EXPECT_LE(written - received.distinct(), counted.lost());
    EXPECT_EQ(written, counted.sent + counted.lost()) << counted.error;
    EXPECT_EQ(0u, received.unmarked);
    EXPECT_EQ(0u, received.disordered);
    EXPECT_EQ(0u, received.unknown);
  }
};

// Catches: a line that is missing at the receiver and in all of logd's counts; a repeated line
// without its mark; lines of one connection out of order; a line that counts as lost although the
// buffer had room.
TEST_F(LogDelivery, EachLineArrivesOrCountsAsLost) {
  tree.directory("state");
  machined.haveLogs(machined::serveLogFeed(
      logs, events, kj::str("boot-1"),
      [](uint64_t, rpc::LogSink::Client) -> kj::Promise<void> { return kj::NEVER_DONE; }));
  machined.start();
  configure(ample);
  configure(small);
  LogdProgram program(machined.socket(), tree.at("state"), tree.at("log"));
  ASSERT_TRUE(waitUntil([&]() { return statuses.size() == 2; }, 60 * kj::SECONDS))
      << readFile(tree.at("log")).cStr();
  write();
  ample.proxy.settle();
  small.proxy.settle();
  // A last absence, the longest pause before logd dials, and kGrace.
  bool settled =
      waitUntil([&]() { return isSettled(ample) && isSettled(small); }, 180 * kj::SECONDS);
  EXPECT_TRUE(settled) << readFile(tree.at("log")).cStr();
  EXPECT_TRUE(program.runs()) << readFile(tree.at("log")).cStr();

  auto ofAmple = statusOf(ample), ofSmall = statusOf(small);
  printf("%llu s, seed %llu\n", static_cast<unsigned long long>(seconds),
         static_cast<unsigned long long>(seed));
  printSteps(ample);
  printSteps(small);
  printf(
      "| Buffer | Sent | Received | Repeated, marked | Repeated, unmarked | Lost, counted | Lost, "
      "uncounted |\n|---|---|---|---|---|---|---|\n");
  printRow(ample, ofAmple);
  printRow(small, ofSmall);
  expectDelivered(ample, ofAmple);
  expectDelivered(small, ofSmall);
  EXPECT_EQ(0u, ofAmple.dropped);
  // Less time may be too short for the other half of the promise.
  if (seconds >= 60) {
    EXPECT_GT(ofSmall.dropped, 0u);
    EXPECT_GT(ample.receiver.received.marked, 0u);
  }
}

}  // namespace
}  // namespace talos::logd
