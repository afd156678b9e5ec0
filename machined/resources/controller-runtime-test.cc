#include "machined/resources/controller-runtime.h"

#include "machined/resources/controller-outputs.h"
#include "machined/resources/test-store.h"

namespace talos::machined {
namespace {

// Runs the test's function and counts the runs.
class Scripted final : public Controller {
 public:
  struct Script {
    kj::String name = kj::str("test.Controller");
    kj::Vector<Input> inputs;
    kj::Vector<kj::StringPtr> outputs;
    kj::Function<kj::Promise<void>(Store&)> run = [](Store&) -> kj::Promise<void> {
      return kj::READY_NOW;
    };
    unsigned runs = 0;
  };
  explicit Scripted(Script& script) : script(script) {}
  kj::StringPtr name() const override { return script.name; }
  kj::Array<Input> inputs() const override { return kj::heapArray(script.inputs.asPtr()); }
  kj::Array<kj::StringPtr> outputs() const override {
    return kj::heapArray(script.outputs.asPtr());
  }
  kj::Promise<void> reconcile(Store& store) override {
    ++script.runs;
    return script.run(store);
  }

 private:
  Script& script;
};

struct ControllerTest : public StoreTest {
  ~ControllerTest() noexcept override {}
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  kj::Vector<kj::String> lines;
  ControllerRuntime runtime{store, [this](kj::StringPtr line) { lines.add(kj::str(line)); }, timer,
                            clock, [] { return 0.5; }};

  void advance(kj::Duration by) {
    timer.advanceTo(timer.now() + by);
    scope.poll();
  }
  void add(Scripted::Script& script) {
    runtime.add(kj::heap<Scripted>(script));
    scope.poll();
  }
};

TEST_F(ControllerTest, RunsOnceAtTheStartAndOncePerBurst) {
  Scripted::Script script;
  script.inputs.add(Controller::input<rpc::HostnameSpecSpec>());
  add(script);
  EXPECT_EQ(script.runs, 1u);
  put("a", "x");
  put("a", "y", 1);
  put("b", "y");
  scope.poll();
  EXPECT_EQ(script.runs, 2u);
  runtime.poke("test.Controller");
  runtime.poke("test.Controller");
  scope.poll();
  EXPECT_EQ(script.runs, 3u);
  EXPECT_EQ(kindOfFailure([&] { runtime.poke("test.Nobody"); }), "NotFound");
}

// A change during a run must lead to another run, because the run may have read the earlier value.
TEST_F(ControllerTest, AChangeDuringARunIsNotLostAndRunsDoNotOverlap) {
  Scripted::Script script;
  script.inputs.add(Controller::input<rpc::HostnameSpecSpec>());
  kj::Own<kj::PromiseFulfiller<void>> finish;
  script.run = [&](Store&) -> kj::Promise<void> {
    auto paf = kj::newPromiseAndFulfiller<void>();
    finish = kj::mv(paf.fulfiller);
    return kj::mv(paf.promise);
  };
  add(script);
  put("a", "x");
  scope.poll();
  EXPECT_EQ(script.runs, 1u);
  finish->fulfill();
  scope.poll();
  EXPECT_EQ(script.runs, 2u);
  EXPECT_FALSE(runtime.idle());
  finish->fulfill();
  scope.poll();
  EXPECT_EQ(script.runs, 2u);
  EXPECT_TRUE(runtime.idle());
}

// The quirk of Talos: a controller with many early failures stays slow for ever.
TEST_F(ControllerTest, FailuresBackOffAndASuccessResetsIt) {
  Scripted::Script script;
  bool fails = true;
  script.run = [&](Store&) -> kj::Promise<void> {
    if (fails) KJ_FAIL_REQUIRE("no luck");
    return kj::READY_NOW;
  };
  add(script);
  EXPECT_EQ(script.runs, 1u);
  advance(499 * kj::MILLISECONDS);
  EXPECT_EQ(script.runs, 1u);
  advance(1 * kj::MILLISECONDS);
  EXPECT_EQ(script.runs, 2u);
  advance(749 * kj::MILLISECONDS);
  EXPECT_EQ(script.runs, 2u);
  fails = false;
  advance(1 * kj::MILLISECONDS);
  EXPECT_EQ(script.runs, 3u);
  advance(120 * kj::SECONDS);
  EXPECT_EQ(script.runs, 3u) << "a success is not repeated";
  fails = true;
  runtime.poke("test.Controller");
  scope.poll();
  EXPECT_EQ(script.runs, 4u);
  advance(500 * kj::MILLISECONDS);
  EXPECT_EQ(script.runs, 5u) << "the first pause again";
}

TEST_F(ControllerTest, TheLogHasTheFormThatToolsKnow) {
  Scripted::Script script;
  script.run = [&](Store&) -> kj::Promise<void> {
    return error(ErrorKind::kNotFound, "no\nconfig");
  };
  add(script);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "2023/11/14 22:13:20  test.Controller: controller starting\n");
  EXPECT_EQ(lines[1], "2023/11/14 22:13:20  test.Controller: controller failed: no config\n");
  EXPECT_EQ(lines[2], "2023/11/14 22:13:20  test.Controller: restarting controller after 500 ms\n");
}

TEST_F(ControllerTest, ARunThatHangsIsEndedAndSaid) {
  Scripted::Script script;
  script.run = [](Store&) -> kj::Promise<void> { return kj::NEVER_DONE; };
  add(script);
  advance(kReconcileDeadline);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(
      kj::StringPtr(lines[1]).endsWith("controller failed: reconcile timed out after 120 s\n"))
      << lines[1].cStr();
}

TEST_F(ControllerTest, MayDoOnlyWhatItDeclared) {
  put("a", "x");
  put("b", "x");
  Scripted::Script script;
  script.inputs.add(Controller::input<rpc::HostnameSpecSpec>("a"));
  script.outputs.add(typeName<rpc::MachineTypeSpec>());
  kj::Vector<kj::StringPtr> results;
  script.run = [&](Store& view) -> kj::Promise<void> {
    results.add(kindOfFailure([&] { view.get("", kHostnames, "a"); }));
    results.add(kindOfFailure([&] { view.get("", kHostnames, "b"); }));
    results.add(kindOfFailure([&] { view.list("", kHostnames); }));
    results.add(kindOfFailure([&] { view.list("", kServices); }));
    results.add(kindOfFailure([&] { put(view, "c", "x"); }));
    results.add(kindOfFailure([&] { view.addFinalizer("", kHostnames, "a", "f"); }));
    results.add(kindOfFailure([&] { view.list("", "mt"); }));
    return kj::READY_NOW;
  };
  add(script);
  EXPECT_EQ(
      kj::strArray(results, " "),
      "ok PermissionDenied PermissionDenied PermissionDenied PermissionDenied PermissionDenied ok");
}

TEST_F(ControllerTest, AnOutputHasOneWriter) {
  Scripted::Script one, two;
  two.name = kj::str("test.Other");
  one.outputs.add(kServices);
  two.outputs.add(kServices);
  add(one);
  EXPECT_EQ(kindOfFailure([&] { add(two); }), "Conflict");
  EXPECT_EQ(kindOfFailure([&] { add(one); }), "Conflict");
  two.outputs.clear();
  two.inputs.add(Controller::Input{"Nonsense.talos.dev"_kj});
  EXPECT_EQ(kindOfFailure([&] { add(two); }), "NotFound");
  EXPECT_EQ(two.runs, 0u);
}

// Only differences are written; an output that is no longer wanted is removed when its last
// finalizer is gone.
TEST_F(ControllerTest, OutputsBecomeExactlyWhatIsWanted) {
  put("foreign", "x", 0, "somebody");
  auto want = [&](std::initializer_list<kj::StringPtr> ids) {
    Outputs<rpc::HostnameSpecSpec> outputs("me");
    for (auto id : ids) outputs.add(id).setHostname(kj::str("h-", id));
    outputs.apply(store);
  };
  want({"a", "b"});
  want({"a", "b"});
  EXPECT_EQ(shown(), "a=h-a@1 b=h-b@1 foreign=x@1");
  store.addFinalizer("", kHostnames, "b", "f");
  want({"a"});
  EXPECT_EQ(shown(), "a=h-a@1 b=h-b@3-! foreign=x@1");
  want({"a", "b"});
  EXPECT_EQ(shown(), "a=h-a@1 b=h-b@3-! foreign=x@1") << "still needed by f as it was";
  store.removeFinalizer("", kHostnames, "b", "f");
  want({"a", "b"});
  EXPECT_EQ(shown(), "a=h-a@1 b=h-b@1 foreign=x@1");
  want({});
  EXPECT_EQ(shown(), "foreign=x@1");
}

// The runtime alone can tell a controller that the last finalizer of its output is gone.
TEST_F(ControllerTest, IsWokenWhenATornDownOutputBecomesFree) {
  Scripted::Script script;
  script.outputs.add(kHostnames);
  bool wanted = true;
  script.run = [&](Store& view) -> kj::Promise<void> {
    Outputs<rpc::HostnameSpecSpec> outputs(script.name);
    if (wanted) outputs.add("a").setHostname("x");
    outputs.apply(view);
    return kj::READY_NOW;
  };
  add(script);
  store.addFinalizer("", kHostnames, "a", "f");
  scope.poll();
  wanted = false;
  runtime.poke(script.name);
  scope.poll();
  EXPECT_EQ(shown(), "a=x@3-!");
  auto runs = script.runs;
  store.removeFinalizer("", kHostnames, "a", "f");
  scope.poll();
  EXPECT_EQ(shown(), "");
  EXPECT_EQ(script.runs, runs + 1);
}

}  // namespace
}  // namespace talos::machined
