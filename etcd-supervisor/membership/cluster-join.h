// Joins an existing cluster: as a learner, which is promoted to a voter when it has caught up.
//
// One change of members at a time in the whole cluster, under a lock in its etcd. Data of an
// earlier life of this node is removed first. When the cluster has added this node, the intent is
// on disk before etcd starts. After a crash in between, the next attempt finds the entry, removes
// it, because no etcd was ever started with it, and adds the node again.
#pragma once

#include "etcd-supervisor/membership/cluster-view.h"
#include "etcd-supervisor/membership/local-member.h"

namespace talos::supervisor {

class Join {
 public:
  Join(Dependencies& deps, LocalMember& self, ClusterView& view)
      : deps(deps), self(self), view(view) {}

  // Makes one attempt, through the nodes that report that they are members: removes old data, adds
  // this node as a learner, and makes the intent kJoins. After an error the intent is unchanged,
  // but the cluster may list the node; the next attempt removes that entry.
  kj::Promise<void> attempt(kj::ArrayPtr<const PeerAnswer> members);

  // Makes one attempt to become a voter, through the other members: a learner cannot promote
  // itself. Returns true if it votes.
  kj::Promise<bool> promote(kj::ArrayPtr<const kj::String> known);

 private:
  Dependencies& deps;
  LocalMember& self;
  ClusterView& view;

  kj::Promise<void> add(etcd::Etcd& through, const Config& config);
  kj::Promise<etcd::MemberAdded> addThrough(kj::ArrayPtr<etcd::Etcd* const> endpoints,
                                            kj::StringPtr peerUrl);
};

// Throws for members of two clusters.
void requireOneCluster(kj::ArrayPtr<const PeerAnswer> members);

}  // namespace talos::supervisor
