// Takes this node out of service in Kubernetes before it goes for an upgrade or a graceful reset,
// and puts it back when it is there again: a wish in NodeDrains[node], which kubed carries out
// (kubed/nodes/node-drainer.h), and what it answers in NodeDrainStatuses[node].
//
// While there is a wish, KubeletClients[kubelet] has a kubeconfig of the kubelet's own certificate,
// read anew as the kubelet renews it, so kubed may what the kubelet may; on a worker nothing else.
// There it has it for as long as the kubelet is healthy: kubed keeps the node's object with it
// (kubed/nodes/node-reconciler.h).
//
// A drain keeps nobody from going: whatever does not work is told as a warning, and each wait has
// an end. A node that has not joined a cluster has nothing to drain. That a node was cordoned is
// remembered by its object, so after a crash or a power cut at any line the next brain, of this
// boot or the next, wishes it uncordoned; one that was not cordoned by us stays as it is.
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
  bool uncordons = false;  // it is to be wished when the kubelet is healthy
  kj::String lastReported;
  kj::Promise<void> following = nullptr;

  kj::Promise<void> keepWish();
  kj::Promise<bool> offerClient();
  uint64_t request(kj::StringPtr action);  // its number
  void settle();
  bool keepsNode();
  bool tellProgress(uint64_t number, bool& answered);
  kj::Maybe<kj::String> nodename() const;
};

}  // namespace talos::machined
