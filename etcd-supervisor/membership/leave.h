// Leaving the cluster, and taking others out of it.
//
// The intent is on disk before the cluster is asked to remove this node. After a crash in between
// settle() asks the cluster whether it has: then this node has left, otherwise it is a member as
// before. Data is removed only of a node that its cluster has removed, and only when its etcd has
// ended.
#pragma once

#include "etcd-supervisor/membership/cluster-view.h"
#include "etcd-supervisor/membership/here.h"

namespace talos::supervisor {

class Leave {
 public:
  Leave(Edges& edges, Here& here, View& view) : edges(edges), here(here), view(view) {}

  // Resolves when the intent is kLeft. `known`: addresses of members, as far as they are known.
  kj::Promise<void> leave(bool force, kj::ArrayPtr<const kj::String> known);
  // Of an intent kLeaves that nobody is at: kLeft or none.
  kj::Promise<void> settle(kj::ArrayPtr<const kj::String> known);
  // Another member: by its name, or its id in hexadecimal.
  kj::Promise<void> remove(kj::StringPtr member, bool force, kj::ArrayPtr<const kj::String> known);
  // The new leader's name; empty: the local member was none.
  kj::Promise<kj::String> forfeit();

 private:
  Edges& edges;
  Here& here;
  View& view;

  kj::Promise<void> removeSurely(etcd::Etcd& through, etcd::MemberId id);
  kj::Promise<void> removeLocked(etcd::Etcd& through, etcd::MemberId own, bool force,
                                 const Config& config);
  kj::Promise<void> moveAway(kj::ArrayPtr<const Voice> voices, etcd::MemberId own);
  void recordLeft();
};

// NotFound and InvalidArgument for what names none or several.
etcd::MemberId findMember(kj::StringPtr name, kj::ArrayPtr<const etcd::Member> members);

}  // namespace talos::supervisor
