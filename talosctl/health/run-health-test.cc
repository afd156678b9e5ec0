#include "common/health/run-health.h"

#include <gmock/gmock.h>

#include "common/base/error.h"
#include "common/health/test-health.h"
#include "common/testing/virtual-time.h"
#include "talosctl/cli/test-console.h"
#include "talosctl/health/health-lines.h"

namespace talos::talosctl {
namespace {

class ModelObserver final : public HealthObserver {
 public:
  explicit ModelObserver(ModelHealth& model) : model(model) {}
  bool relists = false;  // a node whose role alternates
  kj::Promise<kj::Array<NodeFacts>> nodes(kj::ArrayPtr<const kj::String> names,
                                          kj::Duration deadline) override {
    ++attempts;
    return model.facts(names);
  }
  kj::Promise<Survey> survey(kj::Duration deadline) override {
    ++attempts;
    KJ_IF_MAYBE (e, failure) return kj::cp(*e);
    auto node = model.survey.getNodes()[1];
    if (relists) node.setControlPlane(!node.getControlPlane());
    return Survey{model.survey.asReader(), {}};
  }
  kj::Maybe<kj::Exception> failure;
  unsigned attempts = 0;

 private:
  ModelHealth& model;
};

class HealthRuns : public testing::Test {
 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  TestConsole console;
  ModelHealth model;
  ModelObserver observer{model};
  HealthLines lines{console, timer, HealthLines::Results::kJson};

  ~HealthRuns() noexcept override {}

  void pass(kj::Duration time) { advance(timer, scope, time); }
  static kj::String failureOf(kj::Promise<void>& run, kj::WaitScope& scope) {
    auto failed = kj::runCatchingExceptions([&]() { run.wait(scope); });
    KJ_IF_MAYBE (e, failed) return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e));
    return kj::str("it did not fail");
  }
};

// Scripts match these lines.
TEST_F(HealthRuns, AClusterThatIsWell) {
  HealthRun run(timer, observer, lines, 20 * kj::MINUTES);
  model.survey.getWorkloads()[0].setApp("none");
  auto found = run.discover("10.5.0.2").wait(scope);
  run.check(found).wait(scope);
  EXPECT_EQ(console.takeErr(),
            "discovered nodes: control plane: [\"10.5.0.2\" \"10.5.0.3\"], worker: [\"10.5.0.4\"]\n"
            "waiting for etcd to be healthy: ...\n"
            "waiting for etcd to be healthy: OK\n"
            "waiting for bootkube to finish: ...\n"
            "waiting for bootkube to finish: OK\n"
            "waiting for apid to be ready: ...\n"
            "waiting for apid to be ready: OK\n"
            "waiting for kubelet to be healthy: ...\n"
            "waiting for kubelet to be healthy: OK\n"
            "waiting for all nodes to finish boot sequence: ...\n"
            "waiting for all nodes to finish boot sequence: OK\n"
            "waiting for all k8s nodes to report: ...\n"
            "waiting for all k8s nodes to report: OK\n"
            "waiting for all k8s nodes to report ready: ...\n"
            "waiting for all k8s nodes to report ready: OK\n"
            "waiting for all control plane components to be ready: ...\n"
            "waiting for all control plane components to be ready: OK\n"
            "waiting for kube-proxy to report ready: ...\n"
            "waiting for kube-proxy to report ready: SKIP\n"
            "waiting for coredns to report ready: ...\n"
            "waiting for coredns to report ready: OK\n"
            "waiting for all k8s nodes to report schedulable: ...\n"
            "waiting for all k8s nodes to report schedulable: OK\n"_kj);
  auto json = console.takeOut();
  EXPECT_TRUE(
      json.startsWith("{\"check\":\"etcd to be healthy\",\"result\":\"ok\",\"message\":\"\","
                      "\"seconds\":0}\n{\"check\":\"bootkube"))
      << json.cStr();
  EXPECT_EQ(observer.attempts, 12u);
}

// Catches: a node that says that it is not registered, and for whose Node object health waits.
TEST_F(HealthRuns, AnUnregisteredNodeIsNotAwaited) {
  model.nodes[2].unregistered = true;
  auto all = model.survey.disownNodes();
  auto others = model.survey.initNodes(2);
  for (unsigned i = 0; i < 2; ++i) others.setWithCaveats(i, all.getReader()[i]);
  HealthRun run(timer, observer, lines, 20 * kj::MINUTES);
  run.check(model.expected).wait(scope);
  EXPECT_EQ(observer.attempts, 11u);
}

// Catches: a new user who waits for Kubernetes without a hint that the cluster must be
// bootstrapped.
TEST_F(HealthRuns, BeforeBootstrapTheNextStepIsNamed) {
  auto waits = [&](unsigned node) {
    auto etcd = model.nodes[node].service(0);
    etcd.setState(rpc::ServiceState::PREPARING);
    etcd.initEvents(1)[0].setMessage(
        "Waiting for a cluster: run talosctl bootstrap on one control-plane node, unless …");
  };
  waits(0);
  observer.failure = error(ErrorKind::kUnavailable, "127.0.0.1:6443: connection refused");
  HealthRun run(timer, observer, lines, 20 * kj::MINUTES);
  kj::Promise<void> discovering = run.discover("10.5.0.2").ignoreResult();
  pass(1 * kj::SECONDS);
  constexpr kj::StringPtr kStep =
      "etcd is not bootstrapped; run \"talosctl -n 10.5.0.2 bootstrap\", once in the life of the "
      "cluster, on one control-plane node\n"_kj;
  EXPECT_EQ(console.takeErr(), kj::str("waiting for Kubernetes to list its nodes: ...\n"
                                       "waiting for Kubernetes to list its nodes: ",
                                       kStep));
  EXPECT_FALSE(discovering.poll(scope)) << "it goes on when it is done";
  // Another node has the cluster: this node joins.
  auto joining = run.check(model.expected);
  pass(1 * kj::SECONDS);
  EXPECT_EQ(console.takeErr(),
            "waiting for etcd to be healthy: ...\n"
            "waiting for etcd to be healthy: 10.5.0.2: service etcd is Preparing: Waiting for a "
            "cluster: run talosctl bootstrap on one control-plane node, unless …\n"_kj);
  waits(1);
  pass(5 * kj::SECONDS);
  EXPECT_EQ(console.takeErr(), kj::str("waiting for etcd to be healthy: ", kStep));
}

// Catches: a run that began while the cluster came up and then waits only for the nodes that
// Kubernetes had listed at that time.
TEST_F(HealthRuns, NodesThatRegisterMeanwhileAreExpectedToo) {
  auto registered = model.survey.getNodes()[1];
  registered.setControlPlane(false);
  auto etcd = model.nodes[0].service(0);
  etcd.setState(rpc::ServiceState::PREPARING);
  HealthRun run(timer, observer, lines, 20 * kj::MINUTES);
  auto checked = run.checkListed("10.5.0.2");
  pass(1 * kj::SECONDS);
  EXPECT_THAT(console.takeErr().cStr(),
              testing::StartsWith("discovered nodes: control plane: "
                                  "[\"10.5.0.2\"], worker: [\"10.5.0.3\""));
  registered.setControlPlane(true);
  etcd.setState(rpc::ServiceState::RUNNING);
  pass(10 * kj::SECONDS);
  ASSERT_TRUE(checked.poll(scope));
  checked.wait(scope);
  EXPECT_THAT(
      console.takeErr().cStr(),
      testing::HasSubstr("waiting for all k8s nodes to report: SKIP\n"
                         "discovered nodes: control plane: [\"10.5.0.2\" \"10.5.0.3\"], worker: "
                         "[\"10.5.0.4\"]\nwaiting for etcd to be healthy: ...\n"));
  auto results = console.takeOut();
  EXPECT_THAT(results.cStr(), testing::Not(testing::HasSubstr("failed")));
  EXPECT_THAT(results.cStr(),
              testing::HasSubstr("{\"check\":\"all k8s nodes to report\",\"result\":"
                                 "\"skipped\",\"message\":\"Kubernetes lists other"));
}

// Catches: a run without an end, or a run that sends requests without a pause.
TEST_F(HealthRuns, ClustersWhoseNodesComeAndGoTimeOut) {
  observer.relists = true;
  HealthRun run(timer, observer, lines, 1 * kj::MINUTES);
  auto checked = run.checkListed("10.5.0.2");
  pass(2 * kj::MINUTES);
  EXPECT_EQ(failureOf(checked, scope),
            "DeadlineExceeded: timed out: Kubernetes lists other nodes again and again"_kj);
  EXPECT_LT(observer.attempts, 1000u);
}

// Catches: text that is not a document, or a document with another meaning: a message with a colon.
TEST_F(HealthRuns, ResultsAsYaml) {
  HealthLines yaml(console, timer, HealthLines::Results::kYaml);
  yaml.begin("etcd to be healthy");
  yaml.state(CheckResult::waiting(kj::str("10.5.0.2: no answer")));
  yaml.end();
  EXPECT_EQ(console.takeOut(),
            "---\ncheck: etcd to be healthy\nresult: failed\nmessage: \"10.5.0.2: no answer\"\n"
            "seconds: 0\n"_kj);
}

// Catches: a check that is tried more often than its interval allows, or that gives up early; a
// text that is printed again at each attempt; a failure without the state for which it waited.
TEST_F(HealthRuns, ACheckIsTriedInItsIntervalUntilItsLimit) {
  model.nodes[0].silence = kj::str("no answer within 5s");
  HealthRun run(timer, observer, lines, 20 * kj::MINUTES);
  auto checking = run.check(model.expected);
  pass(4 * kj::SECONDS);
  EXPECT_EQ(observer.attempts, 1u);
  pass(1 * kj::SECONDS);
  EXPECT_EQ(observer.attempts, 2u);
  pass(294 * kj::SECONDS);
  EXPECT_FALSE(checking.poll(scope));
  EXPECT_EQ(observer.attempts, 60u);
  pass(1 * kj::SECONDS);
  EXPECT_EQ(
      failureOf(checking, scope),
      "DeadlineExceeded: timed out waiting for etcd to be healthy: 10.5.0.2: no answer within "
      "5s"_kj);
  EXPECT_EQ(observer.attempts, 61u);
  EXPECT_EQ(console.takeErr(),
            "waiting for etcd to be healthy: ...\n"
            "waiting for etcd to be healthy: 10.5.0.2: no answer within 5s\n"_kj);
  EXPECT_EQ(console.takeOut(),
            "{\"check\":\"etcd to be healthy\",\"result\":\"failed\",\"message\":\"10.5.0.2: no "
            "answer within 5s\",\"seconds\":300}\n"_kj);
}

// Catches: a check that gets a new time limit although the others have used up the total.
TEST_F(HealthRuns, TheTimeForAllOfThemIsALimitToo) {
  model.nodes[0].silence = kj::str("off");
  HealthRun run(timer, observer, lines, 7 * kj::SECONDS);
  auto checking = run.check(model.expected);
  pass(6 * kj::SECONDS);
  EXPECT_FALSE(checking.poll(scope));
  pass(1 * kj::SECONDS);
  EXPECT_TRUE(checking.poll(scope));
  EXPECT_EQ(observer.attempts, 3u);
}

// Catches: five minutes of waiting for a worker to become a control-plane node.
TEST_F(HealthRuns, WhatNoWaitingMakesGoodEndsIt) {
  observer.failure = error(ErrorKind::kUnavailable, "not yet");
  HealthRun run(timer, observer, lines, 20 * kj::MINUTES);
  kj::Promise<void> discovering = run.discover("10.5.0.2").ignoreResult();
  pass(6 * kj::SECONDS);
  EXPECT_FALSE(discovering.poll(scope));
  EXPECT_EQ(console.takeErr(),
            "waiting for Kubernetes to list its nodes: ...\n"
            "waiting for Kubernetes to list its nodes: not yet\n"_kj);
  observer.failure = error(ErrorKind::kFailedPrecondition, "this node is a worker");
  pass(5 * kj::SECONDS);
  EXPECT_EQ(failureOf(discovering, scope), "FailedPrecondition: this node is a worker"_kj);
}

// Catches: a line that is not rewritten, or that wraps; a colour that continues after its text.
TEST_F(HealthRuns, OnATerminalALineIsRewritten) {
  console.terminal = true;
  HealthLines terminal(console, timer, HealthLines::Results::kNone);
  terminal.begin("x");
  EXPECT_EQ(console.takeErr(), "\r◰ waiting for x: \x1b[0;33m...\x1b[0m\x1b[K"_kj);
  auto turning = terminal.turn();
  scope.poll();
  timer.advanceTo(timer.now() + 200 * kj::MILLISECONDS);
  scope.poll();
  EXPECT_EQ(console.takeErr(), "\r◳ waiting for x: \x1b[0;33m...\x1b[0m\x1b[K"_kj);
  terminal.state(CheckResult::waiting(kj::str(kj::repeat('y', 200))));
  EXPECT_EQ(console.takeErr(),
            kj::str("\r◳ waiting for x: \x1b[0;1;31m", kj::repeat('y', 62), "\x1b[0m\x1b[K"));
  terminal.state(CheckResult::passed());
  terminal.end();
  EXPECT_EQ(console.takeErr(), "\r  waiting for x: \x1b[0;32mOK\x1b[0m\x1b[K\n"_kj);
  timer.advanceTo(timer.now() + 1 * kj::SECONDS);
  scope.poll();
  EXPECT_EQ(console.takeErr(), ""_kj);
}

}  // namespace
}  // namespace talos::talosctl
