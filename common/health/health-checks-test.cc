#include "common/health/health-checks.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/health/test-health.h"

namespace talos {
namespace {

// Returns the result of the check of this name: "OK", "SKIP" or what it waits for.
kj::String judged(ModelHealth& model, kj::StringPtr name,
                  kj::ArrayPtr<const kj::String> unregistered = nullptr) {
  for (auto& check : healthChecks()) {
    if (check.name != name) continue;
    HealthView view{.expected = model.expected, .unregistered = unregistered};
    auto all = model.expected.all();
    auto facts = model.facts(check.about == HealthCheck::About::kControlPlane
                                 ? model.expected.controlPlane.asPtr()
                                 : all.asPtr());
    view.nodes = facts;
    view.survey = model.survey.asReader();
    auto result = check.judge(view);
    if (result.state == CheckState::kPassed) return kj::str("OK");
    return result.state == CheckState::kSkipped ? kj::str("SKIP") : kj::mv(result.text);
  }
  KJ_FAIL_REQUIRE("no such check", name);
}

struct HealthCase {
  kj::StringPtr check;
  void (*change)(ModelHealth& model);
  kj::StringPtr result;
};

rpc::Survey::Node::Builder surveyNode(ModelHealth& m, unsigned index) {
  return m.survey.getNodes()[index];
}

constexpr kj::StringPtr kEtcd = "etcd to be healthy"_kj, kBootkube = "bootkube to finish"_kj,
                        kApid = "apid to be ready"_kj, kKubelet = "kubelet to be healthy"_kj,
                        kBoot = "all nodes to finish boot sequence"_kj,
                        kReport = "all k8s nodes to report"_kj,
                        kReady = "all k8s nodes to report ready"_kj,
                        kComponentsReady = "all control plane components to be ready"_kj,
                        kProxy = "kube-proxy to report ready"_kj,
                        kDns = "coredns to report ready"_kj,
                        kSchedulable = "all k8s nodes to report schedulable"_kj;

// Scripts match these texts and their order. Catches: another text, another limit.
TEST(HealthChecks, ChecksHaveTheirTextsAndLimits) {
  kj::Vector<kj::String> rows;
  for (auto& check : healthChecks()) {
    rows.add(kj::str(check.name, " ", check.limit / kj::MINUTES, "m ", check.interval / kj::SECONDS,
                     "s"));
  }
  EXPECT_EQ(kj::strArray(rows, "\n"),
            "etcd to be healthy 5m 5s\n"
            "bootkube to finish 5m 5s\n"
            "apid to be ready 5m 5s\n"
            "kubelet to be healthy 5m 5s\n"
            "all nodes to finish boot sequence 5m 5s\n"
            "all k8s nodes to report 5m 30s\n"
            "all k8s nodes to report ready 10m 5s\n"
            "all control plane components to be ready 5m 5s\n"
            "kube-proxy to report ready 3m 5s\n"
            "coredns to report ready 3m 5s\n"
            "all k8s nodes to report schedulable 5m 5s"_kj);
}

TEST(HealthChecks, AClusterThatIsWellPassesAll) {
  ModelHealth model;
  for (auto& check : healthChecks()) EXPECT_EQ(judged(model, check.name), "OK"_kj);
}

// Catches: a cluster that never becomes healthy because of a node that is not registered; an
// unregistered node for which another one that is missing is not named; a registered node that is
// too many.
TEST(HealthChecks, AnUnregisteredNodeNeedNotReport) {
  ModelHealth model;
  auto judge = [&](kj::StringPtr name) {
    auto unregistered = kj::arr(kj::str("10.5.0.4"));
    HealthView view{.expected = model.expected, .unregistered = unregistered};
    view.survey = model.survey.asReader();
    for (auto& check : healthChecks()) {
      if (check.name == name) return kj::str(resultText(check.judge(view)));
    }
    return kj::str();
  };
  EXPECT_EQ(judge(kReport), "OK"_kj) << "its object from before may still be there";
  auto disowned = model.survey.disownNodes();
  auto fewer = model.survey.initNodes(2);
  for (unsigned i = 0; i < 2; ++i) fewer.setWithCaveats(i, disowned.getReader()[i]);
  EXPECT_EQ(judge(kReport), "OK"_kj);
  fewer[1].initAddresses(1).set(0, "10.5.0.9");
  fewer[1].setName("other");
  EXPECT_EQ(judge(kReport),
            "expected nodes [\"10.5.0.2\" \"10.5.0.3\"], Kubernetes has [\"10.5.0.2\" "
            "\"10.5.0.9\"]"_kj);
}

// Catches: an unregistered node that disables a component, and for which a pod less is expected of
// the registered nodes.
TEST(HealthChecks, AnUnregisteredNodeThatDisablesAComponentLowersNoCount) {
  auto judge = [&](bool disabledOfSecond) {
    ModelHealth model;
    model.expected.workers.clear();
    model.expected.controlPlane.add(kj::str("10.5.0.4"));
    auto disowned = model.survey.disownNodes();
    auto fewer = model.survey.initNodes(2);
    for (unsigned i = 0; i < 2; ++i) fewer.setWithCaveats(i, disowned.getReader()[i]);
    model.nodes[2].unregistered = true;
    model.nodes[2].disabled.add(kj::str("kube-scheduler"));
    if (disabledOfSecond) model.nodes[1].disabled.add(kj::str("kube-scheduler"));
    model.pod("kube-scheduler", 0).setDeleted(true);
    auto unregistered = kj::arr(kj::str("10.5.0.4"));
    return judged(model, kComponentsReady, unregistered);
  };
  EXPECT_EQ(judge(false), "kube-scheduler: expected 2 pods, there are 1"_kj);
  EXPECT_EQ(judge(true), "OK"_kj);
}

// Catches: a problem that a check misses; one of several nodes that is not named; a problem of
// another kind of node that counts.
TEST(HealthChecks, WhatTheySay) {
  const HealthCase cases[] = {
      {kEtcd, [](auto& m) { m.nodes[1].silence = kj::str("no answer within 5s"); },
       "10.5.0.3: no answer within 5s"},
      {kEtcd,
       [](auto& m) {
         m.nodes[0].service(0).setState(rpc::ServiceState::PREPARING);
         m.nodes[0].service(0).initEvents(1)[0].setMessage("pulling the image");
         m.nodes[1].service(0).getHealth().setHealthy(false);
         m.nodes[1].service(0).getHealth().setLastMessage("no leader");
       },
       "10.5.0.2: service etcd is Preparing: pulling the image; "
       "10.5.0.3: service etcd is not healthy: no leader"},
      {kEtcd, [](auto& m) { m.nodes[0].service(0).setId("other"); },
       "10.5.0.2: service etcd is unknown"},
      {kEtcd, [](auto& m) { m.nodes[2].silence = kj::str("off"); }, "OK"},
      {kEtcd,
       [](auto& m) {
         m.nodes[0].service(0).getHealth().setHealthy(false);
         m.nodes[0].service(0).getHealth().setUnknown(true);
       },
       "10.5.0.2: service etcd was not checked yet"},
      {kBootkube,
       [](auto& m) { m.nodes[0].addService("bootkube").setState(rpc::ServiceState::RUNNING); },
       "10.5.0.2: service bootkube is Running"},
      {kBootkube,
       [](auto& m) { m.nodes[0].addService("bootkube").setState(rpc::ServiceState::SKIPPED); },
       "OK"},
      {kApid, [](auto& m) { m.nodes[2].silence = kj::str("connection refused"); },
       "10.5.0.4: connection refused"},
      {kKubelet, [](auto& m) { m.nodes[1].service(1).setState(rpc::ServiceState::FAILED); },
       "10.5.0.3: service kubelet is Failed"},
      {kKubelet, [](auto& m) { m.nodes[2].service(1).setState(rpc::ServiceState::FINISHED); },
       "10.5.0.4: service kubelet is Finished"},
      {kKubelet,
       [](auto& m) {
         m.nodes[1].state().initProblems(2).set(0, "service a has failed");
         m.nodes[1].state().getProblems().set(
             1, "Kubernetes has no Node object of this node; its kubelet is restarted");
       },
       "10.5.0.3: Kubernetes has no Node object of this node; its kubelet is restarted"},
      {kBoot,
       [](auto& m) {
         m.nodes[0].state().setStage(rpc::Status::Stage::BOOTING);
         m.nodes[0].state().setPhase("etcd");
         m.nodes[2].state().setStage(rpc::Status::Stage::FAILED);
         m.nodes[2].state().initProblems(1).set(0, "no disk");
       },
       "10.5.0.2: booting, phase etcd; 10.5.0.4: the boot has failed: no disk"},
      {kReport, [](auto& m) { m.expected.workers.add(kj::str("10.5.0.5")); },
       "expected nodes [\"10.5.0.2\" \"10.5.0.3\" \"10.5.0.4\" \"10.5.0.5\"], Kubernetes has "
       "[\"10.5.0.2\" \"10.5.0.3\" \"10.5.0.4\"]"},
      {kReport, [](auto& m) { m.expected.workers.clear(); },
       "expected nodes [\"10.5.0.2\" \"10.5.0.3\"], Kubernetes has [\"10.5.0.2\" \"10.5.0.3\" "
       "\"10.5.0.4\"]"},
      // By its name, and by its second address.
      {kReport,
       [](auto& m) {
         m.expected.workers[0] = kj::str("n3");
         auto addresses = surveyNode(m, 0).initAddresses(2);
         addresses.set(0, "fd00::2");
         addresses.set(1, "10.5.0.2");
       },
       "OK"},
      // A node under its earlier name and its new one, as they are discovered.
      {kReport,
       [](auto& m) {
         m.expected.workers[0] = kj::str("10.5.0.3");
         surveyNode(m, 2).getAddresses().set(0, "10.5.0.3");
       },
       "Kubernetes has the address 10.5.0.3 twice, of the nodes n2 and n3; the earlier name of a "
       "renamed node is removed within minutes, any other one with kubectl delete node"},
      {kReport, [](auto& m) { m.survey.initProblems(1).set(0, "cannot list nodes"); },
       "cannot list nodes"},
      {kReady,
       [](auto& m) {
         surveyNode(m, 0).setReady(false);
         surveyNode(m, 2).setReady(false);
         surveyNode(m, 2).setReason("KubeletNotReady");
         surveyNode(m, 2).setMessage("no CNI");
       },
       "nodes are not ready: n1; n3 (KubeletNotReady): no CNI"},
      {kComponentsReady,
       [](auto& m) {
         m.pod("kube-scheduler", 1).setReady(false);
         m.pod("kube-scheduler", 1).setReason("CrashLoopBackOff");
       },
       "kube-scheduler-1: CrashLoopBackOff"},
      {kComponentsReady,
       [](auto& m) {
         m.pod("kube-apiserver", 1).setCheckpoint(true);
         auto legacy = m.survey.getWorkloads()[0];
         legacy.setName("kube-scheduler");
         legacy.setReady(1);
       },
       "kube-apiserver: expected 2 pods, there are 1; DaemonSet kube-scheduler: 1 of 3 pods are "
       "ready"},
      {kComponentsReady,
       [](auto& m) {
         m.nodes[1].disabled.add(kj::str("kube-scheduler"));
         m.pod("kube-scheduler", 1).setDeleted(true);
       },
       "OK"},
      {kComponentsReady,
       [](auto& m) {
         m.nodes[1].disabled.add(kj::str("kube-scheduler"));
         m.pod("kube-scheduler", 1).setDeleted(true);
         m.pod("kube-controller-manager", 1).setDeleted(true);
       },
       "kube-controller-manager: expected 2 pods, there are 1"},
      {kComponentsReady, [](auto& m) { surveyNode(m, 1).setControlPlane(false); },
       "expected control-plane nodes [\"10.5.0.2\" \"10.5.0.3\"], Kubernetes has [\"10.5.0.2\"]"},
      {kProxy, [](auto& m) { m.survey.getWorkloads()[0].setApp("other"); }, "SKIP"},
      {kProxy,
       [](auto& m) {
         m.pod("kube-proxy", 1).setReady(false);
         m.pod("kube-proxy", 2).setReady(false);
         m.pod("kube-proxy", 2).setMessage("no image");
       },
       "kube-proxy-1: Running; kube-proxy-2: Running: no image"},
      {kProxy,
       [](auto& m) {
         for (auto pod : m.survey.getPods()) pod.setDeleted(true);
       },
       "there is no pod of kube-proxy"},
      {kDns, [](auto& m) { m.survey.getWorkloads()[1].setDesired(0); }, "SKIP"},
      // Pods that remain after an eviction do not count.
      {kDns,
       [](auto& m) {
         m.pod("kube-dns", 1).setReady(false);
         m.pod("kube-dns", 1).setPhase("Failed");
       },
       "OK"},
      {kDns,
       [](auto& m) {
         m.survey.initWorkloads(0);
         m.survey.initProblems(1).set(0, "cannot list replicasets");
       },
       "cannot list replicasets"},
      {kSchedulable,
       [](auto& m) {
         surveyNode(m, 0).setUnschedulable(true);
         surveyNode(m, 2).setUnschedulable(true);
       },
       "unschedulable: [\"n1\" \"n3\"]"},
  };
  for (auto& one : cases) {
    ModelHealth model;
    one.change(model);
    EXPECT_EQ(judged(model, one.check), one.result);
  }
}

TEST(HealthChecks, NodesAreDiscovered) {
  ModelHealth model;
  EXPECT_EQ(discoveredLine(discoveredNodes(model.survey)),
            "discovered nodes: control plane: [\"10.5.0.2\" \"10.5.0.3\"], worker: "
            "[\"10.5.0.4\"]"_kj);
}

}  // namespace
}  // namespace talos
