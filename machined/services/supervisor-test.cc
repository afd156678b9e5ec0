#include "machined/services/test-supervisor.h"

#include "machined/services/service-record.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Catches: events that are missing, repeated, or in another order than documented.
TEST_F(SupervisorTest, StartsThroughItsStates) {
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  EXPECT_THAT(events, ElementsAre("a Initialized Service loaded", "a Preparing Running pre state",
                                  "a Preparing Creating service runner",
                                  "a Running Started /usr/bin/a (PID 100)"));
  EXPECT_TRUE(machine.runs("a"));
  EXPECT_TRUE(supervisor->isUp("a"));
}

// Catches: an environment from the time at which the service was loaded.
TEST_F(SupervisorTest, TheEnvironmentIsThatOfTheStart) {
  auto d = define("a");
  d.environment = kj::arr(kj::str("OWN=1"));
  supervisor->load(kj::mv(d));
  for (auto value : {"PROXY=x"_kj, "PROXY=y"_kj}) {
    configured = value;
    supervisor->start("a");
    run();
    auto& environment = machine.child("a").environment;
    ASSERT_EQ(2u, environment.size());
    EXPECT_EQ("a1", environment[0]);
    EXPECT_EQ(value, environment[1]);
    auto stopped = supervisor->stop("a");
    EXPECT_TRUE(done(stopped));
  }
}

// Catches: a start of a running service that makes a second process.
TEST_F(SupervisorTest, StartTwiceIsOnce) {
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  supervisor->start("a");
  run();
  EXPECT_EQ(1u, machine.spawns);
}

// Catches: a waiting line each second, items that do not vanish, a condition that only its poll
// notices.
TEST_F(SupervisorTest, WaitingIsAnEventWhenItsTextChanges) {
  Flag flag;
  auto c = define("c", {"a", "b"});
  c.conditions.add(kj::heap<FlagRef>(flag));
  supervisor->load(define("a"));
  supervisor->load(define("b"));
  supervisor->load(kj::mv(c));
  events.clear();
  supervisor->start("c");
  advance(5 * kj::SECONDS);
  EXPECT_THAT(events,
              ElementsAre("c Waiting Waiting for flag to be set, service \"a\" to be \"up\", "
                          "service \"b\" to be \"up\""));
  events.clear();
  supervisor->start("a");
  run();
  EXPECT_EQ("c Waiting Waiting for flag to be set, service \"b\" to be \"up\"", events.back());
  supervisor->start("b");
  run();
  EXPECT_EQ("c Waiting Waiting for flag to be set", events.back());
  flag.value = true;
  run();
  EXPECT_FALSE(machine.runs("c"));  // there is no notification of a new file: the poll must find it
  advance(1 * kj::SECONDS);
  EXPECT_TRUE(machine.runs("c"));
}

// Catches: a service whose environment is read before it exists, and a wait for a service that is
// not being started.
TEST_F(SupervisorTest, AStartThatIsUnderWayIsAwaited) {
  supervisor->load(define("a"));
  supervisor->load(define("b", {"a"}));
  auto idle = supervisor->whenStarted("a");
  EXPECT_TRUE(done(idle));
  auto paf = kj::newPromiseAndFulfiller<void>();
  machine.spawnGate = kj::mv(paf.promise);
  supervisor->start("a");
  supervisor->start("b");
  run();
  auto started = supervisor->whenStarted("a"), waiting = supervisor->whenStarted("b");
  run();
  EXPECT_TRUE(done(waiting));
  EXPECT_FALSE(done(started));
  paf.fulfiller->fulfill();
  EXPECT_TRUE(done(started));
}

// Catches: a service that starts together with a service that should have the processors, a service
// that never starts because the other never comes up, and a wait for a service that was not
// started.
TEST_F(SupervisorTest, GivesWayForAWhile) {
  auto unhealthy = define("first");
  unhealthy.health = HealthCheck{[] { return kj::Promise<void>(KJ_EXCEPTION(FAILED, "no")); }};
  auto second = define("second", {"base"});
  second.givesWayTo.add(kj::str("first"));
  second.givesWayTo.add(kj::str("unknown"));
  second.givesWayTo.add(kj::str("idle"));
  second.givesWayFor = 5 * kj::SECONDS;
  supervisor->load(define("base"));
  supervisor->load(define("idle"));
  supervisor->load(kj::mv(unhealthy));
  supervisor->load(kj::mv(second));
  supervisor->start("first");
  supervisor->start("second");
  advance(10 * kj::SECONDS);  // the time starts when all other conditions are met
  events.clear();
  supervisor->start("base");
  run();
  EXPECT_EQ("second Waiting Waiting for service \"first\" to be \"up\", for at most 5 s",
            events.back());
  advance(4999 * kj::MILLISECONDS);
  EXPECT_FALSE(machine.runs("second"));
  advance(1 * kj::MILLISECONDS);
  EXPECT_TRUE(machine.runs("second"));
}

// Catches: a service that starts with a wrong clock although the time is available soon; a service
// that never starts if no time server answers; a text that differs from Talos'.
TEST_F(SupervisorTest, WaitsForWhatItCanDoWithout) {
  bool good = false;
  auto timed = [&](kj::StringPtr id) {
    auto d = define(id);
    d.health = HealthCheck{[&good]() -> kj::Promise<void> {
                             if (!good) return KJ_EXCEPTION(FAILED, "no");
                             return kj::READY_NOW;
                           },
                           100 * kj::MILLISECONDS, 100 * kj::MILLISECONDS};
    return d;
  };
  auto waiting = [&](kj::StringPtr id, kj::StringPtr on) {
    auto d = define(id, {"base"});
    d.waitsFor.add(kj::str(on));
    d.waitsFor.add(kj::str("unknown"));
    return d;
  };
  supervisor->load(define("base"));
  supervisor->load(timed("timed"));
  supervisor->load(waiting("soon", "timed"));
  supervisor->load(waiting("never", "timed"));
  supervisor->load(waiting("idle", "never loaded"));
  supervisor->start("timed");
  events.clear();
  supervisor->start("soon");
  run();
  EXPECT_THAT(events, testing::Contains("soon Waiting Waiting for service \"base\" to be \"up\", "
                                        "service \"timed\" to be \"up\", for at most 30 s"));
  advance(40 * kj::SECONDS);  // the time starts when all other conditions are met
  supervisor->start("base");
  supervisor->start("idle");
  run();
  EXPECT_TRUE(machine.runs("idle"));
  EXPECT_THAT(events, testing::Contains("soon Waiting Waiting for service \"timed\" to be "
                                        "\"up\", for at most 30 s"));
  advance(29 * kj::SECONDS);
  EXPECT_FALSE(machine.runs("soon"));
  good = true;
  advance(200 * kj::MILLISECONDS);
  EXPECT_TRUE(machine.runs("soon"));

  good = false;
  advance(5 * kj::SECONDS);
  supervisor->start("never");
  advance(29 * kj::SECONDS);
  EXPECT_FALSE(machine.runs("never"));
  events.clear();
  advance(1 * kj::SECONDS);
  EXPECT_TRUE(machine.runs("never"));
  EXPECT_EQ("never Waiting Starting without waiting any longer for service \"timed\" to be \"up\"",
            events.front());

  // A service that has run once is needed again at once.
  auto restarted = supervisor->restart("never");
  machine.exit("never", 0);
  run();
  EXPECT_TRUE(machine.runs("never"));
}

// Catches: a pause although no service with precedence is starting any more.
TEST_F(SupervisorTest, GivesWayUntilTheOtherIsUp) {
  bool good = false;
  auto first = define("first");
  first.health = HealthCheck{[&good]() -> kj::Promise<void> {
                               if (!good) return KJ_EXCEPTION(FAILED, "no");
                               return kj::READY_NOW;
                             },
                             100 * kj::MILLISECONDS, 100 * kj::MILLISECONDS};
  auto second = define("second");
  second.givesWayTo.add(kj::str("first"));
  supervisor->load(kj::mv(first));
  supervisor->load(kj::mv(second));
  supervisor->start("first");
  supervisor->start("second");
  advance(250 * kj::MILLISECONDS);
  EXPECT_FALSE(machine.runs("second"));
  good = true;
  advance(100 * kj::MILLISECONDS);
  EXPECT_TRUE(machine.runs("second"));
}

// Catches: an exit that is reported before the start is, and forgotten: a service that counts as
// running for ever.
TEST_F(SupervisorTest, AChildThatIsGoneBeforeItsStartIsReported) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  machine.spawnGate = kj::mv(paf.promise);
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  ASSERT_TRUE(machine.runs("a"));
  machine.exit("a", 3 << 8);
  run();
  EXPECT_EQ(rpc::ServiceState::PREPARING, state("a"));
  events.clear();
  paf.fulfiller->fulfill();
  run();
  EXPECT_THAT(events, ElementsAre("a Running Started /usr/bin/a (PID 100)",
                                  "a Waiting Process (PID 100) exited with status 3; restarting",
                                  "a Running Started /usr/bin/a (PID 101)"));
}

// Catches: a killed service that waits before its first restart, and a service that is restarted in
// a busy loop.
TEST_F(SupervisorTest, RestartsAtOnceThenLaterAndLater) {
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  machine.exit("a", SIGKILL);
  run();  // no time passes
  EXPECT_TRUE(machine.runs("a"));
  EXPECT_EQ("a Running Started /usr/bin/a (PID 101)", events.back());
  EXPECT_EQ("a Waiting Process (PID 100) killed by signal 9 (Killed); restarting",
            events[events.size() - 2]);
  machine.exit("a", 3 << 8);
  run();
  EXPECT_EQ("a Waiting Process (PID 101) exited with status 3; restarting in 0.1 s", events.back());
  advance(99 * kj::MILLISECONDS);
  EXPECT_FALSE(machine.runs("a"));
  advance(1 * kj::MILLISECONDS);
  EXPECT_TRUE(machine.runs("a"));
  advance(10 * kj::SECONDS);
  machine.exit("a", 0);
  run();
  EXPECT_TRUE(machine.runs("a"));
}

// Catches: a failed exec that is retried for ever, or that fails without its reason.
TEST_F(SupervisorTest, AFirstStartThatFailsIsFinal) {
  supervisor->load(define("a"));
  machine.failNextSpawn = kj::str("exec /usr/bin/a: No such file or directory");
  supervisor->start("a");
  run();
  EXPECT_THAT(events.back(),
              HasSubstr("a Failed Cannot start /usr/bin/a: exec /usr/bin/a: No such"));
  advance(60 * kj::SECONDS);
  EXPECT_EQ(1u, machine.spawns);
  auto up = supervisor->whenUp("a");
  run();
  EXPECT_TRUE(up.poll(scope));
  EXPECT_ANY_THROW(up.wait(scope));
  supervisor->start("a");
  run();
  EXPECT_TRUE(machine.runs("a"));
}

// Catches: a restart that meets a passing error (no memory) and gives the service up.
TEST_F(SupervisorTest, ALaterStartThatFailsIsTriedAgain) {
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  machine.failNextSpawn = kj::str("fork: Cannot allocate memory");
  machine.exit("a", 0);
  run();
  EXPECT_EQ(rpc::ServiceState::WAITING, state("a"));
  EXPECT_THAT(events.back(), HasSubstr("Cannot allocate memory; restarting in 0.1 s"));
  advance(1 * kj::SECONDS);
  EXPECT_TRUE(machine.runs("a"));
}

// Catches: an unknown ID that causes a crash or an invented answer.
TEST_F(SupervisorTest, UnknownIds) {
  try {
    supervisor->start("nope");
    FAIL();
  } catch (const kj::Exception& e) {
    EXPECT_EQ(ErrorKind::kNotFound, kindOf(e));
    EXPECT_THAT(messageOf(e).cStr(), HasSubstr("\"nope\""));
  }
}

// Catches: a history that grows without limit or drops the newest event.
TEST_F(SupervisorTest, HistoryKeepsTheNewest64) {
  supervisor->load(define("a"));
  supervisor->start("a");
  for (int i = 0; i < 60; i++) {
    advance(11 * kj::SECONDS);
    machine.exit("a", i << 8);
    run();
  }
  capnp::MallocMessageBuilder m;
  auto s = m.initRoot<rpc::Service>();
  supervisor->fill("a", s);
  ASSERT_EQ(64u, s.getEvents().size());
  EXPECT_EQ(kj::str("Started /usr/bin/a (PID ", s.getPid(), ")"), s.getEvents()[63].getMessage());
  EXPECT_LE(s.getEvents()[0].getTime(), s.getEvents()[63].getTime());
}

// Catches: an event whose age is lost with the brain, or is measured by a clock that can be set.
TEST_F(SupervisorTest, EventsHaveTheirAge) {
  advance(7 * kj::SECONDS);
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  advance(5 * kj::SECONDS);
  capnp::MallocMessageBuilder m, again;
  auto s = m.initRoot<rpc::Service>();
  supervisor->fill("a", s);
  auto last = s.getEvents()[s.getEvents().size() - 1];
  constexpr uint64_t kFive = 5'000'000'000;
  EXPECT_EQ(kFive, s.getUptime() - last.getUptime());
  ServiceRecord successor;
  successor.restore(s);
  auto restored = again.initRoot<rpc::Service>();
  successor.fill(restored);
  EXPECT_EQ(last.getUptime(), restored.getEvents()[s.getEvents().size() - 1].getUptime());
}

// Catches: starts that are counted for each message of a running service, or forgotten by a new
// brain.
TEST(ServiceRecordTest, CountsStarts) {
  ServiceRecord record;
  auto add = [](ServiceRecord& to, rpc::ServiceState state) {
    to.add(state, "", kj::UNIX_EPOCH, kj::origin<kj::TimePoint>());
  };
  auto starts = [](const ServiceRecord& of) {
    capnp::MallocMessageBuilder message;
    auto service = message.initRoot<rpc::Service>();
    of.fill(service);
    return service.getStarts();
  };
  EXPECT_EQ(0u, starts(record));
  for (auto state : {rpc::ServiceState::WAITING, rpc::ServiceState::RUNNING,
                     rpc::ServiceState::RUNNING, rpc::ServiceState::FAILED}) {
    add(record, state);
  }
  EXPECT_EQ(1u, starts(record));
  capnp::MallocMessageBuilder message;
  auto held = message.initRoot<rpc::Service>();
  record.fill(held);
  ServiceRecord successor;
  successor.restore(held);
  add(successor, rpc::ServiceState::RUNNING);
  EXPECT_EQ(2u, starts(successor));
}

// Catches: a restart that ends with its caller (who depends on this service), or starts before the
// exit.
TEST_F(SupervisorTest, RestartGoesOnByItself) {
  machine.diesOf = [](auto&, int) { return false; };
  supervisor->load(carrier("a"));
  supervisor->start("a");
  run();
  {
    auto dropped = supervisor->restart("a");
  }
  advance(99 * kj::MILLISECONDS);
  EXPECT_EQ(0u, machine.child("a").signals.size());
  advance(1 * kj::MILLISECONDS);
  EXPECT_EQ(SIGTERM, machine.child("a").signals[0]);
  EXPECT_EQ(1u, machine.spawns);
  machine.exit("a", 0);
  run();
  EXPECT_EQ(2u, machine.spawns);
  EXPECT_TRUE(machine.runs("a"));
  machine.exit("a", 0);  // an ordinary end is still followed by one start, not two
  run();
  EXPECT_EQ(3u, machine.spawns);
}

// Catches: a signal without a process that looks like success, a signal that is answered before it
// is sent.
TEST_F(SupervisorTest, SignalsGoToTheProcess) {
  machine.diesOf = [](auto&, int) { return false; };
  supervisor->load(define("a"));
  EXPECT_ANY_THROW(supervisor->signal("a", SIGHUP).wait(scope));
  supervisor->start("a");
  run();
  supervisor->signal("a", SIGHUP).wait(scope);
  ASSERT_EQ(1u, machine.child("a").signals.size());
  EXPECT_EQ(SIGHUP, machine.child("a").signals[0]);
}

// Catches: an answer that is lost with the service that carries it.
TEST_F(SupervisorTest, WhoCarriesTheAnswerGetsItsSignalLater) {
  machine.diesOf = [](auto&, int) { return false; };
  supervisor->load(carrier("a"));
  supervisor->start("a");
  run();
  supervisor->signal("a", SIGHUP).wait(scope);
  advance(99 * kj::MILLISECONDS);
  EXPECT_EQ(0u, machine.child("a").signals.size());
  advance(1 * kj::MILLISECONDS);
  EXPECT_EQ(SIGHUP, machine.child("a").signals[0]);
  advance(1 * kj::SECONDS);
  EXPECT_EQ(1u, machine.child("a").signals.size());
  // A signal never reaches the next process instead of the intended one.
  supervisor->signal("a", SIGTERM).wait(scope);
  machine.exit("a", 0);
  advance(1 * kj::SECONDS);
  EXPECT_TRUE(machine.runs("a"));
  EXPECT_EQ(0u, machine.child("a").signals.size());
}

// Catches: a crash whose report no event names; a report that is taken although its brain is gone,
// and a report that is named for another exit.
TEST_F(SupervisorTest, NamesTheReportOfACrash) {
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  crash = kj::str("a-1");
  machine.exit("a", SIGSEGV);
  run();
  EXPECT_EQ(
      "a Waiting Process (PID 100) killed by signal 11 (Segmentation fault); crash report a-1; "
      "restarting",
      events[events.size() - 2]);
  machine.exit("a", SIGKILL);
  advance(1 * kj::SECONDS);
  EXPECT_THAT(events[events.size() - 2], testing::Not(HasSubstr("crash report")));

  run();
  supervisor = nullptr;
  process1 = nullptr;
  machine.exit("a", SIGSEGV);
  crash = kj::str("a-2");
  startBrain();
  supervisor->load(define("a"));
  advance(1 * kj::SECONDS);
  EXPECT_THAT(events, testing::Contains(HasSubstr("while machined was away; crash report a-2")));
  EXPECT_TRUE(machine.runs("a"));
}

// Catches: a level that is not shown, that is set without an event, or of a service without a
// level.
TEST_F(SupervisorTest, SetsAndShowsTheLevelOfALog) {
  supervisor->load(define("a"));
  supervisor->load(define("b"));
  auto shown = [&](kj::StringPtr id) {
    capnp::MallocMessageBuilder message;
    auto service = message.initRoot<rpc::Service>();
    supervisor->fill(id, service);
    return service.getLogLevel();
  };
  EXPECT_EQ(rpc::LogLevel::INFO, shown("a"));
  supervisor->setLogLevel("a", rpc::LogLevel::DEBUG);
  EXPECT_EQ(rpc::LogLevel::DEBUG, shown("a"));
  EXPECT_EQ(rpc::LogLevel::INFO, shown("b"));
  EXPECT_EQ("a Initialized Log level set to debug", events.back());
  auto kindOfRefusal = [&](kj::StringPtr id, unsigned level) {
    auto failure = kj::runCatchingExceptions(
        [&]() { supervisor->setLogLevel(id, static_cast<rpc::LogLevel>(level)); });
    return kindOf(KJ_ASSERT_NONNULL(failure));
  };
  EXPECT_EQ(ErrorKind::kFailedPrecondition, kindOfRefusal("b", 1));
  EXPECT_EQ(ErrorKind::kNotFound, kindOfRefusal("c", 1));
  EXPECT_EQ(ErrorKind::kInvalidArgument, kindOfRefusal("a", 9));
}

// Catches: a switch that is not shown, or that is set without an event.
TEST_F(SupervisorTest, SetsAndShowsWhetherCoresAreKept) {
  supervisor->load(define("a"));
  supervisor->load(define("b"));
  auto shown = [&](kj::StringPtr id) {
    capnp::MallocMessageBuilder message;
    auto service = message.initRoot<rpc::Service>();
    supervisor->fill(id, service);
    return service.getKeepsCores();
  };
  EXPECT_FALSE(shown("a"));
  supervisor->setKeepsCores("a", true);
  EXPECT_TRUE(shown("a"));
  EXPECT_FALSE(shown("b"));
  EXPECT_EQ("a Initialized Cores of crashes are kept", events.back());
  supervisor->setKeepsCores("a", false);
  EXPECT_FALSE(shown("a"));
  auto failure = kj::runCatchingExceptions([&]() { supervisor->setKeepsCores("b", true); });
  EXPECT_EQ(ErrorKind::kFailedPrecondition, kindOf(KJ_ASSERT_NONNULL(failure)));
  failure = kj::runCatchingExceptions([&]() { supervisor->setKeepsCores("c", true); });
  EXPECT_EQ(ErrorKind::kNotFound, kindOf(KJ_ASSERT_NONNULL(failure)));
}

// Catches: a service that the kernel killed for memory and that looks as if an operator had killed
// it; a kill that is reported twice, or again after a restart of machined.
TEST_F(SupervisorTest, SaysThatMemoryRanOut) {
  auto limited = [&]() {
    auto d = define("a");
    d.memoryMax = 64 << 20;
    return d;
  };
  supervisor->load(limited());
  supervisor->start("a");
  run();
  EXPECT_EQ(uint64_t(64 << 20), machine.child("a").memoryMax);
  memoryKills = 1;
  machine.exit("a", SIGKILL);
  run();
  EXPECT_EQ("a Waiting Process (PID 100) killed: out of memory (limit 64 MiB); restarting",
            events[events.size() - 2]);
  machine.exit("a", SIGKILL);
  advance(1 * kj::SECONDS);
  EXPECT_THAT(events[events.size() - 2], HasSubstr("killed by signal 9 (Killed); restarting"));
  crashBrain();
  supervisor->load(limited());
  run();
  machine.exit("a", SIGKILL);
  run();
  EXPECT_THAT(events[events.size() - 2], HasSubstr("killed by signal 9 (Killed); restarting"));
  run();
  machine.exit("a", SIGKILL);
  supervisor = nullptr;
  process1 = nullptr;
  memoryKills = 2;
  startBrain();
  supervisor->load(limited());
  EXPECT_EQ("a Waiting Process ended while machined was away (killed: out of memory); restarting",
            events.back());
}

}  // namespace
}  // namespace talos::machined
