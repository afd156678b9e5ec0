// How services are stopped: a single one, all in order, and during another action.
#include "machined/services/test-supervisor.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Catches: a service that is restarted while the machine shuts down.
TEST_F(SupervisorTest, ARestartThatIsDueAfterTheEndIsNone) {
  supervisor->load(carrier("a"));
  supervisor->start("a");
  run();
  auto answered = supervisor->restart("a");
  auto all = supervisor->stopAll();
  EXPECT_TRUE(done(all));
  advance(1 * kj::SECONDS);
  EXPECT_FALSE(machine.runs("a"));
}

// Catches: no SIGKILL after the grace time, or one before it; a stop that resolves too early.
TEST_F(SupervisorTest, StopIsTermThenKill) {
  machine.diesOf = [](auto&, int signal) { return signal == SIGKILL; };
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  auto stopped = supervisor->stop("a");
  advance(9999 * kj::MILLISECONDS);
  EXPECT_EQ(1u, machine.child("a").signals.size());
  EXPECT_EQ(SIGTERM, machine.child("a").signals[0]);
  EXPECT_FALSE(done(stopped));
  advance(1 * kj::MILLISECONDS);
  EXPECT_TRUE(done(stopped));
  EXPECT_FALSE(machine.runs("a"));
  EXPECT_EQ(rpc::ServiceState::FINISHED, state("a"));
  advance(60 * kj::SECONDS);
  EXPECT_FALSE(machine.runs("a"));  // and it is not restarted
}

// Catches: a machine that reports no problem although its kubelet was stopped.
TEST_F(SupervisorTest, AStoppedServiceIsAProblem) {
  supervisor->load(define("a"));
  EXPECT_THAT(supervisor->problems(), testing::IsEmpty()) << "nobody has started it";
  supervisor->start("a");
  run();
  EXPECT_THAT(supervisor->problems(), testing::IsEmpty());
  auto stopped = supervisor->stop("a");
  run();
  ASSERT_EQ(1u, supervisor->problems().size());
  EXPECT_EQ("service a is stopped: talosctl service a start"_kj, supervisor->problems()[0]);
  supervisor->start("a");
  run();
  EXPECT_THAT(supervisor->problems(), testing::IsEmpty());
}

// Catches: a stop that waits for ever for a process that even SIGKILL does not end.
TEST_F(SupervisorTest, StopOfTheUnkillableSaysSo) {
  machine.diesOf = [](auto&, int) { return false; };
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  auto stopped = supervisor->stop("a");
  advance(21 * kj::SECONDS);
  ASSERT_TRUE(stopped.poll(scope));
  try {
    stopped.wait(scope);
    FAIL() << "resolved";
  } catch (const kj::Exception& e) {
    EXPECT_EQ(ErrorKind::kDeadlineExceeded, kindOf(e));
    EXPECT_THAT(messageOf(e).cStr(), HasSubstr("PID 100"));
  }
}

// Catches: a stop during the pause before a restart that does not stop the restart.
TEST_F(SupervisorTest, StopDuringThePause) {
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  machine.exit("a", 0);
  run();
  machine.exit("a", 0);
  run();
  auto stopped = supervisor->stop("a");
  EXPECT_TRUE(done(stopped));
  advance(60 * kj::SECONDS);
  EXPECT_FALSE(machine.runs("a"));
}

// Catches: a stop that overtakes a start under way and leaves the child running.
TEST_F(SupervisorTest, StopDuringTheStart) {
  supervisor->load(define("a"));
  supervisor->start("a");
  auto stopped = supervisor->stop("a");  // process 1 has not answered yet
  EXPECT_TRUE(done(stopped));
  EXPECT_FALSE(machine.runs("a"));
  EXPECT_EQ(rpc::ServiceState::FINISHED, state("a"));
}

// Catches: an apid that outlives the network it depends on, or a stop order by name.
TEST_F(SupervisorTest, StopAllGoesFromDependantsDown) {
  machine.diesOf = [](auto&, int) { return false; };
  supervisor->load(define("a"));
  supervisor->load(define("b", {"a"}));
  supervisor->load(define("c", {"b"}));
  for (auto id : {"a", "b", "c"}) supervisor->start(id);
  run();
  auto stopped = supervisor->stopAll();
  run();
  EXPECT_EQ(1u, machine.child("c").signals.size());
  EXPECT_EQ(0u, machine.child("b").signals.size());
  machine.exit("c", 0);
  run();
  EXPECT_EQ(1u, machine.child("b").signals.size());
  EXPECT_EQ(0u, machine.child("a").signals.size());
  machine.exit("b", 0);
  run();
  machine.exit("a", 0);
  EXPECT_TRUE(done(stopped));
  EXPECT_ANY_THROW(supervisor->start("a"));
  EXPECT_EQ(3u, machine.spawns);
}

// Catches: a service that is restarted while the machine shuts down, because its restart was under
// way.
TEST_F(SupervisorTest, StopAllEndsARestartThatIsUnderWay) {
  machine.diesOf = [](auto&, int) { return false; };
  supervisor->load(define("a"));
  supervisor->load(define("b", {"a"}));
  for (auto id : {"a", "b"}) supervisor->start(id);
  run();
  auto answered = supervisor->restart("a");
  run();
  auto stopped = supervisor->stopAll();  // a's turn comes after b's
  run();
  machine.exit("a", 0);
  run();
  EXPECT_FALSE(machine.runs("a"));
  machine.exit("b", 0);
  EXPECT_TRUE(done(stopped));
  EXPECT_EQ(2u, machine.spawns);
}

// Catches: machined that ends itself before the other services have ended.
TEST_F(SupervisorTest, StopAllLeavesThisProgram) {
  supervisor->loadSelf("machined");
  auto stopped = supervisor->stopAll();
  EXPECT_TRUE(done(stopped));
  EXPECT_EQ(rpc::ServiceState::RUNNING, state("machined"));
}

// Catches: one dependant that does not end and prevents the machine from shutting down.
TEST_F(SupervisorTest, StopAllWaitsThirtySecondsForDependants) {
  machine.diesOf = [](auto& child, int signal) { return child.slot == "a" && signal == SIGTERM; };
  supervisor->load(define("a"));
  supervisor->load(define("b", {"a"}));
  supervisor->start("a");
  supervisor->start("b");
  run();
  auto stopped = supervisor->stopAll();
  advance(29 * kj::SECONDS);
  EXPECT_TRUE(machine.runs("a"));
  advance(1 * kj::SECONDS);
  EXPECT_FALSE(machine.runs("a"));
}

// Catches: a start that is lost because the service was still stopping; a stop that does not cancel
// the start.
TEST_F(SupervisorTest, StartWhileStopping) {
  machine.diesOf = [](auto&, int) { return false; };
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  auto stopped = supervisor->stop("a");
  supervisor->start("a");
  machine.exit("a", 0);
  run();
  EXPECT_EQ(2u, machine.spawns);
  auto again = supervisor->stop("a");
  supervisor->start("a");
  auto third = supervisor->stop("a");
  machine.exit("a", 0);
  run();
  EXPECT_EQ(2u, machine.spawns);
}

}  // namespace
}  // namespace talos::machined
