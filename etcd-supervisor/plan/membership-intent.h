// Intent of this node, which it must not forget: the only file of etcd-supervisor.
//
//   makes    it makes a new cluster. Written before etcd starts, gone when there is data
//   joins    it was added to a cluster, by this id, and starts with this list of members. Gone when
//            it votes
//   leaves   it is about to be removed from its cluster. Gone when the others say that it is not
//   left     it was removed; its data goes, and it joins nothing by itself until the next boot
//
// A node that makes a cluster from a snapshot keeps this fact until everything that must not
// outlive the snapshot has ended (Dependencies::recovered), also when there is data; until then it
// reports `makes` to other nodes.
//
// In any state, the file also has the id of this node's member as last observed, so that a removed
// member is not mistaken for another one that now has its name or its address; the lease of the
// turn with which it reboots (membership/reboot-turn.h); and, until it votes, the other nodes of
// the future cluster that have queried it and that its config need not name. While the node has
// data, the file has the members' peer URLs as a quorum last reported them, and former addresses of
// this node's member (plan/moved-member.h): a list that is too old only costs attempts to connect.
//
// After a crash at any line the file is complete: the old intent or the new one.
#pragma once

#include "etcd-supervisor/plan/membership-types.h"

namespace talos::supervisor {

// A member at one of its peer URLs.
struct KnownMember {
  etcd::MemberId id = 0;
  kj::String peerUrl, name;

  bool operator==(const KnownMember&) const = default;
};

KnownMember clone(const KnownMember& member);

struct Intent {
  enum class State {
    kNone,    // next: kMakes, kJoins, kLeaves; kLeft if the others have removed the member
    kMakes,   // next: kNone
    kJoins,   // next: kNone, kLeaves, kLeft
    kLeaves,  // next: kLeft; kNone if the others have not removed the member
    kLeft,    // next: kMakes; kNone at the next boot
  };
  State state = State::kNone;
  etcd::MemberId member = 0;  // this node's; 0: not known, or not a member
  etcd::LeaseId rebootLease = 0;
  kj::String cluster;     // joins: name=url,name=url; makes: its token
  bool recovers = false;  // makes: from a snapshot; with data: a snapshot was restored
  bool skipHashCheck = false;
  kj::Vector<kj::String> learnedPeers;  // addresses
  kj::Vector<KnownMember> members;      // of the cluster, this node's own among them
  kj::Vector<kj::String> formerAddresses;
  kj::Vector<kj::String> unknown;  // lines of a later release, kept for it: keys unknown to this
                                   // one

  Intent clone() const;
};

kj::StringPtr nameOf(Intent::State state);

// Returns one line for each fact.
kj::String format(const Intent& intent);
// Throws InvalidArgument, naming the line, for text that no release writes, and for a state that is
// unknown to this release, which could not continue the node's work.
Intent parseIntent(kj::StringPtr text);

}  // namespace talos::supervisor
