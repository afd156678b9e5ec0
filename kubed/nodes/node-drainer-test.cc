// A drain against a model of the API server, on a virtual clock.
#include "kubed/nodes/node-drainer.h"

#include <gmock/gmock.h>

#include "common/base/error.h"
#include "common/kube/test-kube-server.h"
#include "common/testing/virtual-time.h"

namespace talos::kubed {
namespace {

using kube::Json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr kj::StringPtr kNode = "/api/v1/nodes/w"_kj;

struct NodeDrainerTest : public testing::Test {
  ~NodeDrainerTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  kube::ModelKube model{timer};
  kj::Function<double()> random = [] { return 0.0; };
  bool hasClient = true;
  NodeDrainer drainer{timer, random,
                      [this]() -> kj::OneOf<kj::Own<SharedKube>, kj::String> {
                        if (!hasClient) return kj::str("waiting for the certificate");
                        return kj::refcounted<SharedKube>(kj::heap<kube::KubeClient>(
                            timer, [] { return 0.0; }, model.dialer(), kube::ModelKube::access()));
                      },
                      [] {}};

  NodeDrainerTest() {
    model.addUsualKinds();
    model.put(kNode, Json{{"metadata", {{"name", "w"}}}, {"spec", Json::object()}});
  }
  static kj::String pathOfPod(kj::StringPtr name) {
    return kj::str("/api/v1/namespaces/a/pods/", name);
  }
  void addPod(kj::StringPtr name, kj::StringPtr uid, kj::StringPtr kind = "ReplicaSet") {
    Json owner{{"kind", kind.cStr()}, {"controller", true}};
    Json metadata{{"name", name.cStr()},
                  {"namespace", "a"},
                  {"uid", uid.cStr()},
                  {"ownerReferences", Json::array({owner})}};
    model.put(pathOfPod(name), Json{{"metadata", metadata}, {"spec", {{"nodeName", "w"}}}});
  }
  bool ends(kj::StringPtr name) {
    KJ_IF_MAYBE (pod, model.find(pathOfPod(name))) {
      return kube::find(*pod, {"metadata", "deletionTimestamp"}) != nullptr;
    }
    return false;
  }
  bool cordoned() { return kube::cordonedByItself(KJ_ASSERT_NONNULL(model.find(kNode))); }
  unsigned evictions() const {
    unsigned count = 0;
    for (auto& asked : model.asked) count += asked.method == "POST";
    return count;
  }
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (auto& pod : drainer.progress().pods) names.push_back(pod.cStr());
    return names;
  }
  std::string state() const { return drainer.progress().state.cStr(); }
  void refuseEvictions(unsigned status, std::string message) {
    model.instead = [=](auto& asked) -> kj::Maybe<kube::ModelKube::Reply> {
      if (asked.method != "POST") return nullptr;
      Json body{{"kind", "Status"}, {"message", message}};
      return kube::ModelKube::Reply{status, body.dump(), ""};
    };
  }
};

// Catches: pods that leave one after the other; a drain that ends before they have left, or that
// evicts those of a DaemonSet; a node that gets new pods meanwhile.
TEST_F(NodeDrainerTest, PodsAreEvictedTogether) {
  addPod("one", "1");
  addPod("two", "2");
  addPod("proxy", "3", "DaemonSet");
  auto drain = drainer.drain("w");
  EXPECT_FALSE(drain.poll(scope));
  EXPECT_TRUE(cordoned());
  EXPECT_TRUE(ends("one") && ends("two"));
  EXPECT_FALSE(ends("proxy"));
  EXPECT_THAT(left(), ElementsAre("a/one", "a/two"));
  model.drop(pathOfPod("two"));
  addPod("two", "4");  // another one has its name
  advance(timer, scope, kube::kGoneLook);
  EXPECT_THAT(left(), ElementsAre("a/one"));
  EXPECT_FALSE(drain.poll(scope));
  model.drop(pathOfPod("one"));
  advance(timer, scope, kube::kGoneLook);
  drain.wait(scope);
  EXPECT_EQ(state(), "done");
  EXPECT_THAT(drainer.progress().warnings, IsEmpty());
}

// Catches: a pod that counts as failed because the API server restarts while it is waited for.
TEST_F(NodeDrainerTest, AServerMayBeAwayWhilePodsEnd) {
  addPod("one", "1");
  auto drain = drainer.drain("w");
  EXPECT_FALSE(drain.poll(scope));
  model.instead = [](auto& asked) -> kj::Maybe<kube::ModelKube::Reply> {
    if (asked.method != "GET") return nullptr;
    return kube::ModelKube::Reply{503, R"({"kind": "Status", "message": "starting"})", ""};
  };
  advance(timer, scope, 10 * kube::kGoneLook);
  EXPECT_THAT(left(), ElementsAre("a/one"));
  model.instead = [](auto&) -> kj::Maybe<kube::ModelKube::Reply> { return nullptr; };
  model.drop(pathOfPod("one"));
  advance(timer, scope, 10 * kube::kGoneLook);
  drain.wait(scope);
  EXPECT_EQ(state(), "done");
  EXPECT_THAT(drainer.progress().warnings, IsEmpty());
}

// Catches: a PodDisruptionBudget that is not waited for, or that ends the drain of all others.
TEST_F(NodeDrainerTest, ABudgetIsWaitedFor) {
  addPod("one", "1");
  refuseEvictions(429, "Cannot evict pod as it would violate the pod's disruption budget.");
  auto drain = drainer.drain("w");
  EXPECT_FALSE(drain.poll(scope));
  EXPECT_THAT(drainer.progress().message.cStr(), HasSubstr("disruption budget"));
  advance(timer, scope, 30 * kj::SECONDS);
  EXPECT_EQ(evictions(), 7u);
  EXPECT_FALSE(ends("one"));
  model.instead = [](auto&) { return nullptr; };
  advance(timer, scope, kube::kEvictionPause);
  EXPECT_TRUE(ends("one"));
  model.drop(pathOfPod("one"));
  advance(timer, scope, kube::kGoneLook);
  drain.wait(scope);
  EXPECT_EQ(state(), "done");
}

// Catches: a node that never shuts down because of one pod that must not be evicted.
TEST_F(NodeDrainerTest, TheWholeDrainHasAnEnd) {
  addPod("one", "1");
  refuseEvictions(429, "no");
  auto drain = drainer.drain("w");
  advance(timer, scope, kDrainTimeout - 1 * kj::SECONDS);
  EXPECT_FALSE(drain.poll(scope));
  advance(timer, scope, 1 * kj::SECONDS);
  drain.wait(scope);
  EXPECT_EQ(state(), "failed");
  EXPECT_STREQ(drainer.progress().message.cStr(), "not all pods have left within 5 minutes");
  EXPECT_THAT(left(), ElementsAre("a/one"));
  EXPECT_TRUE(cordoned());
}

// Catches: one pod that does not end, or whose eviction is not allowed, and that delays all others;
// a failure that is not reported.
TEST_F(NodeDrainerTest, FailedEvictionIsAWarning) {
  addPod("hangs", "1");
  auto drain = drainer.drain("w");
  EXPECT_FALSE(drain.poll(scope));
  advance(timer, scope, kGoneTimeout + kube::kGoneLook);
  drain.wait(scope);
  EXPECT_EQ(state(), "done");
  ASSERT_THAT(drainer.progress().warnings, SizeIs(1));
  EXPECT_STREQ(drainer.progress().warnings[0].cStr(), "pod a/hangs: has not ended within 70 s");
  EXPECT_STREQ(drainer.progress().message.cStr(), "drained but for 1 pods");

  model.drop(pathOfPod("hangs"));
  refuseEvictions(403, "not yours");
  addPod("other", "2");
  drainer.drain("w").wait(scope);
  EXPECT_THAT(drainer.progress().warnings[0].cStr(), HasSubstr("not yours"));
}

// Catches: a briefly unreachable API server that ends a drain; a permanently unreachable one, or a
// node that is not registered, for which the drain waits.
TEST_F(NodeDrainerTest, AServerThatDoesNotAnswerHasItsTime) {
  hasClient = false;
  auto drain = drainer.drain("w");
  advance(timer, scope, 5 * kj::SECONDS);
  EXPECT_EQ(state(), "cordoning");
  hasClient = true;
  advance(timer, scope, 10 * kj::SECONDS);
  drain.wait(scope);
  EXPECT_EQ(state(), "done");

  hasClient = false;
  auto again = drainer.drain("w");
  advance(timer, scope, kCordonTimeout);
  again.wait(scope);
  EXPECT_EQ(state(), "failed");
  EXPECT_STREQ(drainer.progress().message.cStr(), "waiting for the certificate");

  hasClient = true;
  drainer.drain("x").wait(scope);
  EXPECT_EQ(state(), "failed");
  EXPECT_THAT(drainer.progress().message.cStr(), HasSubstr("not found"));
}

// Catches: a node that gets pods before it can run them; a node that is uncordoned although a user
// has cordoned it.
TEST_F(NodeDrainerTest, ItIsUncordonedWhenItIsReady) {
  drainer.drain("w").wait(scope);
  ASSERT_TRUE(cordoned());
  auto back = drainer.uncordon("w");
  advance(timer, scope, 20 * kj::MINUTES);
  EXPECT_FALSE(back.poll(scope));
  EXPECT_TRUE(cordoned());
  auto node = KJ_ASSERT_NONNULL(model.find(kNode));
  Json ready{{"type", "Ready"}, {"status", "True"}};
  node["status"]["conditions"] = Json::array({ready});
  model.put(kNode, node);
  advance(timer, scope, 10 * kj::SECONDS);
  back.wait(scope);
  EXPECT_FALSE(cordoned());
  EXPECT_FALSE(kube::flagAt(KJ_ASSERT_NONNULL(model.find(kNode)), {"spec", "unschedulable"}));

  node["metadata"].erase("annotations");  // as if a user had cordoned it
  node["spec"]["unschedulable"] = true;
  model.put(kNode, node);
  drainer.uncordon("w").wait(scope);
  EXPECT_EQ(state(), "done");
  EXPECT_TRUE(kube::flagAt(KJ_ASSERT_NONNULL(model.find(kNode)), {"spec", "unschedulable"}));
}

}  // namespace
}  // namespace talos::kubed
