// The cluster of an upgrade: its nodes, each by its own address through the endpoint of the client,
// and Kubernetes, with an admin kubeconfig that the first node gives.
#pragma once

#include "common/kube/kube-client.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/upgrade-k8s/upgrade-run.h"

namespace talos::talosctl {

class ClusterEdges final : public UpgradeEdges {
 public:
  // `client` outlives it. `node`: a control-plane node. `server`: see KubeRoute; none: the endpoint
  // of talosctl is a second way. `deadline`: of each answer of a node, but a pull's.
  ClusterEdges(Client& client, kj::StringPtr node, kj::StringPtr server, kj::Duration deadline)
      : client(client), first(kj::str(node)), server(kj::str(server)), deadline(deadline) {}

  kj::Promise<SeenCluster> look(bool workers) override;
  kj::Promise<void> pull(const SeenNode& node, kj::StringPtr image) override;
  kj::Promise<void> setImages(const SeenNode& node, kj::ArrayPtr<const ImageChange* const> changes,
                              bool rehearsal) override;
  kj::Promise<SeenDefinition> definition(const SeenNode& node, KubernetesPart part) override;
  kj::Promise<kj::Maybe<SeenPod>> pod(const SeenNode& node, KubernetesPart part) override;
  kj::Promise<kj::String> apiServerRelease(const SeenNode& node) override;
  kj::Promise<SeenKubelet> kubelet(const SeenNode& node) override;
  kj::Promise<void> setDaemonSetImage(kj::StringPtr image) override;
  kj::Promise<SeenDaemonSet> daemonSet() override;

 private:
  Client& client;
  kj::String first, server;
  kj::Duration deadline;
  kj::Maybe<kj::Own<kube::KubeClient>> connection;

  kj::Promise<void> refuseSelfHosted();
  kj::Promise<void> lookAt(SeenNode& node, bool kubelet);
  kj::Promise<kj::Maybe<kj::String>> proxyImage();
  kube::KubeClient& kubernetes();
};

}  // namespace talos::talosctl
