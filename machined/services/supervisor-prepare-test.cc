// Services that are prepared before each start.
#include "machined/services/test-supervisor.h"

namespace talos::machined {
namespace {

using testing::Contains;
using testing::HasSubstr;

struct PrepareTest : public SupervisorTest {
  ~PrepareTest() noexcept override {}
  int prepared = 0, dropped = 0;
  kj::Own<kj::PromiseFulfiller<void>> ready;
  kj::String argument = kj::str("--first");

  void load() {
    auto d = define("p");
    d.prepare = [this](kj::Function<void(kj::StringPtr)> note) -> kj::Promise<void> {
      ++prepared;
      note("Waiting for a cluster");
      auto paf = kj::newPromiseAndFulfiller<void>();
      ready = kj::mv(paf.fulfiller);
      return kj::mv(paf.promise).attach(kj::defer([this]() { ++dropped; }));
    };
    d.arguments = [this]() { return kj::arr(kj::str(argument)); };
    supervisor->load(kj::mv(d));
  }
  kj::String lastArgument() {
    auto& argv = machine.child("p").argv;
    return kj::str(argv[argv.size() - 1]);
  }
};

// Catches: a process that starts before its dependencies exist; a process with the arguments of an
// earlier start; a process that ends by itself and is restarted without preparation.
TEST_F(PrepareTest, BeforeEachStart) {
  load();
  supervisor->start("p");
  run();
  EXPECT_EQ(1, prepared);
  EXPECT_FALSE(machine.runs("p"));
  EXPECT_EQ(rpc::ServiceState::PREPARING, state("p"));
  EXPECT_THAT(events, Contains("p Preparing Waiting for a cluster"));
  ready->fulfill();
  run();
  ASSERT_TRUE(machine.runs("p"));
  EXPECT_EQ("--first", lastArgument());

  argument = kj::str("--second");
  machine.exit("p", 0);
  advance(10 * kj::SECONDS);
  EXPECT_EQ(2, prepared);
  EXPECT_FALSE(machine.runs("p"));
  EXPECT_EQ(rpc::ServiceState::PREPARING, state("p"));
  // No environment is made yet that others could wait for.
  auto waiting = supervisor->whenStarted("p");
  EXPECT_TRUE(done(waiting));
  ready->fulfill();
  advance(1 * kj::SECONDS);
  ASSERT_TRUE(machine.runs("p"));
  EXPECT_EQ("--second", lastArgument());
}

// Catches: a preparation that cannot be ended.
TEST_F(PrepareTest, AStopEndsIt) {
  load();
  for (bool again : {false, true}) {
    supervisor->start("p");
    run();
    if (again) {
      ready->fulfill();
      run();
      machine.exit("p", 0);
      advance(10 * kj::SECONDS);
    }
    EXPECT_FALSE(machine.runs("p"));
    auto stopped = supervisor->stop("p");
    EXPECT_TRUE(done(stopped));
    EXPECT_EQ(prepared, dropped);
    EXPECT_EQ(rpc::ServiceState::FINISHED, state("p"));
  }
}

// Catches: a brain that waits for its predecessor's preparation, and never runs its own.
TEST_F(PrepareTest, ASuccessorPreparesItAgain) {
  load();
  supervisor->start("p");
  run();
  crashBrain();
  load();
  run();
  EXPECT_EQ(2, prepared);
  ready->fulfill();
  run();
  EXPECT_TRUE(machine.runs("p"));
  crashBrain();
  load();
  run();
  EXPECT_EQ(2, prepared) << "it runs";
}

// Catches: a start of the image's program although a developer has replaced it; a debugger that is
// attached too late; orders that stay after they were withdrawn.
TEST_F(PrepareTest, ADevelopersOrdersAreForTheNextStart) {
  DebugOrder order;
  auto d = define("d");
  d.argv = kj::arr(kj::str("/confine"), kj::str("--"), kj::str("/usr/bin/d"));
  d.debugOrder = [&]() {
    return DebugOrder{order.program.map([](auto& path) { return kj::str(path); }), order.stop};
  };
  supervisor->load(kj::mv(d));
  auto started = [&]() {
    run();
    return kj::strArray(machine.child("d").argv, " ");
  };
  supervisor->start("d");
  EXPECT_EQ("/confine -- /usr/bin/d", started());
  order = DebugOrder{kj::str("/run/other"), true};
  EXPECT_EQ("/confine -- /usr/bin/d", started());
  supervisor->restart("d").wait(scope);
  EXPECT_EQ("/confine --stop=first -- /run/other", started());
  EXPECT_THAT(events, Contains(HasSubstr("Started /run/other")));
  order = DebugOrder();
  supervisor->restart("d").wait(scope);
  EXPECT_EQ("/confine -- /usr/bin/d", started());
}

}  // namespace
}  // namespace talos::machined
