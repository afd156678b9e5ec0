// For tests: three control-plane nodes and two workers, all healthy and of one version.
#pragma once

#include "talosctl/upgrade-cluster/cluster-survey.h"

namespace talos::talosctl {

inline ClusterSurvey modelSurvey(unsigned controlPlanes = 3, unsigned workers = 2) {
  ClusterSurvey survey;
  EtcdSurvey etcd;
  etcd.quorum = true;
  KubernetesSurvey kubernetes;
  for (unsigned i = 0; i < controlPlanes + workers; ++i) {
    bool controlPlane = i < controlPlanes;
    NodeSurvey node;
    node.address = kj::str("10.5.0.", i + 2);
    node.hostname = controlPlane ? kj::str("m-", i + 1) : kj::str("w-", i + 1 - controlPlanes);
    node.version = kj::str("v1");
    node.bootId = kj::str("boot-1");
    node.controlPlane = controlPlane;
    node.stage = kj::str("running");
    node.freeBytes = 8ull << 30;
    node.upgrade = UpgradeState{.stage = kj::str("none"),
                                .slot = kj::str("A"),
                                .version = kj::str("v1"),
                                .image = {},
                                .digest = {},
                                .reason = {}};
    if (controlPlane) {
      node.etcdPhase = kj::str("member");
      node.etcdApplied = 1000;
      etcd.members.add(EtcdSurvey::Member{kj::str(node.hostname), kj::str(), false, i == 0});
      if (i == 1) node.sharedAddresses.add(kj::str("10.5.0.100"));
    }
    kubernetes.nodes.add(KubernetesSurvey::Node{kj::str(node.hostname), kj::str(node.address),
                                                kj::str("KubeletReady"), true, false,
                                                controlPlane});
    survey.nodes.add(kj::mv(node));
  }
  survey.etcd = kj::mv(etcd);
  survey.kubernetes = kj::mv(kubernetes);
  return survey;
}

inline TargetImage modelTarget() {
  return {kj::str("r/i:v2"), kj::str("r/i@sha256:aa"), kj::str("v2")};
}

// Sets the stage of the node's upgrade to the target; "done" means that it runs the target.
inline void setStage(NodeSurvey& node, kj::StringPtr stage, kj::StringPtr version = "v2"_kj) {
  auto target = modelTarget();
  node.version = kj::str(version);
  node.upgrade = UpgradeState{.stage = kj::str(stage),
                              .slot = kj::str("B"),
                              .version = kj::str(version),
                              .image = kj::mv(target.text),
                              .digest = kj::mv(target.digest),
                              .reason = {}};
}

}  // namespace talos::talosctl
