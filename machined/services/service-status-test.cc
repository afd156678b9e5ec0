#include "machined/services/service-status.h"

#include <gmock/gmock.h>

#include "machined/services/test-service-set.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;

kj::String numbersOf(const DueRequests& due, int pid) {
  return kj::strArray(due.signalsFor(pid), " ");
}

// Catches: a signal that is sent to a later process, a due signal that is lost or sent twice, and a
// number that is one off.
TEST(DueRequests, SignalsAreForOneProcess) {
  DueRequests due;
  EXPECT_TRUE(due.empty());
  EXPECT_EQ("", numbersOf(due, 0));
  due.addSignal(15, 7);
  due.addSignal(1, 7);
  due.addSignal(64, 7);
  due.addSignal(15, 7);
  EXPECT_FALSE(due.empty());
  EXPECT_EQ("1 15 64", numbersOf(due, 7));
  EXPECT_EQ("", numbersOf(due, 8));
  due.addSignal(2, 8);
  EXPECT_EQ("", numbersOf(due, 7));
  EXPECT_EQ("2", numbersOf(due, 8));
}

// Catches: a due restart that the next brain does not carry out, because no signal is due.
TEST(DueRequests, ARestartAloneIsDue) {
  DueRequests due;
  due.restart = true;
  EXPECT_FALSE(due.empty());
}

class ServiceStatusTest : public testing::Test {
 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  FakeMachine machine;
  ServiceDefinition definition;
  kj::Own<TestServiceSet> all;
  kj::Own<ServiceStatus> status;

  ServiceStatusTest() {
    definition.id = kj::str("a");
    startBrain();
  }
  ~ServiceStatusTest() noexcept override { endBrain(); }

  void startBrain() {
    all = kj::heap<TestServiceSet>(machine);
    status = kj::heap<ServiceStatus>(*all, definition);
  }
  void endBrain() {
    status = nullptr;
    all = nullptr;
  }
  void crashBrain() {
    scope.poll();
    endBrain();
    startBrain();
  }
};

// Catches: a start that the next brain forgets because the service had no process yet, and a start
// without a request.
TEST_F(ServiceStatusTest, TheNextBrainFindsAStartUntilThereIsAProcess) {
  struct {
    ServicePhase phase;
    bool start;
  } rows[] = {
      {ServicePhase::kIdle, false},       {ServicePhase::kWaiting, true},
      {ServicePhase::kPreparing, true},   {ServicePhase::kStarting, true},
      {ServicePhase::kRunning, false},    {ServicePhase::kPausing, false},
      {ServicePhase::kRestarting, false}, {ServicePhase::kDooming, false},
      {ServicePhase::kStopping, false},   {ServicePhase::kKilling, false},
      {ServicePhase::kFinished, false},   {ServicePhase::kFailed, false},
      {ServicePhase::kSeeking, false},
  };
  static_assert(kj::size(rows) == kServicePhases);
  for (auto& row : rows) {
    SCOPED_TRACE(static_cast<int>(row.phase));
    for (bool requested : {false, true}) {
      status->startWhenDown = requested;
      status->enter(row.phase);
      status->kept().wait(scope);
      crashBrain();
      ASSERT_TRUE(status->restore());
      EXPECT_EQ(row.start || requested, status->startWhenDown);
    }
  }
}

// Catches: requests, a PID or a history that a crash of the brain loses.
TEST_F(ServiceStatusTest, TheNextBrainFindsWhatTheLastEventHeld) {
  EXPECT_FALSE(status->restore());
  status->enter(ServicePhase::kRunning);
  status->pid = 7;
  status->memoryKills = 3;
  status->due.restart = true;
  status->due.addSignal(1, 7);
  status->addEvent("Started a");
  crashBrain();
  ASSERT_TRUE(status->restore());
  EXPECT_EQ(rpc::ServiceState::RUNNING, status->lastState());
  EXPECT_EQ("Started a"_kj, status->lastMessage());
  EXPECT_EQ(ServicePhase::kIdle, status->phase());
  EXPECT_EQ(7, status->pid);
  EXPECT_EQ(3u, status->memoryKills);
  EXPECT_TRUE(status->due.restart);
  EXPECT_EQ("1", numbersOf(status->due, 7));
}

// Catches: an unloaded part that the next brain takes for a stopped one, and never starts.
TEST_F(ServiceStatusTest, AnUnloadedServiceLeavesNothing) {
  status->addEvent("Started a");
  scope.poll();
  status->unload("Service unloaded: gone");
  status->kept().wait(scope);
  EXPECT_TRUE(status->cannotBe());
  crashBrain();
  EXPECT_FALSE(status->restore());
}

// Catches: an event of work that has been replaced, in the state of the work that replaced it.
TEST_F(ServiceStatusTest, EventsOfAnEarlierTurnAreDropped) {
  status->enter(ServicePhase::kPreparing);
  auto note = status->eventsOf(status->turn());
  note("pulling");
  status->enter(ServicePhase::kFinished);
  note("pulled");
  EXPECT_THAT(all->events, ElementsAre("Preparing pulling"));
}

// Catches: a restart that pulls an image and is shown as waiting; a service that counts as being
// started for as long.
TEST_F(ServiceStatusTest, PreparationOfARestartIsShown) {
  status->enter(ServicePhase::kRestarting);
  EXPECT_TRUE(status->isBeingStarted());
  status->preparing = true;
  EXPECT_FALSE(status->isBeingStarted());
  status->addEvent("pulling");
  status->preparing = false;
  status->addEvent("starting");
  EXPECT_THAT(all->events, ElementsAre("Preparing pulling", "Waiting starting"));
}

}  // namespace
}  // namespace talos::machined
