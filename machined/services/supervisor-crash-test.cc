// What a brain that was started again finds and does.
#include "machined/services/test-supervisor.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;

// Catches: a brain that starts its children a second time, or forgets what they did.
TEST_F(SupervisorTest, ANewBrainAdoptsWhatRuns) {
  supervisor->load(define("a"));
  supervisor->start("a");
  crashBrain();
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  EXPECT_EQ(1u, machine.spawns);
  EXPECT_THAT(
      told, ElementsAre("a Running Adopted running process (PID 100) after a restart of machined"));
  capnp::MallocMessageBuilder m;
  auto s = m.initRoot<rpc::Service>();
  supervisor->fill("a", s);
  EXPECT_EQ(100, s.getPid());
  EXPECT_EQ(5u, s.getEvents().size());
  EXPECT_EQ("Service loaded"_kj, s.getEvents()[0].getMessage());
  machine.exit("a", SIGKILL);  // and it is supervised as before
  run();
  EXPECT_TRUE(machine.runs("a"));
}

// Catches: a service that died together with the brain and stays away.
TEST_F(SupervisorTest, ANewBrainRestartsWhatDiedMeanwhile) {
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  machine.exit("a", SIGKILL);  // nobody has seen it
  supervisor = nullptr;
  process1 = nullptr;
  startBrain();
  supervisor->load(define("a"));
  advance(1 * kj::SECONDS);
  EXPECT_EQ(2u, machine.spawns);
  EXPECT_TRUE(machine.runs("a"));
}

// Catches: the end of the last brain's child taken for that of the one that is being started, or
// has just been.
class LastChild : public SupervisorTest, public testing::WithParamInterface<bool> {
 public:
  ~LastChild() noexcept override {}
};
INSTANTIATE_TEST_SUITE_P(Ends, LastChild, testing::Bool());

TEST_P(LastChild, IsNotTheNextOne) {
  bool duringTheStart = GetParam();
  // Ends come one by one: those of so many others are in front of it.
  kj::Vector<kj::String> others;
  for (int i = 0; i < 40; ++i) others.add(kj::str("x", i));
  for (auto& id : others) {
    supervisor->load(define(id));
    supervisor->start(id);
  }
  run();
  machine.spawnGate = kj::Promise<void>(kj::NEVER_DONE);
  supervisor->load(define("a"));
  supervisor->start("a");
  crashBrain();  // the answer to the spawn is lost
  supervisor = nullptr;
  process1 = nullptr;
  for (auto& id : others) machine.exit(id, 0);
  machine.exit("a", 1 << 8);
  startBrain();
  auto paf = kj::newPromiseAndFulfiller<void>();
  machine.spawnGate = kj::mv(paf.promise);
  if (!duringTheStart) paf.fulfiller->fulfill();
  supervisor->load(define("a"));
  run();
  paf.fulfiller->fulfill();
  run();
  EXPECT_EQ(others.size() + 2, machine.spawns);
  EXPECT_EQ(rpc::ServiceState::RUNNING, state("a"));
}

// Catches: a service that the user had stopped coming back with the brain.
TEST_F(SupervisorTest, ANewBrainLeavesTheStoppedStopped) {
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  supervisor->stop("a").wait(scope);
  crashBrain();
  supervisor->load(define("a"));
  advance(10 * kj::SECONDS);
  EXPECT_FALSE(machine.runs("a"));
  EXPECT_EQ(rpc::ServiceState::FINISHED, state("a"));
}

// Catches: a stop that is forgotten when the brain dies in the middle of it.
TEST_F(SupervisorTest, ANewBrainFinishesAStop) {
  machine.diesOf = [](auto&, int signal) { return signal == SIGKILL; };
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  auto stopped = supervisor->stop("a");
  run();
  {
    auto drop = kj::mv(stopped);
  }
  crashBrain();
  supervisor->load(define("a"));
  advance(11 * kj::SECONDS);
  EXPECT_FALSE(machine.runs("a"));
  EXPECT_EQ(rpc::ServiceState::FINISHED, state("a"));
}

// Catches: waiting that ends with the brain.
TEST_F(SupervisorTest, ANewBrainGoesOnWaiting) {
  supervisor->load(define("a"));
  supervisor->load(define("b", {"a"}));
  supervisor->start("b");
  crashBrain();
  supervisor->load(define("a"));
  supervisor->load(define("b", {"a"}));
  supervisor->start("a");
  run();
  EXPECT_TRUE(machine.runs("b"));
}

}  // namespace
}  // namespace talos::machined
