// Removes the Node objects of the former names of renamed machines (superseded-nodes.h), on every
// control-plane node: the first one removes an object, the others find it removed.
//
// A Node's kubelet reports its machine id, UUID and addresses, and may report those of another
// machine that is away. So a worker's object is removed only if the successor has proved one of its
// addresses to trustd, with the certificate request of its kubelet (join-approver.h), which
// Kubernetes keeps for an hour; otherwise it is left to an administrator.
//
// All nodes are watched; each change is checked, and every few seconds those that may have become
// old enough. An object is removed only in the version that was checked (uid and version).
// Observations are dropped when the watch fails, so no object is removed because of outdated facts.
// No state survives a crash: the nodes are listed again.
#pragma once

#include "kubed/nodes/superseded-nodes.h"
#include "kubed/nodes/watch-reconciler.h"

namespace talos::kubed {

struct NodeRemoval;

class SupersededNodeReconciler final : public WatchReconciler {
 public:
  explicit SupersededNodeReconciler(const KubedDependencies& deps)
      : WatchReconciler(deps.timer, deps.random, deps.changed), deps(deps) {}
  ~SupersededNodeReconciler() noexcept(false) = default;

  kj::Promise<void> run();  // until dropped

 private:
  KubedDependencies deps;
  kj::Own<SharedKube> kubernetes;           // the client that watches
  kj::TreeMap<kj::String, NodeRecord> all;  // by name
  Signal observed;
  kj::String logged, refused;  // last errors: of the watch, of a removal

  kj::Promise<kj::Maybe<Selection>> select() override;
  void startList() override { all.clear(); }
  void take(const kube::Json& node, bool deleted) override;
  kj::Promise<void> publish() override;
  void watchStarted() override { logged = kj::str(); }
  kj::Promise<void> failed(kj::String error) override;
  kj::Promise<void> removeAgainAndAgain();
  kj::Vector<NodeRemoval> removals(kj::StringPtr local);
  kj::Promise<void> findProofs(SharedKube& client, kj::ArrayPtr<NodeRemoval> removals);
  kj::Promise<void> removeSuperseded();
};

}  // namespace talos::kubed
