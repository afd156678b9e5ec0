#include "machined/brain/config-effects.h"

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/kube/node-roles.h"
#include "common/testing/virtual-time.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

struct ConfigEffectsTest : testing::Test {
  ~ConfigEffectsTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Registry registry;
  TestClock clock;
  Store store{registry, clock};
  ControllerRuntime controllers{store, [](kj::StringPtr) {}, timer, clock, [] { return 0.5; }};
  std::string ofKernel = "machine.sysctls.vm.a: refused", ofEtcd = "etcd does not start: why";
  bool kernelHangs = false;
  std::vector<std::string> leftOut;  // of the plan of the network
  ConfigEffects effects{{.timer = timer,
                         .store = store,
                         .controllers = controllers,
                         .kernel = [this]() -> kj::Promise<ConfigEffects::Texts> {
                           if (kernelHangs) return kj::NEVER_DONE;
                           if (ofKernel.empty())
                             return error(ErrorKind::kUnavailable, "not booted");
                           return kj::arr(kj::str(ofKernel.c_str()));
                         },
                         .refusedLabels =
                             [] {
                               kj::Vector<kj::String> refused;
                               refused.add(kj::str("node-role.kubernetes.io/db"));
                               return refused;
                             },
                         .networkProblems =
                             [this] {
                               kj::Vector<kj::String> problems;
                               for (auto& problem : leftOut) problems.add(kj::str(problem.c_str()));
                               return problems;
                             },
                         .etcd = [this](kj::Duration) -> kj::Promise<kj::Maybe<kj::String>> {
                           if (ofEtcd.empty()) return kj::Maybe<kj::String>();
                           return kj::Maybe<kj::String>(kj::str(ofEtcd.c_str()));
                         }}};
  kj::Vector<config::Change> changed;

  auto ask(std::initializer_list<kj::StringPtr> paths) {
    changed.clear();
    for (auto path : paths) changed.add(config::Change{kj::str(path), true});
    return effects.missing(changed);
  }
  std::string answer(kj::Promise<ConfigEffects::Texts> asked) {
    if (!asked.poll(scope)) return "still looking";
    return kj::strArray(asked.wait(scope), " | ").cStr();
  }
  void isWorker() {
    putRecord<rpc::MachineTypeSpec>(store, "machine-type",
                                    [](auto spec) { spec.setType(rpc::MachineType::JOIN); });
  }
  void kubedReports(kj::StringPtr message) {
    putRecord<rpc::NodeStatusSpec>(
        store, "node",
        [&](auto spec) {
          spec.setApplied(message.size() == 0);
          spec.setMessage(message);
        },
        "kubed");
  }
};

// Catches: "in effect" for a kernel parameter that the kernel refused; a wait without an end; a
// part that is looked at although it did not change.
TEST_F(ConfigEffectsTest, OnlyChangedKeysAreLookedAt) {
  EXPECT_EQ("", answer(ask({})));
  EXPECT_EQ("", answer(ask({"cluster.apiServer.extraArgs.v", "machine.certSANs"})));
  for (auto key : {"machine.sysctls.vm.a"_kj, "machine.sysfs.a"_kj, "machine.kernel.modules"_kj,
                   "machine.watchdog.timeout"_kj}) {
    EXPECT_EQ("machine.sysctls.vm.a: refused", answer(ask({key}))) << key.cStr();
  }
  ofKernel = "";
  EXPECT_EQ("machine.sysfs: not booted", answer(ask({"machine.sysfs.a"})));
  kernelHangs = true;
  auto asked = ask({"machine.sysctls.vm.a", "cluster.etcd.extraArgs.a"});
  EXPECT_FALSE(asked.poll(scope));
  advance(timer, scope, 6 * kj::SECONDS);
  EXPECT_EQ(
      "machine.sysctls: the kernel has not taken them within 5s | "
      "cluster.etcd: etcd does not start: why",
      answer(kj::mv(asked)));
  ofEtcd = "";
  EXPECT_EQ("", answer(ask({"cluster.etcd.extraArgs.a"})));
}

// Catches: a link that the kernel refuses and that is "in effect".
TEST_F(ConfigEffectsTest, ALinkThatCannotBeMade) {
  putRecord<rpc::LinkSpecSpec>(store, "dummy1", [](auto) {});
  putRecord<rpc::NetworkStatusSpec>(store, "status", [](auto spec) {
    spec.initProblems(1).set(0, "link dummy1: Operation not supported");
  });
  auto asked = ask({"machine.network.interfaces"});
  EXPECT_FALSE(asked.poll(scope)) << "networkd may be about to make it";
  advance(timer, scope, 6 * kj::SECONDS);
  EXPECT_EQ("machine.network: link dummy1: Operation not supported", answer(kj::mv(asked)));
}

// Catches: a route that machined leaves out, so that networkd never gets it, and that is "in
// effect"; a problem of a selector that is repeated.
TEST_F(ConfigEffectsTest, WhatThePlanOfTheNetworkLeavesOutIsNotInEffect) {
  leftOut = {"eth0: the route to 0.0.0.0/0 is ignored: x", "deviceSelector driver=a: no such link"};
  putRecord<rpc::NetworkStatusSpec>(store, "status", [](auto spec) {
    spec.initProblems(1).set(0, "deviceSelector driver=a: no such link");
  });
  EXPECT_EQ(
      "machine.network: eth0: the route to 0.0.0.0/0 is ignored: x | "
      "machine.network: deviceSelector driver=a: no such link",
      answer(ask({"machine.network.interfaces"})));
  EXPECT_EQ("", answer(ask({"machine.certSANs"})));
}

// Catches: a taint that a worker may not give itself and that is "in effect", because kubed had not
// looked yet; an answer about another key; a control-plane node that waits for nothing.
TEST_F(ConfigEffectsTest, TaintsOfAWorker) {
  kubedReports("");
  EXPECT_EQ("", answer(ask({"machine.nodeTaints.gpu"}))) << "a control plane sets them itself";
  isWorker();
  auto asked = ask({"machine.nodeTaints.gpu"});
  advance(timer, scope, 4 * kj::SECONDS);
  EXPECT_FALSE(asked.poll(scope));
  auto left = kj::str(kube::kOwnTaints, "kubectl taint --overwrite nodes w gpu:NoSchedule");
  kubedReports(left);
  EXPECT_EQ(kj::str("machine.nodeTaints: ", left).cStr(), answer(kj::mv(asked)));
  EXPECT_EQ("", answer(ask({"machine.nodeAnnotations.a"}))) << "that is not about annotations";

  kubedReports("");
  asked = ask({"machine.nodeTaints.gpu"});
  advance(timer, scope, 6 * kj::SECONDS);
  EXPECT_EQ("", answer(kj::mv(asked))) << "an administrator has set it already";
  kubedReports("Kubernetes at lb:6443: connection refused");
  asked = ask({"machine.nodeAnnotations.a"});
  EXPECT_FALSE(asked.poll(scope));
  advance(timer, scope, 6 * kj::SECONDS);
  EXPECT_EQ("machine.nodeAnnotations: Kubernetes at lb:6443: connection refused",
            answer(kj::mv(asked)));
}

// Catches: a label that admission refuses and that is "in effect".
TEST_F(ConfigEffectsTest, LabelsThatAWorkerMayNotHave) {
  EXPECT_EQ(
      "machine.nodeLabels: a worker may not give itself the label "
      "node-role.kubernetes.io/db; kubectl label node does it",
      answer(ask({"machine.nodeLabels[\"node-role.kubernetes.io/db\"]"})));
}

}  // namespace
}  // namespace talos::machined
