// Becoming a member of a cluster that there is: as a learner, which votes when it has caught up.
//
// One change of members at a time in the whole cluster, under a lock in its etcd. What is left of
// an earlier life of this node is removed first. When the cluster has taken this node in, the
// intent is on disk before etcd starts; after a crash in between the next attempt finds the entry,
// removes it, as nothing was ever started by it, and is taken in anew.
#pragma once

#include "etcd-supervisor/membership/cluster-view.h"
#include "etcd-supervisor/membership/local-member.h"

namespace talos::supervisor {

class Join {
 public:
  Join(Edges& edges, Here& here, View& view) : edges(edges), here(here), view(view) {}

  // One attempt, with the nodes that have said that they are members. Rejects with the reason;
  // afterwards the intent may be kJoins.
  kj::Promise<void> attempt(kj::ArrayPtr<const Asked> members);

  // One attempt to become a voter, through the others: a learner cannot do it. True: it votes.
  kj::Promise<bool> promote(kj::ArrayPtr<const kj::String> known);

 private:
  Edges& edges;
  Here& here;
  View& view;

  kj::Promise<void> add(etcd::Etcd& through, const Config& config);
  kj::Promise<etcd::MemberAdded> addThrough(kj::ArrayPtr<etcd::Etcd* const> doors,
                                            kj::StringPtr peerUrl);
};

// Refuses what belongs to two clusters.
void requireOneCluster(kj::ArrayPtr<const Asked> members);

}  // namespace talos::supervisor
