// The machine's side of a drain: its request, its timeouts, and the removal of the request.
#include "machined/kubernetes/kubelet/node-drain.h"

#include <gmock/gmock.h>

#include "common/testing/virtual-time.h"
#include "machined/kubernetes/kubelet/kubelet-run.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"

namespace talos::machined {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr kj::StringPtr kPair =
    "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"
    "-----BEGIN EC PRIVATE KEY-----\nQg==\n-----END EC PRIVATE KEY-----\n"_kj;

struct NodeDrainTest : public StoreTest {
  ~NodeDrainTest() noexcept override {}
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  kj::Maybe<kj::String> pair = kj::str(kPair);
  std::vector<std::string> reported;
  NodeDrain drain{{timer, store,
                   [this]() -> kj::Promise<kj::Maybe<pki::Pem>> {
                     return pair.map([](kj::String& text) { return pki::Pem(kj::str(text)); });
                   },
                   [this](kj::StringPtr line) { reported.push_back(line.cStr()); }}};

  void join() {
    know();
    kubelet(false);
  }
  void know() {
    putRecord<rpc::NodenameSpec>(
        store, kNodenameId, [](auto spec) { spec.setNodename("w-1"); }, "test");
    putRecord<rpc::KubeletSecretsSpec>(
        store, kKubeletId,
        [](auto spec) {
          spec.setCa("CA\n"_kj.asBytes());
          spec.setBootstrapKubeconfig("clusters:\n- cluster:\n    server: https://h:6443\n");
        },
        "test");
  }
  void kubelet(bool healthy) {
    putRecord<rpc::ServiceSpec>(
        store, kKubeletService,
        [&](auto spec) {
          spec.setRunning(true);
          spec.setHealthy(healthy);
        },
        "test");
    settle();
  }
  void settle() { advance(timer, scope, 1 * kj::SECONDS); }
  // Returns "drain 1 w-1"; empty if there is no request.
  std::string request() {
    KJ_IF_MAYBE (found, store.tryGet<rpc::NodeDrainSpec>(kNodeDrainId)) {
      return kj::str(found->getAction(), " ", found->getNumber(), " ", found->getNodename()).cStr();
    }
    return "";
  }
  bool offersClient() { return store.tryGet<rpc::KubeletClientSpec>(kKubeletId) != nullptr; }
  void answer(uint64_t number, kj::StringPtr state, kj::StringPtr message,
              kj::ArrayPtr<const kj::StringPtr> pods = nullptr, kj::StringPtr warning = "") {
    putRecord<rpc::NodeDrainStatusSpec>(
        store, kNodeDrainId,
        [&](auto spec) {
          spec.setNumber(number);
          spec.setState(state);
          spec.setMessage(message);
          auto list = spec.initPods(pods.size());
          for (auto i : kj::indices(pods)) list.set(i, pods[i]);
          if (warning.size() > 0) spec.initWarnings(1).set(0, warning);
        },
        "kubed");
    settle();
  }
};

// Catches: a reboot that waits for kubed to drain a node that Kubernetes does not have.
TEST_F(NodeDrainTest, AnUnregisteredNodeIsNotDrained) {
  putRecord<rpc::NodeSpecSpec>(
      store, "node", [](auto spec) { spec.setUnregistered(true); }, "test");
  drain.follow();
  join();
  kubelet(true);
  EXPECT_EQ("", request()) << "there is nothing to uncordon";
  auto done = drain.drain();
  settle();
  EXPECT_EQ("", request());
  EXPECT_TRUE(done.poll(scope));
}

// Catches: a key in place of the certificate; a kubeconfig of half of a pair.
TEST(KubeletClient, IsThePairOfTheKubelet) {
  auto text = KJ_ASSERT_NONNULL(kubeconfigOfKubelet("https://h:6443", "CA\n", kPair));
  kj::StringPtr written = text;
  EXPECT_THAT(written.cStr(), HasSubstr("client-certificate-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS"));
  EXPECT_THAT(written.cStr(), HasSubstr("client-key-data: LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS"));
  EXPECT_THAT(written.cStr(), HasSubstr("https://h:6443"));
  EXPECT_EQ(nullptr, strstr(written.cStr(), "tls-server-name"));
  auto named = KJ_ASSERT_NONNULL(kubeconfigOfKubelet("https://h:6443", "CA\n", kPair, "a.test"));
  EXPECT_THAT(kj::StringPtr(named).cStr(), HasSubstr("tls-server-name: a.test\n"));
  EXPECT_TRUE(kubeconfigOfKubelet("https://h:6443", "CA\n", "") == nullptr);
  EXPECT_TRUE(kubeconfigOfKubelet("", "CA\n", kPair) == nullptr);
  auto half = kj::heapString(kPair.slice(0, 60));
  EXPECT_TRUE(kubeconfigOfKubelet("https://h:6443", "CA\n", half) == nullptr);
}

// Catches: a node that shuts down before its pods have left, or does not report them; a certificate
// that is left in the store.
TEST_F(NodeDrainTest, AnUpgradeWaitsForItsPods) {
  join();
  drain.follow();
  auto draining = drain.drain();
  settle();
  EXPECT_EQ(request(), "drain 1 w-1");
  EXPECT_TRUE(offersClient());
  constexpr kj::StringPtr kPods[] = {"a/x"_kj, "a/y"_kj};
  answer(1, "draining", "2 pods are to leave", kPods);
  EXPECT_FALSE(draining.poll(scope));
  answer(1, "done", "drained but for 1 pods", kj::arrayPtr(kPods, 1), "pod a/x: hangs");
  draining.wait(scope);
  EXPECT_THAT(reported, ElementsAre("drain: 2 pods are to leave; waiting for a/x, a/y",
                                    "drain: drained but for 1 pods; waiting for a/x",
                                    "warning: drain: pod a/x: hangs"));
  drain.uncordon();
  settle();
  EXPECT_EQ(request(), "") << "not before the kubelet is healthy";
  kubelet(true);
  EXPECT_EQ(request(), "uncordon 2 w-1");
  answer(2, "done", "uncordoned");
  settle();
  EXPECT_EQ(request(), "");
  EXPECT_FALSE(offersClient());
}

// Catches: a node that never shuts down because kubed does not answer, or the drain does not end;
// an answer to an earlier request that is taken for an answer to this one.
TEST_F(NodeDrainTest, NobodyIsWaitedForForEver) {
  join();
  answer(6, "done", "uncordoned");
  auto draining = drain.drain();
  settle();
  EXPECT_EQ(request(), "drain 7 w-1");
  EXPECT_FALSE(draining.poll(scope));
  advance(timer, scope, 30 * kj::SECONDS);
  draining.wait(scope);
  EXPECT_THAT(reported, ElementsAre("warning: the node is not drained: kubed does not answer"));
  reported.clear();

  auto again = drain.drain();
  settle();
  answer(8, "draining", "1 pods are to leave");
  advance(timer, scope, 5 * kj::MINUTES);
  EXPECT_FALSE(again.poll(scope));
  advance(timer, scope, 1 * kj::MINUTES);
  again.wait(scope);
  EXPECT_THAT(reported,
              Contains("warning: the node is not drained after 6 minutes; shutting down anyway"));
}

// Catches: half a minute of waiting in each upgrade for a Kubernetes that has never run; pods that
// are left on the node because its kubelet is being restarted.
TEST_F(NodeDrainTest, WithoutAKubeletThereIsNothingToDrain) {
  know();
  drain.follow();
  auto draining = drain.drain();
  EXPECT_TRUE(draining.poll(scope));
  EXPECT_EQ(request(), "");
  EXPECT_THAT(reported, IsEmpty());

  kubelet(false);
  store.destroy("", typeName<rpc::ServiceSpec>(), kKubeletService, "test");
  settle();
  auto again = drain.drain();
  settle();
  EXPECT_EQ(request(), "drain 1 w-1");
}

// Catches: a node without Kubernetes that waits for it; a node that stays cordoned by a
// predecessor; a certificate that is renewed meanwhile and not used.
TEST_F(NodeDrainTest, WhatWasLeftIsPutBack) {
  drain.drain().wait(scope);
  join();
  pair = nullptr;
  drain.drain().wait(scope);
  EXPECT_EQ(request(), "");
  EXPECT_THAT(reported, IsEmpty());

  putRecord<rpc::NodeDrainSpec>(store, kNodeDrainId, [](auto spec) {
    spec.setAction("drain");
    spec.setNumber(3);
  });
  answer(3, "draining", "of the predecessor");
  kubelet(true);
  drain.follow();
  settle();
  EXPECT_EQ(request(), "") << "there is no certificate";
  pair = kj::str(kPair);
  advance(timer, scope, 10 * kj::SECONDS);
  EXPECT_EQ(request(), "uncordon 4 w-1");
  auto version = KJ_ASSERT_NONNULL(store.tryGet<rpc::KubeletClientSpec>(kKubeletId)).version();
  pair = kj::str("-----BEGIN CERTIFICATE-----\nQw==\n-----END CERTIFICATE-----\n", kPair);
  advance(timer, scope, 10 * kj::SECONDS);
  EXPECT_GT(KJ_ASSERT_NONNULL(store.tryGet<rpc::KubeletClientSpec>(kKubeletId)).version(), version);
}

// Catches: a worker whose kubed has no certificate to maintain the node's object; an old
// certificate after the renewal; a certificate that a control-plane node hands out without need.
TEST_F(NodeDrainTest, AWorkersKubedHasTheCertificateAllTheTime) {
  auto node = [&](bool controlPlane) {
    putRecord<rpc::NodeSpecSpec>(
        store, "node", [&](auto spec) { spec.setControlPlane(controlPlane); }, "test");
    settle();
  };
  join();
  drain.follow();
  node(false);
  EXPECT_FALSE(offersClient()) << "the kubelet is not healthy";
  kubelet(true);
  answer(1, "done", "uncordoned");
  EXPECT_EQ(request(), "");
  EXPECT_TRUE(offersClient());
  auto version = KJ_ASSERT_NONNULL(store.tryGet<rpc::KubeletClientSpec>(kKubeletId)).version();
  pair = kj::str("-----BEGIN CERTIFICATE-----\nQw==\n-----END CERTIFICATE-----\n", kPair);
  advance(timer, scope, 11 * kj::MINUTES);
  EXPECT_GT(KJ_ASSERT_NONNULL(store.tryGet<rpc::KubeletClientSpec>(kKubeletId)).version(), version);
  node(true);
  EXPECT_FALSE(offersClient());
}

}  // namespace
}  // namespace talos::machined
