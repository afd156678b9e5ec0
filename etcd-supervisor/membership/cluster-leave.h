// Removes this node, or another member, from the cluster.
//
// The intent is on disk before the request to remove this node. After a crash in between settle()
// looks up in the cluster whether the node was removed: if so, this node has left, otherwise it is
// still a member. Data is removed only on a node that its cluster has removed, and only when its
// etcd has exited.
//
// Before that, everything that needs this member moves to another node: a shared address, which
// etcd has to record, and the leadership.
#pragma once

#include "etcd-supervisor/membership/cluster-view.h"
#include "etcd-supervisor/membership/local-member.h"
#include "etcd-supervisor/plan/departure-check.h"

namespace talos::supervisor {

class Leave {
 public:
  Leave(Dependencies& deps, LocalMember& self, ClusterView& view)
      : deps(deps), self(self), view(view) {}

  // Removes this node from its cluster; resolves when the intent is kLeft. Its data stays. Rejects,
  // and changes no membership, if this node is no member, is needed, or is busy. After another
  // error the intent may be kLeaves, which settle() ends. `known`: addresses of members, as far as
  // they are known.
  kj::Promise<void> leave(bool force, kj::ArrayPtr<const kj::String> known);
  // Does the same as leave(), but refuses for each objection (../plan/departure-check.h) unless
  // `force`. The other members remove a node whose data is damaged, which leave() refuses.
  kj::Promise<void> withdraw(Going going, bool force, kj::ArrayPtr<const kj::String> known);
  // Settles an intent kLeaves on which no call is working: afterwards it is kLeft or kNone.
  kj::Promise<void> settle(kj::ArrayPtr<const kj::String> known);
  // Removes another member, by its name or its id in hexadecimal. Does not change this node's
  // intent, nor any data. After an error the member may be removed.
  kj::Promise<void> remove(kj::StringPtr member, bool force, kj::ArrayPtr<const kj::String> known);
  // Makes another member the leader and returns its name; empty, and nothing is changed, if the
  // local member was not the leader.
  kj::Promise<kj::String> forfeit();

 private:
  Dependencies& deps;
  LocalMember& self;
  ClusterView& view;

  // Throws if the member `own` must stay. `going`: another node that is about to be away.
  using Judge = kj::Function<void(kj::ArrayPtr<const MemberProbe> probes, etcd::MemberId own,
                                  const kj::Maybe<kj::String>& going)>;

  kj::Promise<void> leaveUnless(Judge judge, kj::ArrayPtr<const kj::String> known);
  kj::Promise<etcd::Etcd*> endpointBeside(const ClusterView::Answer& answer, etcd::MemberId id,
                                          kj::ArrayPtr<const kj::String> addresses);
  kj::Promise<void> removeSurely(kj::Vector<etcd::Etcd*> endpoints, etcd::MemberId id);
  kj::Promise<void> removeLocked(etcd::Etcd& through, etcd::MemberId own, Judge& judge,
                                 const Config& config);
  kj::Promise<void> giveUpAddresses();
  kj::Promise<void> moveAway(kj::ArrayPtr<const MemberProbe> probes, etcd::MemberId own);
  void recordLeft();
};

// Throws NotFound or InvalidArgument if the name matches no member or several.
etcd::MemberId findMember(kj::StringPtr name, kj::ArrayPtr<const etcd::Member> members);

}  // namespace talos::supervisor
