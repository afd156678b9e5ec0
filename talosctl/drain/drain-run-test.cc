// Cordons and drains against a model of the API server, on a virtual clock.
#include "talosctl/drain/drain-run.h"

#include <gmock/gmock.h>

#include "common/base/error.h"
#include "common/kube/test-kube-server.h"
#include "common/testing/virtual-time.h"
#include "talosctl/cli/test-console.h"

namespace talos::talosctl {
namespace {

using kube::Json;
using testing::HasSubstr;
using testing::Not;

constexpr kj::StringPtr kNode1 = "/api/v1/nodes/w-1"_kj;

struct DrainRunTest : public testing::Test {
  ~DrainRunTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  kube::ModelKube model{timer};
  kube::KubeClient kubernetes{timer, [] { return 0.0; }, model.dialer(), kube::ModelKube::access()};
  TestConsole console;
  struct TimerClock final : public kj::Clock {
    explicit TimerClock(kj::Timer& timer) : timer(timer) {}
    kj::Timer& timer;
    kj::Date now() const override {
      return kj::UNIX_EPOCH + 1'615'000'000 * kj::SECONDS +
             (timer.now() - kj::origin<kj::TimePoint>());
    }
  } clock{timer};
  DrainOptions options{.timeout = 10 * kj::MINUTES};
  EventFormat format = EventFormat::kText;
  bool dryRun = false;

  DrainRunTest() {
    model.addUsualKinds();
    model.addKind({kj::str("policy"), kj::str("v1"), kj::str("poddisruptionbudgets"),
                   kj::str("PodDisruptionBudget"), true});
    addNodeObject("w-1", "10.5.0.3");
    addNodeObject("w-2", "10.5.0.4");
  }
  void addNodeObject(kj::StringPtr name, kj::StringPtr address) {
    Json one{{"type", "InternalIP"}, {"address", address.cStr()}};
    model.put(kj::str("/api/v1/nodes/", name), {{"metadata", {{"name", name.cStr()}}},
                                                {"spec", Json::object()},
                                                {"status", {{"addresses", Json::array({one})}}}});
  }
  static kj::String podAt(kj::StringPtr name) {
    return kj::str("/api/v1/namespaces/a/pods/", name);
  }
  void addPod(kj::StringPtr name, kj::StringPtr controller, Json more = Json::object()) {
    Json metadata{{"name", name.cStr()},
                  {"namespace", "a"},
                  {"uid", kj::str("uid-", name).cStr()},
                  {"labels", {{"app", name.cStr()}}}};
    if (controller.size() > 0) {
      Json owner{{"kind", controller.cStr()}, {"name", "set"}, {"controller", true}};
      metadata["ownerReferences"] = Json::array({owner});
    }
    Json pod{{"metadata", kj::mv(metadata)}, {"spec", {{"nodeName", "w-1"}}}};
    pod.merge_patch(more);
    model.put(podAt(name), kj::mv(pod));
  }
  static Json cache() {
    Json volume{{"name", "c"}, {"emptyDir", Json::object()}};
    return {{"spec", {{"volumes", Json::array({volume})}}}};
  }
  bool unschedulable() {
    return kube::flagAt(KJ_ASSERT_NONNULL(model.find(kNode1)), {"spec", "unschedulable"});
  }
  bool isThere(kj::StringPtr name) { return model.find(podAt(name)) != nullptr; }
  bool asksToEnd(kj::StringPtr name) {
    KJ_IF_MAYBE (pod, model.find(podAt(name))) {
      return kube::find(*pod, {"metadata", "deletionTimestamp"}) != nullptr;
    }
    return true;
  }
  unsigned writes() const {
    unsigned count = 0;
    for (auto& asked : model.asked) count += asked.method != "GET";
    return count;
  }
  void refuseEviction() {
    model.instead = [](auto& asked) -> kj::Maybe<kube::ModelKube::Reply> {
      if (asked.method != "POST") return nullptr;
      return kube::ModelKube::Reply{
          429, R"({"kind":"Status","message":"it would violate the budget"})", ""};
    };
  }
  // Runs a whole drain of w-1; -1 if it has not ended after somewhat more than ten minutes.
  int drained() {
    DrainLines lines(console, format, dryRun);
    DrainRun run(timer, clock, kubernetes, lines, dryRun);
    auto running = run.drain("w-1", options);
    for (int i = 0; i < 250 && !running.poll(scope); ++i) advance(timer, scope, 3 * kj::SECONDS);
    return running.poll(scope) ? running.wait(scope) : -1;
  }
  std::string out() { return console.takeOut().cStr(); }
  std::string err() { return console.takeErr().cStr(); }
};

// Catches: another node that is cordoned; an address in another notation that is not found; an
// unknown name without an error.
TEST_F(DrainRunTest, NodesAreNamedByNameOrAddress) {
  addNodeObject("v6", "fd00::1");
  DrainLines lines(console, EventFormat::kText, false);
  DrainRun run(timer, clock, kubernetes, lines, false);
  auto resolve = [&](kj::Array<kj::String> named) {
    return kj::str(kj::strArray(run.resolve(named).wait(scope), " "));
  };
  EXPECT_EQ(resolve(kj::arr(kj::str("10.5.0.4"), kj::str("w-1"), kj::str("w-2"))), "w-2 w-1"_kj);
  EXPECT_EQ(resolve(kj::arr(kj::str("fd00:0::1"))), "v6"_kj);
  auto wrong = kj::runCatchingExceptions([&] { resolve(kj::arr(kj::str("10.5.0.9"))); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(wrong)),
            "no node of Kubernetes has the name or address 10.5.0.9; there are v6, w-1, w-2"_kj);
  addNodeObject("twin", "10.5.0.4");
  wrong = kj::runCatchingExceptions([&] { resolve(kj::arr(kj::str("10.5.0.4"))); });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(wrong)).cStr(), HasSubstr("twin, w-2; use a name"));
}

// Catches: a cordon that is lost because the kubelet wrote to the node meanwhile; a dry run that
// changes the node.
TEST_F(DrainRunTest, CordonAndBack) {
  DrainLines lines(console, EventFormat::kText, false);
  DrainRun run(timer, clock, kubernetes, lines, false);
  unsigned conflicts = 2;
  model.instead = [&](auto& asked) -> kj::Maybe<kube::ModelKube::Reply> {
    if (asked.method != "PATCH" || conflicts == 0) return nullptr;
    --conflicts;
    return kube::ModelKube::Reply{409, "{}", ""};
  };
  run.cordon("w-1").wait(scope);
  EXPECT_TRUE(unschedulable());
  run.cordon("w-1").wait(scope);
  run.uncordon("w-1").wait(scope);
  EXPECT_FALSE(unschedulable());
  run.uncordon("w-1").wait(scope);
  EXPECT_EQ(out(),
            "node/w-1 cordoned\nnode/w-1 already cordoned\n"
            "node/w-1 uncordoned\nnode/w-1 already uncordoned\n");
  DrainLines dryLines(console, EventFormat::kText, true);
  DrainRun dry(timer, clock, kubernetes, dryLines, true);
  dry.cordon("w-1").wait(scope);
  EXPECT_FALSE(unschedulable());
  EXPECT_EQ(out(), "node/w-1 cordoned (dry run)\n");
  conflicts = 100;
  auto wrong = kj::runCatchingExceptions([&] { run.cordon("w-1").wait(scope); });
  EXPECT_TRUE(kindOf(KJ_ASSERT_NONNULL(wrong)) == ErrorKind::kConflict);
}

// Catches: a pod that is deleted although another pod prevents the drain; a flag with another
// effect than its text; pods that are not named.
TEST_F(DrainRunTest, EachFlagLetsItsPodsGo) {
  addPod("web", "ReplicaSet");
  addPod("proxy", "DaemonSet");
  addPod("bare", "");
  addPod("cache", "ReplicaSet", cache());
  addPod("done", "", {{"status", {{"phase", "Succeeded"}}}});
  addPod("static", "Node",
         {{"metadata", {{"annotations", {{"kubernetes.io/config.mirror", "x"}}}}}});
  model.put("/apis/apps/v1/namespaces/a/daemonsets/set",
            {{"metadata", {{"name", "set"}, {"namespace", "a"}}}});
  EXPECT_EQ(drained(), 0);
  EXPECT_EQ(err(),
            "error: unable to drain node \"w-1\": cannot delete DaemonSet-managed Pods (use "
            "--ignore-daemonsets to ignore): a/proxy; cannot delete Pods with local storage (use "
            "--delete-emptydir-data to override): a/cache; cannot delete Pods that declare no "
            "controller (use --force to override): a/bare\n");
  EXPECT_EQ(writes(), 0u);
  options.ignoreDaemonSets = options.deleteEmptyDirData = options.force = true;
  dryRun = true;
  EXPECT_EQ(drained(), 1);
  EXPECT_EQ(out(), "node/w-1 drained (dry run)\n");
  EXPECT_EQ(writes(), 0u);
  EXPECT_THAT(err(), HasSubstr("evicting pod a/web (dry run)\npod/web evicted (dry run)\n"));

  dryRun = false;
  options.disableEviction = true;  // the model drops deleted pods
  EXPECT_EQ(drained(), 1);
  EXPECT_EQ(out(), "node/w-1 drained\n");
  EXPECT_FALSE(isThere("web") || isThere("bare") || isThere("cache") || isThere("done"));
  EXPECT_TRUE(isThere("proxy") && isThere("static"));
  EXPECT_THAT(err(), HasSubstr("Warning: ignoring DaemonSet-managed Pods: a/proxy\n"
                               "Warning: deleting Pods with local storage: a/cache\n"
                               "Warning: deleting Pods that declare no controller: a/bare\n"));
}

// Catches: a budget that is not named, or not waited for; a drain without an end; a time that
// starts again with each refusal; pods of another budget.
TEST_F(DrainRunTest, ABudgetIsNamedUntilTheDeadline) {
  addPod("web", "ReplicaSet");
  addPod("db", "StatefulSet");
  for (auto app : {"web", "other"}) {
    model.put(kj::str("/apis/policy/v1/namespaces/a/poddisruptionbudgets/keeps-", app),
              {{"metadata", {{"name", kj::str("keeps-", app).cStr()}, {"namespace", "a"}}},
               {"spec", {{"selector", {{"matchLabels", {{"app", app}}}}}}}});
  }
  refuseEviction();
  EXPECT_EQ(drained(), 0);
  auto text = err();
  EXPECT_THAT(text, HasSubstr("error when evicting pods/\"web\" -n \"a\" (will retry after 5s): "));
  EXPECT_THAT(text,
              HasSubstr("it would violate the budget; PodDisruptionBudget a/keeps-web, refused "
                        "since 2021-03-06T03:06:40Z (0s)\n"));
  EXPECT_THAT(text, HasSubstr("it would violate the budget; refused since 2021-"));
  EXPECT_THAT(text, HasSubstr("error: unable to drain node \"w-1\": not all pods have left within "
                              "10m0s: a/db (refused since 2021-03-06T03:06:40Z (10m0s)), a/web "
                              "(PodDisruptionBudget a/keeps-web, refused since "
                              "2021-03-06T03:06:40Z (10m0s))\n"));
  // Each message appears once, not with every retry.
  EXPECT_EQ(text.find("error when evicting pods/\"web\""),
            text.rfind("error when evicting pods/\"web\""));

  // The budget now allows the eviction.
  DrainLines lines(console, EventFormat::kJson, false);
  DrainRun run(timer, clock, kubernetes, lines, false);
  auto running = run.drain("w-1", options);
  advance(timer, scope, 7 * kj::SECONDS);
  EXPECT_FALSE(asksToEnd("web"));
  model.instead = [](auto&) { return nullptr; };
  advance(timer, scope, 5 * kj::SECONDS);
  EXPECT_TRUE(asksToEnd("web") && asksToEnd("db"));
  EXPECT_FALSE(running.poll(scope));
  model.drop(podAt("web"));
  model.drop(podAt("db"));
  advance(timer, scope, 3 * kj::SECONDS);
  EXPECT_TRUE(running.wait(scope));
  auto events = out();
  EXPECT_THAT(events, HasSubstr(R"("pod":"a/web","result":"refused","message":)"));
  EXPECT_THAT(events, HasSubstr(R"("budgets":["a/keeps-web"]})"));
  EXPECT_THAT(events,
              HasSubstr(R"({"event":"pod","node":"w-1","pod":"a/web","result":"evicted"})"));
  EXPECT_THAT(events, HasSubstr(R"({"event":"node","node":"w-1","result":"drained"})"));
  EXPECT_THAT(err(), HasSubstr("node/w-1 drained\n"));
}

// Catches: YAML whose documents run together; a list of an event that is one line of text.
TEST_F(DrainRunTest, YamlHasADocumentForEachEvent) {
  addPod("web", "ReplicaSet");
  addPod("bare", "");
  options.force = options.disableEviction = true;
  format = EventFormat::kYaml;
  EXPECT_EQ(drained(), 1);
  auto events = out();
  EXPECT_THAT(events, HasSubstr("---\nevent: warning\nnode: w-1\n"
                                "message: deleting Pods that declare no controller\n"
                                "pods:\n    - a/bare\n---\n"));
  EXPECT_THAT(events, HasSubstr("---\nevent: pod\nnode: w-1\npod: a/web\nresult: deleted\n---\n"));
  EXPECT_THAT(events, HasSubstr("---\nevent: node\nnode: w-1\nresult: drained\n"));
}

// Catches: a pod's own grace period that is replaced; a requested grace period that is ignored;
// pods that are not selected; a deletion of another pod with the same name.
TEST_F(DrainRunTest, OptionsReachTheServer) {
  auto lastOf = [&](kj::StringPtr method) {
    Json body;
    for (auto& asked : model.asked) {
      if (asked.method == method.cStr()) body = asked.body;
    }
    return std::string(kube::writeJson(body).cStr());
  };
  options.timeout = 1 * kj::SECONDS;
  addPod("web", "ReplicaSet");
  addPod("db", "ReplicaSet");
  options.podSelector = "app=web";
  EXPECT_EQ(drained(), 0);
  EXPECT_THAT(err(), HasSubstr("not all pods have left within 1s: a/web (terminating)\n"));
  EXPECT_FALSE(asksToEnd("db"));
  EXPECT_THAT(lastOf("POST"), Not(HasSubstr("gracePeriodSeconds")));
  options.podSelector = "";
  options.grace = 7 * kj::SECONDS;
  EXPECT_EQ(drained(), 0);
  EXPECT_THAT(lastOf("POST"), HasSubstr(R"("gracePeriodSeconds":7)"));
  model.drop(podAt("web"));
  model.drop(podAt("db"));
  addPod("web", "ReplicaSet");
  options.disableEviction = true;
  EXPECT_EQ(drained(), 1);
  EXPECT_EQ(lastOf("DELETE"),
            R"({"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"uid-web"},)"
            R"("gracePeriodSeconds":7})");
}

// Catches: a pod that must not be evicted and is not reported.
TEST_F(DrainRunTest, AFailureIsTheNodes) {
  addPod("web", "ReplicaSet");
  model.instead = [](auto& asked) -> kj::Maybe<kube::ModelKube::Reply> {
    if (asked.method != "POST") return nullptr;
    return kube::ModelKube::Reply{403, R"({"kind":"Status","message":"not yours"})", ""};
  };
  EXPECT_EQ(drained(), 0);
  EXPECT_THAT(err(), HasSubstr("error: unable to drain node \"w-1\": a/web ("));
  EXPECT_EQ(out(), "");
}

// Catches: lines that run over each other on a terminal.
TEST_F(DrainRunTest, OnATerminalThePodsAreOneLine) {
  console.terminal = true;
  addPod("web", "ReplicaSet");
  addPod("db", "ReplicaSet");
  DrainLines lines(console, EventFormat::kText, false);
  DrainRun run(timer, clock, kubernetes, lines, false);
  auto running = run.drain("w-1", options);
  EXPECT_FALSE(running.poll(scope));
  model.drop(podAt("web"));
  model.drop(podAt("db"));
  advance(timer, scope, 3 * kj::SECONDS);
  EXPECT_TRUE(running.wait(scope));
  auto text = err();
  EXPECT_THAT(text, Not(HasSubstr("evicting pod")));
  EXPECT_THAT(text, HasSubstr("w-1: 0 of 2 pods have left; waiting for a/db (terminating), a/web"));
  EXPECT_THAT(text, HasSubstr("\x1b[1A\rw-1: 2 of 2 pods have left\x1b[K\n"));
}

struct NodeRemovalTest : public DrainRunTest {
  ~NodeRemovalTest() noexcept override {}
  NodeRemovalTest() {
    put("w-1", "10.5.0.3", "1");
    put("w-2", "10.5.0.4", "2");
  }
  void put(kj::StringPtr name, kj::StringPtr address, kj::StringPtr uid) {
    addNodeObject(name, address);
    KJ_ASSERT_NONNULL(model.find(kj::str("/api/v1/nodes/", name)))["metadata"]["uid"] = uid.cStr();
  }
  bool has(kj::StringPtr name) { return model.find(kj::str("/api/v1/nodes/", name)) != nullptr; }
  kj::Own<NodeRemoval> find(std::vector<const char*> nodes) {
    auto names = kj::heapArrayBuilder<kj::String>(nodes.size());
    for (auto node : nodes) names.add(kj::str(node));
    auto all = names.finish();
    return NodeRemoval::find(kubernetes, all).wait(scope);
  }
};

// Catches: another node's object; an address that is resolved again when another node may have it.
TEST_F(NodeRemovalTest, RemovesWhatItHasFound) {
  auto removal = find({"10.5.0.4", "w-1"});
  EXPECT_STREQ("w-2", removal->name(0).cStr());
  put("w-2", "10.5.0.9", "2");
  removal->remove(0).wait(scope);
  EXPECT_FALSE(has("w-2"));
  EXPECT_TRUE(has("w-1"));
  removal->remove(0).wait(scope);
}

// Catches: a new machine with the old machine's name that loses its object.
TEST_F(NodeRemovalTest, ANewerObjectStays) {
  auto removal = find({"w-1"});
  put("w-1", "10.5.0.3", "3");
  removal->remove(0).wait(scope);
  EXPECT_TRUE(has("w-1"));
}

// Catches: a reset that begins although one of its nodes is unknown.
TEST_F(NodeRemovalTest, EachHasToBeThere) {
  kj::String error;
  NodeRemoval::find(kubernetes, kj::arr(kj::str("w-1"), kj::str("10.5.0.77")))
      .then([](auto) {}, [&](kj::Exception&& e) { error = messageOf(e); })
      .wait(scope);
  EXPECT_THAT(error.cStr(), HasSubstr("no node of Kubernetes has the name or address 10.5.0.77"));
}

// Catches: an object that stays in Kubernetes, without a message about it.
TEST_F(NodeRemovalTest, SaysWhatIsLeftToDo) {
  auto removal = find({"w-1"});
  model.instead = [](auto& asked) -> kj::Maybe<kube::ModelKube::Reply> {
    if (asked.method != "DELETE") return nullptr;
    return kube::ModelKube::Reply{403, R"({"kind":"Status","message":"not yours"})", ""};
  };
  kj::String error;
  removal->remove(0).then([]() {}, [&](kj::Exception&& e) { error = messageOf(e); }).wait(scope);
  EXPECT_THAT(error.cStr(), HasSubstr("the node is reset, but its object in Kubernetes was not "
                                      "removed: "));
  EXPECT_THAT(error.cStr(), HasSubstr("not yours; kubectl delete node w-1"));
}

}  // namespace
}  // namespace talos::talosctl
