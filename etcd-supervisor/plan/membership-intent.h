// The intent of this node, which it must not forget: the one file of etcd-supervisor.
//
//   makes    it makes a new cluster. Written before etcd starts, gone when there is data
//   joins    it was added to a cluster, by this id, and starts with this list of members. Gone when
//            it votes
//   leaves   it is about to be removed from its cluster. Gone when the others say that it is not
//   left     it was removed; its data goes, and it joins nothing by itself until the next boot
//
// A node that makes a cluster of a snapshot keeps that fact until what must not outlive the
// snapshot has ended (Dependencies::recovered), also when there is data; until then it is `makes`
// to other nodes.
//
// Besides, in any state, the id of this node's member as last observed: a member that was removed
// is not mistaken for another one that has its name or its address now. The lease of the turn with
// which it reboots (membership/reboot-turn.h). And, until it votes: the other nodes of the cluster
// to be that have asked it and that its config need not name.
//
// The file is whole after a crash at any line: the old intent or the new one.
#pragma once

#include "etcd-supervisor/plan/membership-types.h"

namespace talos::supervisor {

struct Intent {
  enum class State { kNone, kMakes, kJoins, kLeaves, kLeft };
  State state = State::kNone;
  etcd::MemberId member = 0;  // this node's; 0: not known, or none
  etcd::LeaseId rebootLease = 0;
  kj::String cluster;     // joins: name=url,name=url; makes: its token
  bool recovers = false;  // makes: of a snapshot; with data: one was restored
  bool skipHashCheck = false;
  kj::Vector<kj::String> learnedPeers;  // addresses
  kj::Vector<kj::String> unknown;  // lines of a later release, for it: keys unknown to this one

  Intent clone() const;
};

kj::StringPtr nameOf(Intent::State state);

// A line for each thing that it says.
kj::String format(const Intent& intent);
// InvalidArgument, naming the line, for what no release writes, and for a state that is unknown to
// this one: it would not continue what the node was about to do.
Intent parseIntent(kj::StringPtr text);

}  // namespace talos::supervisor
