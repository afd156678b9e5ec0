// The cluster of an upgrade: its nodes, each called by its own address through the client's
// endpoint, and Kubernetes, called with an admin kubeconfig from the first node.
#pragma once

#include "common/kube/kube-client.h"
#include "talosctl/rollout/node-calls.h"
#include "talosctl/upgrade-k8s/upgrade-run.h"

namespace talos::talosctl {

class RemoteCluster final : public UpgradableCluster {
 public:
  // `client` must outlive this object. `node`: a control-plane node. `server`: as for
  // kubernetesRoute(). `deadline`: for each answer of a node, except for a pull.
  RemoteCluster(Client& client, kj::StringPtr node, kj::StringPtr server, kj::Duration deadline)
      : calls(client, deadline), first(kj::str(node)), server(kj::str(server)) {}

  kj::Promise<ClusterState> read(bool workers) override;
  kj::Promise<UpgradeHazards> hazards(const ClusterState& state, KubernetesVersion to) override;
  kj::Promise<void> pull(const NodeState& node, kj::StringPtr image) override;
  kj::Promise<void> setImages(const NodeState& node, kj::ArrayPtr<const ImageChange* const> changes,
                              bool rehearsal) override;
  kj::Promise<PodDefinition> definition(const NodeState& node, KubernetesPart part) override;
  kj::Promise<kj::Maybe<PodState>> pod(const NodeState& node, KubernetesPart part) override;
  kj::Promise<kj::String> apiServerRelease(const NodeState& node) override;
  kj::Promise<KubeletState> kubelet(const NodeState& node) override;
  kj::Promise<void> setDaemonSetImage(kj::StringPtr image) override;
  kj::Promise<DaemonSetState> daemonSet() override;
  kj::Promise<kj::Maybe<kj::Vector<kube::ManifestObject>>> manifests(
      const NodeState& node, kj::ArrayPtr<const ImageChange* const> changes) override;
  kj::Promise<ObjectChange> changeObject(const kube::ManifestObject& object,
                                         bool rehearsal) override;
  kj::Promise<kj::String> rollout(const kube::ManifestObject& object) override;

 private:
  NodeCalls calls;
  kj::String first, server;
  kj::Maybe<kj::Own<kube::KubeClient>> connection;

  kj::Promise<void> refuseSelfHosted();
  kj::Promise<void> readNodeState(NodeState& node, bool kubelet);
  kj::Promise<kj::Maybe<kj::String>> proxyImage();
  kj::Promise<bool> askMetrics(const NodeState& node, UpgradeHazards& found);
  kj::Promise<void> findDeprecated(const ClusterState& state, UpgradeHazards& found);
  kj::Promise<void> findWritten(DeprecatedApi& api);
  kj::Promise<void> findSilent(UpgradeHazards& found);
  kj::Promise<void> orUnknown(kj::Promise<void> look, kj::StringPtr lacking, UpgradeHazards& found);
  kube::KubeClient& kubernetes();
};

}  // namespace talos::talosctl
