// Leaving the cluster, and taking others out of it.
//
// The intent is on disk before the cluster is asked to remove this node. After a crash in between
// settle() asks the cluster whether it has: then this node has left, otherwise it is a member as
// before. Data is removed only of a node that its cluster has removed, and only when its etcd has
// ended.
//
// Before the cluster is asked, what needs this member lets go of it: a shared address moves to
// another node, which etcd has to be told of, and so does the leadership.
#pragma once

#include "etcd-supervisor/membership/cluster-view.h"
#include "etcd-supervisor/membership/local-member.h"
#include "etcd-supervisor/plan/departure-check.h"

namespace talos::supervisor {

class Leave {
 public:
  Leave(Edges& edges, Here& here, View& view) : edges(edges), here(here), view(view) {}

  // Resolves when the intent is kLeft. `known`: addresses of members, as far as they are known.
  kj::Promise<void> leave(bool force, kj::ArrayPtr<const kj::String> known);
  // The same, refused for each objection to this (../plan/departure-check.h); `force`: as leave().
  // A node whose data is damaged, and which leave() refuses, is taken out by the others.
  kj::Promise<void> withdraw(Going going, bool force, kj::ArrayPtr<const kj::String> known);
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

  // Throws when the member `own` must stay.
  using Judge = kj::Function<void(kj::ArrayPtr<const Voice> voices, etcd::MemberId own)>;

  kj::Promise<void> leaveUnless(Judge judge, kj::ArrayPtr<const kj::String> known);
  kj::Promise<etcd::Etcd*> doorBeside(const View::Answer& answer, etcd::MemberId id,
                                      kj::ArrayPtr<const kj::String> addresses);
  kj::Promise<void> removeSurely(kj::Vector<etcd::Etcd*> doors, etcd::MemberId id);
  kj::Promise<void> removeLocked(etcd::Etcd& through, etcd::MemberId own, Judge& judge,
                                 const Config& config);
  kj::Promise<void> giveUpAddresses();
  kj::Promise<void> moveAway(kj::ArrayPtr<const Voice> voices, etcd::MemberId own);
  void recordLeft();
};

// NotFound and InvalidArgument for what names none or several.
etcd::MemberId findMember(kj::StringPtr name, kj::ArrayPtr<const etcd::Member> members);

}  // namespace talos::supervisor
