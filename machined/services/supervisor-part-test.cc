// Services that are parts of this program.
#include "machined/services/test-supervisor.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Catches: a spawn for a part, a part that continues after its stop or runs twice, a stop between
// two steps that is lost.
TEST_F(SupervisorTest, APartRunsUntilItIsDropped) {
  int running = 0, begun = 0;
  auto part = [&]() {
    auto d = define("p");
    d.command = kj::str("the part");
    d.part = kj::Function<kj::Promise<void>()>([&]() -> kj::Promise<void> {
      ++running;
      ++begun;
      return kj::Promise<void>(kj::NEVER_DONE).attach(kj::defer([&]() { --running; }));
    });
    return d;
  };
  supervisor->load(part());
  EXPECT_EQ(begun, 0);
  supervisor->start("p");
  run();
  EXPECT_EQ(running, 1);
  EXPECT_EQ(machine.spawns, 0);
  EXPECT_TRUE(supervisor->isUp("p"));
  EXPECT_ANY_THROW(supervisor->signal("p", SIGKILL));  // it would be machined's process
  auto stopped = supervisor->stop("p");
  EXPECT_TRUE(done(stopped));
  EXPECT_EQ(running, 0);
  EXPECT_EQ(state("p"), rpc::ServiceState::FINISHED);
  supervisor->restart("p").wait(scope);
  advance(1 * kj::SECONDS);
  EXPECT_EQ(running, 1);
  supervisor->restart("p").wait(scope);
  advance(1 * kj::SECONDS);
  EXPECT_EQ(running, 1);
  EXPECT_EQ(begun, 3);
  EXPECT_THAT(events,
              ElementsAre("p Initialized Service loaded", "p Preparing Running pre state",
                          "p Preparing Creating service runner", "p Running Started the part",
                          "p Stopping Stopping the part", "p Finished Service stopped",
                          "p Preparing Running pre state", "p Preparing Creating service runner",
                          "p Running Started the part", "p Stopping Stopping the part",
                          "p Finished Service stopped", "p Preparing Running pre state",
                          "p Preparing Creating service runner", "p Running Started the part"));
  // The stop comes at every moment of a start.
  for (int turns = 0; turns < 12; ++turns) {
    auto stop = supervisor->stop("p");
    ASSERT_TRUE(done(stop));
    supervisor->start("p");
    scope.poll(turns);
    stop = supervisor->stop("p");
    ASSERT_TRUE(done(stop)) << turns;
    EXPECT_EQ(running, 0) << turns;
    EXPECT_EQ(state("p"), rpc::ServiceState::FINISHED);
  }
  supervisor->start("p");
  crashBrain();
  EXPECT_EQ(running, 0);
  supervisor->load(part());
  run();
  EXPECT_EQ(running, 1);
  EXPECT_EQ(machine.spawns, 0);
  auto all = supervisor->stopAll();
  EXPECT_TRUE(done(all));
  EXPECT_EQ(running, 0);
}

// Catches: a part whose failure ends machined, is not reported, or is not retried.
TEST_F(SupervisorTest, APartThatFailsIsBegunAgain) {
  int begun = 0;
  auto d = define("p");
  d.command = kj::str("the part");
  d.part = kj::Function<kj::Promise<void>()>([&]() -> kj::Promise<void> {
    if (++begun < 4) fail(ErrorKind::kUnavailable, "no luck");
    return kj::NEVER_DONE;
  });
  supervisor->load(kj::mv(d));
  supervisor->start("p");
  run();
  EXPECT_EQ(begun, 2);
  EXPECT_THAT(events.back(), HasSubstr("p Waiting the part ended: no luck; restarting in 0.1 s"));
  advance(1 * kj::SECONDS);
  EXPECT_EQ(begun, 4);
  EXPECT_TRUE(supervisor->isUp("p"));
}

// Catches: a dependant that waits for ever for a service that was unloaded.
TEST_F(SupervisorTest, DependantsOfAPartLearnOfItsUnloading) {
  auto d = define("p", {"absent"});
  d.part = kj::Function<kj::Promise<void>()>([&]() { return kj::Promise<void>(kj::NEVER_DONE); });
  supervisor->load(kj::mv(d));
  supervisor->start("p");
  auto up = supervisor->whenUp("p");
  EXPECT_FALSE(up.poll(scope));
  supervisor->unload("p", "not wanted");
  ASSERT_TRUE(up.poll(scope));
  EXPECT_ANY_THROW(up.wait(scope));
}

// Catches: a part that ends at the moment of its stop, and whose end is reported as the cause.
TEST_F(SupervisorTest, APartThatEndsWhileItIsStopped) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  auto d = define("p");
  d.part = kj::Function<kj::Promise<void>()>([&]() { return kj::mv(paf.promise); });
  supervisor->load(kj::mv(d));
  supervisor->start("p");
  run();
  paf.fulfiller->fulfill();
  auto stopped = supervisor->stop("p");
  EXPECT_TRUE(done(stopped));
  EXPECT_EQ(events.back(), "p Finished Service stopped");
}

// Catches: a service that is listed although it was unloaded, a restart under way that loads it
// again, a service that cannot be loaded again.
TEST_F(SupervisorTest, APartCanBeUnloaded) {
  int running = 0;
  auto part = [&]() {
    auto d = define("p");
    d.carriesApi = true;
    d.part = kj::Function<kj::Promise<void>()>([&]() -> kj::Promise<void> {
      ++running;
      return kj::Promise<void>(kj::NEVER_DONE).attach(kj::defer([&]() { --running; }));
    });
    return d;
  };
  supervisor->load(part());
  supervisor->start("p");
  run();
  auto one = supervisor->restart("p");
  advance(50 * kj::MILLISECONDS);
  auto other = supervisor->restart("p");
  supervisor->unload("p", "not wanted");
  advance(75 * kj::MILLISECONDS);  // after one of the restarts
  EXPECT_EQ(running, 0);
  advance(1 * kj::SECONDS);
  EXPECT_EQ(events.back(), "p Finished Service unloaded: not wanted");
  EXPECT_EQ(supervisor->ids().size(), 0);
  EXPECT_FALSE(supervisor->isUp("p"));
  EXPECT_ANY_THROW(supervisor->start("p"));
  supervisor->load(part());
  supervisor->start("p");
  run();
  EXPECT_EQ(running, 1);
  EXPECT_TRUE(supervisor->isUp("p"));
  supervisor->unload("p", "not wanted");
  crashBrain();
  supervisor->load(part());
  EXPECT_EQ(state("p"), rpc::ServiceState::INITIALIZED) << "a new brain knows nothing of it";
}

// Catches: a part that a new brain has not started yet and that has the health of its predecessor.
TEST_F(SupervisorTest, ANewBrainKnowsNothingOfTheHealthOfAPart) {
  Flag flag;
  auto part = [&]() {
    auto d = define("p");
    d.part = kj::Function<kj::Promise<void>()>([] { return kj::Promise<void>(kj::NEVER_DONE); });
    d.health = HealthCheck{[]() -> kj::Promise<void> { return kj::READY_NOW; }};
    d.conditions.add(kj::heap<FlagRef>(flag));
    return d;
  };
  flag.value = true;
  supervisor->load(part());
  supervisor->start("p");
  advance(1 * kj::SECONDS);
  EXPECT_TRUE(supervisor->isUp("p"));
  flag.value = false;
  crashBrain();
  supervisor->load(part());
  advance(10 * kj::SECONDS);
  capnp::MallocMessageBuilder m;
  auto s = m.initRoot<rpc::Service>();
  supervisor->fill("p", s);
  EXPECT_EQ(s.getState(), rpc::ServiceState::WAITING);
  EXPECT_TRUE(s.getHealth().getUnknown());
}

// Catches: a supervisor that grows with each config that adds or removes timed, and a part that is
// destroyed before the promise that it made.
TEST_F(SupervisorTest, APartThatWasUnloadedIsForgotten) {
  struct Counted {
    int& there;
    explicit Counted(int& there) : there(there) { ++there; }
    ~Counted() noexcept(false) { --there; }
    KJ_DISALLOW_COPY_AND_MOVE(Counted);
  };
  int parts = 0, promises = 0;
  bool inOrder = true;
  for (int i = 0; i < 3; ++i) {
    auto d = define("p");
    d.carriesApi = true;
    d.part = kj::Function<kj::Promise<void>()>([&, part = kj::heap<Counted>(parts)]() {
      auto promise = kj::heap<Counted>(promises);
      return kj::Promise<void>(kj::NEVER_DONE).attach(kj::mv(promise), kj::defer([&]() {
                                                        inOrder = inOrder && parts > 0;
                                                      }));
    });
    supervisor->load(kj::mv(d));
    supervisor->start("p");
    run();
    EXPECT_EQ(promises, 1);
    auto answered = supervisor->restart("p");
    auto up = supervisor->whenUp("p");
    supervisor->unload("p", "not wanted");
    advance(1 * kj::SECONDS);
    EXPECT_TRUE(done(up));
    EXPECT_EQ(promises, 0);
    EXPECT_EQ(parts, 0);
  }
  EXPECT_TRUE(inOrder);
}

}  // namespace
}  // namespace talos::machined
