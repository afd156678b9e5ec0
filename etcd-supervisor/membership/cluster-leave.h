// Removes this node, or another member, from the cluster.
//
// The intent is on disk before the cluster is asked to remove this node. After a crash in between
// settle() asks the cluster if it has done so: then this node has left, otherwise it is a member as
// before. Data is removed only on a node that its cluster has removed, and only when its etcd has
// exited.
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

  // Resolves when the intent is kLeft. `known`: addresses of members, as far as they are known.
  kj::Promise<void> leave(bool force, kj::ArrayPtr<const kj::String> known);
  // As leave(), refused for each objection to this (../plan/departure-check.h) unless `force`. A
  // node whose data is damaged, and which leave() refuses, is removed by the others.
  kj::Promise<void> withdraw(Going going, bool force, kj::ArrayPtr<const kj::String> known);
  // Settles an intent kLeaves that no call is working on: afterwards it is kLeft or none.
  kj::Promise<void> settle(kj::ArrayPtr<const kj::String> known);
  // Another member: by its name, or its id in hexadecimal.
  kj::Promise<void> remove(kj::StringPtr member, bool force, kj::ArrayPtr<const kj::String> known);
  // The new leader's name; empty: the local member was none.
  kj::Promise<kj::String> forfeit();

 private:
  Dependencies& deps;
  LocalMember& self;
  ClusterView& view;

  // Throws when the member `own` must stay.
  using Judge = kj::Function<void(kj::ArrayPtr<const MemberProbe> probes, etcd::MemberId own)>;

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

// NotFound and InvalidArgument for what names none or several.
etcd::MemberId findMember(kj::StringPtr name, kj::ArrayPtr<const etcd::Member> members);

}  // namespace talos::supervisor
