// The balancer between real sockets of the loopback interface.
#include "kubed/balancer/api-balancer.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "common/testing/test-port.h"
#include "common/testing/virtual-time.h"
#include "common/wire/rpc-server.h"

namespace talos::kubed {
namespace {

class StoppedClock final : public kj::MonotonicClock {
 public:
  kj::TimePoint now() const override { return kj::origin<kj::TimePoint>(); }
};

struct ApiBalancerTest : public testing::Test {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  StoppedClock clock;
  std::set<uint16_t> refusing, silent;  // ports of servers
  unsigned dials = 0;
  uint16_t port = 0;  // of the balancer
  ApiBalancer::Dial dial =
      [this](const ApiServer& server) -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
    ++dials;
    if (refusing.count(server.port) > 0) return KJ_EXCEPTION(DISCONNECTED, "refused");
    if (silent.count(server.port) > 0) return kj::NEVER_DONE;
    return connectTo(server.port);
  };
  kj::Vector<kj::Promise<void>> serving;
  kj::Own<ApiBalancer> balancer;

  ~ApiBalancerTest() noexcept override {}
  ApiBalancerTest() {
    auto listening = listenTcp("127.0.0.1", 0);
    port = portOf(listening.get());
    balancer = kj::heap<ApiBalancer>(
        ApiBalancer::Dependencies{
            .lowLevel = *io.lowLevelProvider, .timer = timer, .clock = clock, .dial = dial},
        kj::mv(listening), kj::str("the test"), [] {});
  }

  kj::Promise<kj::Own<kj::AsyncIoStream>> connectTo(uint16_t to) {
    auto address = co_await io.provider->getNetwork().parseAddress("127.0.0.1", to);
    co_return co_await address->connect();
  }
  // Answers what it reads, after its name.
  static kj::Promise<void> answer(kj::Own<kj::AsyncIoStream> stream, char name) {
    auto text = co_await stream->readAllText();
    auto reply = kj::str(name, ":", text);
    co_await stream->write(reply.begin(), reply.size());
  }
  static kj::Promise<void> serve(kj::Own<kj::ConnectionReceiver> receiver, char name) {
    for (;;) {
      auto stream = co_await receiver->accept();
      // A check leaves before it has an answer.
      co_await answer(kj::mv(stream), name).catch_([](kj::Exception&&) {});
    }
  }
  // Starts a server, and returns its port.
  uint16_t start(char name) {
    auto listening = listenTcp("127.0.0.1", 0);
    auto number = portOf(listening.get());
    serving.add(serve(io.lowLevelProvider->wrapListenSocketFd(kj::mv(listening)), name)
                    .eagerlyEvaluate(nullptr));
    return number;
  }
  void set(std::initializer_list<uint16_t> ports) {
    kj::Vector<ApiServer> servers;
    for (auto number : ports) servers.add(ApiServer{kj::str("127.0.0.1"), number});
    balancer->setServers(servers);
  }
  std::string scores() {
    std::string all;
    for (auto& entry : balancer->scores().all()) {
      all += kj::str(all.empty() ? "" : " ", entry.score).cStr();
    }
    return all;
  }

  kj::Promise<std::string> send(kj::String text) {
    auto stream = co_await connectTo(port);
    co_await stream->write(text.begin(), text.size());
    stream->shutdownWrite();
    auto all = co_await stream->readAllText();
    co_return std::string(all.begin(), all.size());
  }
  // Returns the answer, or "reset".
  kj::Promise<std::string> ask(kj::StringPtr text) {
    return send(kj::str(text)).catch_([](kj::Exception&&) { return std::string("reset"); });
  }
  bool eventually(kj::Function<bool()> so) {
    auto& real = io.provider->getTimer();
    auto deadline = real.now() + 20 * kj::SECONDS;
    while (!so() && real.now() < deadline) {
      real.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return so();
  }
};

// Catches: an end of one direction that ends both, or is not passed on; bytes that are lost when
// there are more than a buffer has.
TEST_F(ApiBalancerTest, PassesBothDirectionsToTheirEnds) {
  set({start('a')});
  EXPECT_EQ("a:", ask("").wait(io.waitScope));
  std::string large(3u << 20, 'x');
  EXPECT_EQ("a:" + large, ask(large.c_str()).wait(io.waitScope));
}

// Catches: one server that gets all connections; a connection that ends because the first server
// refuses it.
TEST_F(ApiBalancerTest, AnotherServerTakesTheConnectionOfADeadOne) {
  auto a = start('a'), b = start('b');
  set({a, b});
  std::set<std::string> answers;
  for (unsigned i = 0; i < 2; ++i) answers.insert(ask("1").wait(io.waitScope));
  EXPECT_EQ((std::set<std::string>{"a:1", "b:1"}), answers);
  refusing.insert(b);
  for (unsigned i = 0; i < 8; ++i) EXPECT_EQ("a:1", ask("1").wait(io.waitScope));
  EXPECT_EQ(Health::kReached, balancer->scores().health());
  EXPECT_LT(balancer->scores().all()[1].score, 0);
}

// Catches: an empty answer in place of an error while no server is usable; a node that waits for
// minutes after its only server is back.
TEST_F(ApiBalancerTest, ResetsClientsUntilACheckReachesAServer) {
  EXPECT_EQ("reset", ask("1").wait(io.waitScope)) << "there are no servers";
  auto a = start('a');
  refusing.insert(a);
  set({a});
  ASSERT_TRUE(eventually([&] { return scores() == "0"; })) << "the first check";
  EXPECT_EQ("reset", ask("1").wait(io.waitScope));
  EXPECT_EQ("-1", scores());
  auto before = dials;
  EXPECT_EQ("reset", ask("1").wait(io.waitScope));
  EXPECT_EQ(before, dials) << "an unusable server is left to the checks";
  refusing.clear();
  advance(timer, io.waitScope, kCheckIntervalOfNone + 1 * kj::SECONDS);
  ASSERT_TRUE(eventually([&] { return scores() == "0"; }));
  EXPECT_EQ("a:1", ask("1").wait(io.waitScope));
}

// Catches: clients that wait for a server that is switched off for as long as the kernel tries.
TEST_F(ApiBalancerTest, ASilentServerHasATimeout) {
  auto a = start('a'), b = start('b');
  silent.insert(a);
  set({a, b});
  auto asked = ask("1");
  ASSERT_TRUE(eventually([&] { return dials == 2; })) << "a check and a client";
  EXPECT_FALSE(asked.poll(io.waitScope));
  advance(timer, io.waitScope, kCheckTimeout + 1 * kj::SECONDS);
  EXPECT_EQ("b:1", asked.wait(io.waitScope));
  EXPECT_EQ(-1, balancer->scores().all()[0].score);
}

// Catches: a change of the list that ends the connections of servers that stay or leave.
TEST_F(ApiBalancerTest, OpenConnectionsSurviveAnotherList) {
  auto a = start('a'), b = start('b');
  set({a});
  auto client = connectTo(port).wait(io.waitScope);
  client->write("12", 2).wait(io.waitScope);
  ASSERT_TRUE(eventually([&] { return dials >= 2; })) << "the check, and the client";
  set({b});
  EXPECT_EQ("b:3", ask("3").wait(io.waitScope));
  client->write("4", 1).wait(io.waitScope);
  client->shutdownWrite();
  EXPECT_STREQ("a:124", client->readAllText().wait(io.waitScope).cStr());
}

}  // namespace
}  // namespace talos::kubed
