// The memory that clients may use in a server, over all their connections.
#include "common/wire/budget.h"

#include <capnp/rpc-twoparty.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>

#include "common/base/error.h"
#include "common/wire/rpc-server.h"
#include "rpc/node.capnp.h"

namespace talos {
namespace {

constexpr size_t kMebibyte = 1u << 20;
constexpr Budget::Limits kLimits = {.perClient = 8 * kMebibyte, .inTotal = 12 * kMebibyte};

kj::String refusalOf(kj::FunctionParam<void()> what) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { what(); })) {
    EXPECT_EQ(kindOf(*e), ErrorKind::kResourceExhausted);
    return messageOf(*e);
  }
  return kj::str();
}

// Catches: a client that gets more memory by connecting again; a client that uses up the share of
// others; bytes that are counted for ever.
TEST(BudgetTest, AClientHasOneShare) {
  Budget budget(kLimits);
  auto one = budget.account("a"), again = budget.account("a"), other = budget.account("b");
  EXPECT_EQ(one.get(), again.get());
  kj::Maybe<Budget::Account::Hold> first = one->hold(6 * kMebibyte);
  EXPECT_EQ(refusalOf([&] { again->hold(3 * kMebibyte); }),
            "the calls of this client use more than 8388608 bytes, over all its connections"_kj);
  auto second = other->hold(5 * kMebibyte);
  EXPECT_EQ(refusalOf([&] { again->hold(2 * kMebibyte); }),
            "the calls of all clients use more than 12582912 bytes; retry later"_kj);
  first = nullptr;
  auto third = again->hold(7 * kMebibyte);
}

// Catches: calls without number, which cost more than their bytes; another node that has no more
// than one of its clients.
TEST(BudgetTest, ACallIsNeverForNothing) {
  Budget budget(kLimits);
  auto one = budget.account("a"), node = budget.account("node", 2 * kLimits.perClient);
  kj::Vector<Budget::Account::Hold> holds;
  EXPECT_NE(refusalOf([&] {
              for (unsigned i = 0; i < 1000; ++i) holds.add(one->hold(8));
            }),
            kj::str());
  EXPECT_EQ(holds.size(), 512u);
  holds.clear();
  auto more = node->hold(9 * kMebibyte);
}

struct FakeQueue final : Budget::Queue {
  using Account = decltype(kj::instance<Budget&>().account(""));
  explicit FakeQueue(Account& of) : of(of) { of->add(*this); }
  ~FakeQueue() noexcept { of->remove(*this); }
  KJ_DISALLOW_COPY_AND_MOVE(FakeQueue);

  Account& of;
  size_t waiting = 0;
  bool cut = false;
  size_t queued() const override { return waiting; }
  void cutOff() override { cut = true; }
};

// Catches: answers that pile up, in one connection or in many of one client; a client that is cut
// off for another one's.
TEST(BudgetTest, AClientThatDoesNotReadIsCutOff) {
  Budget budget({.perClient = kLimits.perClient, .inTotal = 20 * kMebibyte});
  auto one = budget.account("a"), other = budget.account("b");
  FakeQueue queues[] = {FakeQueue(one), FakeQueue(one), FakeQueue(other)};
  queues[0].waiting = 3 * kMebibyte;
  queues[1].waiting = 5 * kMebibyte;
  queues[2].waiting = 8 * kMebibyte;
  other->received(kMebibyte);
  EXPECT_FALSE(queues[0].cut || queues[1].cut || queues[2].cut);
  ++queues[0].waiting;
  other->received(kMebibyte);  // from any sender: the bytes arrive on another connection
  EXPECT_FALSE(queues[0].cut || queues[2].cut);
  EXPECT_TRUE(queues[1].cut);
}

// Catches: many clients that each stay below their share, and together have more than there is.
TEST(BudgetTest, QueuesOfAllClientsAreBounded) {
  Budget budget(kLimits);
  auto one = budget.account("a"), other = budget.account("b");
  FakeQueue queues[] = {FakeQueue(one), FakeQueue(other), FakeQueue(other)};
  queues[0].waiting = 5 * kMebibyte;
  queues[1].waiting = 3 * kMebibyte;
  queues[2].waiting = 4 * kMebibyte;
  one->received(kMebibyte);
  EXPECT_FALSE(queues[0].cut || queues[1].cut || queues[2].cut);
  ++queues[1].waiting;
  one->received(kMebibyte);
  EXPECT_FALSE(queues[0].cut || queues[1].cut);
  EXPECT_TRUE(queues[2].cut) << "the longest of the one who has most";
}

// Catches: readers that together have all there is, and an administrator who is refused because of
// that; a reserve that privileged clients have instead of the rest.
TEST(BudgetTest, AReserveIsForPrivilegedClients) {
  Budget budget({.perClient = 8 * kMebibyte, .inTotal = 24 * kMebibyte, .reserve = 8 * kMebibyte});
  auto one = budget.account("a"), two = budget.account("b"), three = budget.account("c");
  auto admin = budget.account("admin", 8 * kMebibyte, Budget::Rank::kPrivileged);
  kj::Maybe<Budget::Account::Hold> first = one->hold(8 * kMebibyte);
  auto second = two->hold(8 * kMebibyte);
  EXPECT_EQ(refusalOf([&] { three->hold(kMebibyte); }),
            "the calls of all clients use more than 16777216 bytes; retry later"_kj);
  {
    auto his = admin->hold(8 * kMebibyte);
    EXPECT_NE(refusalOf([&] { three->hold(kMebibyte); }), kj::str());
  }
  first = nullptr;
  auto other = budget.account("other", 8 * kMebibyte, Budget::Rank::kPrivileged);
  auto his = admin->hold(8 * kMebibyte), hers = other->hold(8 * kMebibyte);
  EXPECT_EQ(refusalOf([&] { three->hold(kMebibyte); }),
            "the calls of all clients use more than 16777216 bytes; retry later"_kj);
}

// Catches: the same for answers that are not read.
TEST(BudgetTest, QueuesOfUsualClientsLeaveTheReserve) {
  Budget budget({.perClient = 8 * kMebibyte, .inTotal = 16 * kMebibyte, .reserve = 8 * kMebibyte});
  auto one = budget.account("a"), two = budget.account("b");
  auto privileged = budget.account("admin", 8 * kMebibyte, Budget::Rank::kPrivileged);
  FakeQueue queues[] = {FakeQueue(one), FakeQueue(two), FakeQueue(privileged)};
  queues[0].waiting = 5 * kMebibyte;
  queues[1].waiting = 3 * kMebibyte;
  queues[2].waiting = 8 * kMebibyte;
  one->received(kMebibyte);
  EXPECT_FALSE(queues[0].cut || queues[1].cut || queues[2].cut);
  ++queues[1].waiting;
  one->received(kMebibyte);
  EXPECT_TRUE(queues[0].cut);
  EXPECT_FALSE(queues[1].cut || queues[2].cut);
}

// Servers of one client, each on its own stream, with hand-written messages from the client.
struct OneClient : testing::Test {
  ~OneClient() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  Budget budget{kLimits};

  struct Served {
    kj::TwoWayPipe pipe;
    kj::Promise<kj::Maybe<kj::String>> over = nullptr;
  };
  Served serve() {
    Served served{kj::newTwoWayPipe()};
    served.over = serveConnection(timer, kj::mv(served.pipe.ends[0]), nullptr, {}, kj::NEVER_DONE,
                                  budget.account("a"))
                      .eagerlyEvaluate(nullptr);
    return served;
  }
  // Sends only the beginning of a message that has so many bytes.
  void announce(Served& served, uint32_t bytes) {
    const uint32_t header[2] = {0, bytes / 8};
    timer.timeoutAfter(10 * kj::SECONDS, served.pipe.ends[1]->write(header, sizeof header))
        .wait(io.waitScope);
  }
};

// Catches: messages that are never finished, each as large as one may be.
TEST_F(OneClient, AnnouncedMessagesAreCharged) {
  auto first = serve(), second = serve();
  announce(first, 6 * kMebibyte);
  EXPECT_FALSE(first.over.poll(io.waitScope));
  announce(second, 3 * kMebibyte);
  auto error = timer.timeoutAfter(10 * kj::SECONDS, kj::mv(second.over)).wait(io.waitScope);
  EXPECT_EQ(KJ_ASSERT_NONNULL(error),
            "the calls of this client use more than 8388608 bytes, over all its connections"_kj);
  EXPECT_FALSE(first.over.poll(io.waitScope));
  first.over = nullptr;  // closes it, with what it held
  auto third = serve();
  announce(third, 3 * kMebibyte);
  EXPECT_FALSE(third.over.poll(io.waitScope));
}

struct AnswersAtOnce final : rpc::Node::Server {
  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(kj::heap<rpc::Machine::Server>());
    return kj::READY_NOW;
  }
};

// Catches: calls that count although they are answered and their client has finished them.
TEST_F(OneClient, FinishedCallsAreNotCharged) {
  auto pipe = kj::newTwoWayPipe();
  auto serving = serveConnection(timer, kj::mv(pipe.ends[0]), kj::heap<AnswersAtOnce>(), {},
                                 kj::NEVER_DONE, budget.account("a"))
                     .eagerlyEvaluate(nullptr);
  capnp::TwoPartyClient client(*pipe.ends[1]);
  auto node = client.bootstrap().castAs<rpc::Node>();
  // The answer contains a capability: an answer without one ends its question at once.
  using Answer = capnp::Response<rpc::Node::MachineResults>;
  for (unsigned i = 0; i < 600; ++i) {
    kj::Promise<Answer> call = node.machineRequest().send();
    timer.timeoutAfter(10 * kj::SECONDS, kj::mv(call)).wait(io.waitScope);
  }
}

}  // namespace
}  // namespace talos
