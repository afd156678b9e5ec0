// Takes this node out of service in Kubernetes before an upgrade or a graceful reset, and back
// afterwards: a request in NodeDrains[node], which kubed carries out (kubed/nodes/node-drainer.h),
// answered in NodeDrainStatuses[node].
//
// While there is a request, KubeletClients[kubelet] has a kubeconfig of the kubelet's own
// certificate, updated when the kubelet renews it, so kubed has the kubelet's rights. On a worker
// kubed has no other certificate: there it stays for as long as the kubelet is healthy, for the
// node's object (kubed/nodes/node-reconciler.h).
//
// A drain never blocks the shutdown: failures are warnings, and each wait has a timeout. A node
// that has not joined a cluster has nothing to drain, and neither has one whose kubelet has not run
// since the boot: it has no pods. The node's object remembers that it was
// cordoned, so after a crash or a power cut at any line the next brain, of this boot or the next,
// requests to uncordon it; a node that somebody else has cordoned stays as it is.
#pragma once

#include <kj/timer.h>

#include "common/base/signal.h"
#include "common/tls/pki.h"
#include "machined/resources/store.h"

namespace talos::machined {

constexpr kj::StringPtr kNodeDrainId = "node"_kj;
constexpr kj::StringPtr kKubeletClientPair = "/var/lib/kubelet/pki/kubelet-client-current.pem"_kj;

// The kubeconfig for it; none without a certificate, or a key, in the pair, or without a server.
// Pure.
kj::Maybe<pki::Pem> kubeconfigOfKubelet(kj::StringPtr server, kj::StringPtr authority,
                                        kj::StringPtr pair);

class NodeDrain {
 public:
  struct Dependencies {
    kj::Timer& timer;
    Store& store;
    // Of kKubeletClientPair; none: there is no such file. Off the loop.
    kj::Function<kj::Promise<kj::Maybe<pki::Pem>>()> readPair;
    kj::Function<void(kj::StringPtr line)> report;  // the console, and the event log
  };
  explicit NodeDrain(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(NodeDrain);

  // Once, by a brain of a node that does not go down: the node is put back, for whatever a
  // predecessor, or the boot before, has drained it.
  void follow();

  // Resolves when the node is drained, or has not been within kDrainEnd. Does not reject.
  kj::Promise<void> drain();
  // When the kubelet is healthy, whenever that is.
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
  uint64_t request(kj::StringPtr action);  // its number
  void settle();
  bool keepsNode();
  void noteKubelet();
  bool tellProgress(uint64_t number, bool& answered);
  kj::Maybe<kj::String> nodename() const;
};

}  // namespace talos::machined
