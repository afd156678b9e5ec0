// Removes the Node objects that renamed machines have left behind (superseded-nodes.h), on every
// control-plane node: the first one removes, the others find it done.
//
// Machine id, UUID and addresses of a Node are what its kubelet reports, and a kubelet may report
// those of another machine that is away. So a worker's object is removed only if the successor has
// shown one of its addresses to trustd, with the certificate request of its kubelet
// (join-approver.h), which Kubernetes keeps for an hour; else it is left to an administrator.
//
// All nodes are watched; each change is looked at, and every few seconds those that may have become
// old enough. An object is removed only as it was looked at (uid and version). What was observed
// is forgotten when the watch fails, so nothing is removed by facts of before. Keeps nothing over a
// crash: the nodes are listed again.
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
  kj::Own<SharedKube> kubernetes;           // that is watched
  kj::TreeMap<kj::String, NodeRecord> all;  // by name
  Signal observed;
  kj::String logged, refused;  // the last errors: of the watch, of a removal

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
