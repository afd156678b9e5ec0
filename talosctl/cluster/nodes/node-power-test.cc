#include "talosctl/cluster/nodes/node-power.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/error.h"

namespace talos::cluster {
namespace {

using rpc::PowerAction;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Node;

class ModelInstance final : public Instance {
 public:
  explicit ModelInstance(Node& node);
  ~ModelInstance() noexcept(false) override;
  int pid() const override { return 7; }
  kj::Promise<End> onEnd() override;
  kj::Promise<void> shutDown() override;
  void kill() override;
  void pause() override;
  void resume() override;

 private:
  Node& node;
};

// A node under test, the calls to its runs, and the time.
struct Node {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::vector<std::string> events;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<End>>> running;
  bool failsToStart = false, failsToShutDown = false;
  bool diesOfKill = true;
  kj::Own<NodePower> power = kj::heap<NodePower>(timer, kj::str("n"), [this] {
    if (failsToStart) fail(ErrorKind::kFailedPrecondition, "no image");
    return kj::Own<Instance>(kj::heap<ModelInstance>(*this));
  });

  void end(End::Kind kind, kj::StringPtr how = "x") {
    auto fulfiller = kj::mv(KJ_ASSERT_NONNULL(running));
    running = nullptr;
    fulfiller->fulfill(End{kind, kj::str(how)});
    scope.poll();
  }
  void pass(kj::Duration time) {
    timer.advanceTo(timer.now() + time);
    scope.poll();
  }
  // Returns "ok", "waiting", or the refusal.
  std::string act(PowerAction action) {
    std::string result = "waiting";
    auto done =
        kj::evalNow([&] { return power->act(action); })
            .then([&] { result = "ok"; }, [&](kj::Exception&& e) { result = messageOf(e).cStr(); })
            .eagerlyEvaluate(nullptr);
    scope.poll();
    return result;
  }
  std::string state() {
    scope.poll();
    return kj::str(power->stateName(), power->error().size() > 0 ? ": " : "", power->error())
        .cStr();
  }
  std::vector<std::string> takeEvents() { return std::exchange(events, {}); }
};

ModelInstance::ModelInstance(Node& node) : node(node) {
  node.events.push_back("start");
}
ModelInstance::~ModelInstance() noexcept(false) {
  node.events.push_back("gone");
}
kj::Promise<End> ModelInstance::onEnd() {
  auto pair = kj::newPromiseAndFulfiller<End>();
  node.running = kj::mv(pair.fulfiller);
  return kj::mv(pair.promise);
}
kj::Promise<void> ModelInstance::shutDown() {
  if (node.failsToShutDown) return error(ErrorKind::kUnavailable, "no monitor");
  node.events.push_back("shut down");
  return kj::READY_NOW;
}
void ModelInstance::kill() {
  node.events.push_back("kill");
  if (!node.diesOfKill) return;
  KJ_IF_MAYBE (fulfiller, node.running) {
    (*fulfiller)->fulfill(End{End::Kind::kFailed, kj::str("killed by signal 9")});
  }
  node.running = nullptr;
}
void ModelInstance::pause() {
  node.events.push_back("pause");
}
void ModelInstance::resume() {
  node.events.push_back("resume");
}

// Catches: an action that is performed in a state that does not allow it, or refused in a state
// that does; a refusal without a remedy.
TEST(NodePower, EachActionInEachState) {
  struct Row {
    PowerAction action;
    const char *running, *paused, *off;
  } rows[] = {
      {PowerAction::START, "n is already running", "n is paused; resume it", "ok"},
      {PowerAction::STOP, "waiting", "n is paused; resume it first, or kill it",
       "n is already off"},
      {PowerAction::KILL, "ok", "ok", "n is already off"},
      {PowerAction::PAUSE, "ok", "n is already paused", "n is off"},
      {PowerAction::RESUME, "n is not paused", "ok", "n is off; start it"},
      {PowerAction::RESET, "ok", "ok", "n is off; start it"},
  };
  for (auto& row : rows) {
    auto answer = [&](std::vector<PowerAction> before, bool fails = false) {
      Node node;
      for (auto action : before) node.act(action);
      if (fails) node.end(End::Kind::kFailed);
      return node.act(row.action);
    };
    EXPECT_EQ(answer({}), row.off) << int(row.action);
    EXPECT_EQ(answer({PowerAction::START}, true), row.off) << int(row.action);
    EXPECT_EQ(answer({PowerAction::START}), row.running) << int(row.action);
    EXPECT_EQ(answer({PowerAction::START, PowerAction::PAUSE}), row.paused) << int(row.action);
  }
}

// Catches: a run that is left over, two runs at once, a requested end that counts as a failure.
TEST(NodePower, KilledIsOffAndResetIsANewRun) {
  Node node;
  node.act(PowerAction::START);
  EXPECT_EQ(node.act(PowerAction::KILL), "ok");
  EXPECT_EQ(node.state(), "off");
  EXPECT_THAT(node.takeEvents(), ElementsAre("start", "kill", "gone"));
  node.act(PowerAction::START);
  EXPECT_EQ(node.act(PowerAction::RESET), "ok");
  EXPECT_EQ(node.state(), "running");
  EXPECT_THAT(node.takeEvents(), ElementsAre("start", "kill", "gone", "start"));
}

// Catches: a kill that is answered before the node has ended.
TEST(NodePower, AKillIsAnsweredWhenItHasHappened) {
  Node node;
  node.diesOfKill = false;
  node.act(PowerAction::START);
  EXPECT_EQ(node.act(PowerAction::KILL), "waiting");
  EXPECT_EQ(node.state(), "running");
  node.end(End::Kind::kFailed);
  EXPECT_EQ(node.state(), "off");
}

// Catches: a power off that counts as a crash, a crash that counts as a power off, a lost reason.
TEST(NodePower, HowItEndedIsItsState) {
  Node node;
  node.act(PowerAction::START);
  node.end(End::Kind::kOff);
  EXPECT_EQ(node.state(), "off");
  node.act(PowerAction::START);
  node.end(End::Kind::kFailed, "process 1 killed by signal 11");
  EXPECT_EQ(node.state(), "failed: process 1 killed by signal 11");
  node.act(PowerAction::START);
  EXPECT_EQ(node.state(), "running") << "the reason of the run before";
}

// Catches: a reboot that leaves the node off, a reboot that is delayed by a second without need, a
// node that reboots at once and is started thousands of times in a second.
TEST(NodePower, ARebootIsANewRun) {
  Node node;
  node.act(PowerAction::START);
  node.pass(2 * kj::SECONDS);
  node.end(End::Kind::kReboot);
  EXPECT_THAT(node.takeEvents(), ElementsAre("start", "gone", "start"));
  node.end(End::Kind::kReboot);
  EXPECT_THAT(node.takeEvents(), ElementsAre("gone"));
  EXPECT_EQ(node.state(), "running");
  EXPECT_EQ(node.act(PowerAction::PAUSE), "n is rebooting; try again");
  node.pass(1 * kj::SECONDS);
  EXPECT_THAT(node.takeEvents(), ElementsAre("start"));
}

// Catches: a node that starts again after its power was cut between two runs.
TEST(NodePower, AKillBetweenTwoRunsLasts) {
  Node node;
  node.act(PowerAction::START);
  node.end(End::Kind::kReboot);
  EXPECT_EQ(node.act(PowerAction::KILL), "ok");
  node.pass(2 * kj::SECONDS);
  EXPECT_EQ(node.state(), "off");
  EXPECT_THAT(node.takeEvents(), ElementsAre("start", "gone"));
}

// Catches: a failed start that is reported as good, a reboot into a failure that is not reported.
TEST(NodePower, AStartThatFailsIsSaid) {
  Node node;
  node.failsToStart = true;
  EXPECT_EQ(node.act(PowerAction::START), "no image");
  EXPECT_EQ(node.state(), "failed: no image");
  node.failsToStart = false;
  node.act(PowerAction::START);
  node.pass(2 * kj::SECONDS);
  node.failsToStart = true;
  node.end(End::Kind::kReboot);
  EXPECT_EQ(node.state(), "failed: no image");
}

// Catches: a stop that is answered early or cuts the power.
TEST(NodePower, AStopIsOrderly) {
  Node node;
  node.act(PowerAction::START);
  EXPECT_EQ(node.act(PowerAction::STOP), "waiting");
  EXPECT_THAT(node.takeEvents(), ElementsAre("start", "shut down"));
  node.end(End::Kind::kOff);
  EXPECT_EQ(node.state(), "off");
}

// Catches: a stop that meets the end of a reboot and is lost: the node starts again, and the stop
// is never answered.
TEST(NodePower, AStopDuringARebootIsAStop) {
  Node node;
  node.act(PowerAction::START);
  node.pass(2 * kj::SECONDS);
  bool answered = false;
  auto stop =
      node.power->act(PowerAction::STOP).then([&] { answered = true; }).eagerlyEvaluate(nullptr);
  node.scope.poll();
  node.end(End::Kind::kReboot);
  EXPECT_EQ(node.state(), "off");
  EXPECT_TRUE(answered);
  EXPECT_THAT(node.takeEvents(), ElementsAre("start", "shut down", "gone"));
  node.act(PowerAction::START);
  node.pass(2 * kj::SECONDS);
  node.end(End::Kind::kReboot);
  EXPECT_EQ(node.state(), "running") << "the stop was of the run before";
}

// Catches: a node that did not receive the stop request and does not start again after its next
// reboot.
TEST(NodePower, AStopThatDoesNotArriveChangesNothing) {
  Node node;
  node.failsToShutDown = true;
  node.act(PowerAction::START);
  node.pass(2 * kj::SECONDS);
  EXPECT_EQ(node.act(PowerAction::STOP), "no monitor");
  node.end(End::Kind::kReboot);
  EXPECT_EQ(node.state(), "running");
}

// Catches: a stop that is never answered, or that cuts the power when it takes long.
TEST(NodePower, AStopThatTakesTooLongIsSaidAndGoesOn) {
  Node slow;
  slow.act(PowerAction::START);
  std::string answer;
  auto stop =
      slow.power->act(PowerAction::STOP)
          .then([&] { answer = "ok"; }, [&](kj::Exception&& e) { answer = messageOf(e).cStr(); })
          .eagerlyEvaluate(nullptr);
  slow.scope.poll();
  slow.pass(59 * kj::SECONDS);
  EXPECT_EQ(answer, "");
  slow.pass(1 * kj::SECONDS);
  EXPECT_THAT(answer, HasSubstr("did not shut down within 60 s; `talosctl cluster node kill`"));
  EXPECT_EQ(slow.state(), "running");
}

}  // namespace
}  // namespace talos::cluster
