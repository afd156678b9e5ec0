// Takes this node out of service in Kubernetes before an upgrade or a graceful reset, and back
// afterwards: a request in NodeDrains[node], which kubed carries out (kubed/nodes/node-drainer.h),
// answered in NodeDrainStatuses[node].
//
// While there is a request, KubeletClients[kubelet] has a kubeconfig of the kubelet's own
// certificate, updated when the kubelet renews it, so kubed has the kubelet's rights. On a worker
// kubed has no other certificate: the kubeconfig stays as long as the kubelet is healthy, for the
// node's object (kubed/nodes/node-reconciler.h).
//
// A drain never blocks the shutdown: failures are warnings, and each wait has a timeout. A node
// that has not joined a cluster has nothing to drain, nor has a node whose kubelet has not run
// since the boot, because it has no pods. The node's object records that it was cordoned by this
// node, so after a crash or a power cut at any line the next brain, of this boot or the next,
// requests to uncordon it; a node that was cordoned otherwise stays as it is.
#pragma once

#include <kj/timer.h>

#include "common/base/signal.h"
#include "common/tls/pki.h"
#include "machined/resources/store.h"

namespace talos::machined {

constexpr kj::StringPtr kNodeDrainId = "node"_kj;
constexpr kj::StringPtr kKubeletClientPair = "/var/lib/kubelet/pki/kubelet-client-current.pem"_kj;

// Returns the kubelet's kubeconfig; nullptr if the pair lacks a certificate or a key, or without a
// server. `tlsName`: name in the server's certificate; empty for the server's host. Pure.
kj::Maybe<pki::Pem> kubeconfigOfKubelet(kj::StringPtr server, kj::StringPtr authority,
                                        kj::StringPtr pair, kj::StringPtr tlsName = "");

class NodeDrain {
 public:
  struct Dependencies {
    kj::Timer& timer;
    Store& store;
    // Reads kKubeletClientPair off the loop; nullptr if the file does not exist.
    kj::Function<kj::Promise<kj::Maybe<pki::Pem>>()> readPair;
    kj::Function<void(kj::StringPtr line)> report;  // to the console, and the event log
  };
  explicit NodeDrain(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(NodeDrain);

  // Called once, by a brain of a node that does not shut down: uncordons the node, in case a
  // predecessor, or the boot before, has drained it.
  void follow();

  // Resolves when the node is drained, or has not been within kDrainEnd. Does not reject.
  kj::Promise<void> drain();
  // Uncordons the node as soon as the kubelet is healthy.
  void uncordon();

 private:
  Dependencies deps;
  Signal changed;
  kj::Own<void> requests, statuses, services, nodes;
  bool uncordons = false;  // request it when the kubelet is healthy
  bool kubeletRan = false;
  kj::String lastReported;
  kj::Promise<void> following = nullptr;

  kj::Promise<void> putRequest();
  kj::Promise<bool> offerClient();
  uint64_t request(kj::StringPtr action);  // returns its number
  void settle();
  bool isUnregistered();
  bool keepsNode();
  bool mayUncordon();
  void noteKubelet();
  bool tellProgress(uint64_t number, bool& answered);
  kj::Maybe<kj::String> nodename() const;
};

}  // namespace talos::machined
