// Judges if a snapshot may replace the etcd of a control plane, and on which nodes data is erased
// for it. Pure: turns the answers of the nodes into refusals, each with its remedy, or into these
// nodes.
//
// A cluster with a quorum is never replaced. A cluster that may regain its quorum is replaced only
// by force: each voter that the members know must be among the nodes, or be declared gone by the
// user, and the voters with data must be fewer than a quorum.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/etcd-data/snapshot-signature.h"

namespace talos::talosctl {

struct KnownMember {
  kj::String name, host;  // host of its first peer URL; the name is empty before its first start
  bool learner = false;
};

struct RecoveryNode {
  kj::String address;             // address used in calls
  kj::Maybe<kj::String> silence;  // reason for a missing answer; the other fields are then empty
  kj::String hostname, bootId;
  bool controlPlane = false;
  kj::String phase, message;        // fields of EtcdStatuses/etcd
  kj::String authorities;           // PEM: CAs of etcd that its config accepts
  bool quorum = false;              // its etcd is part of a quorum
  kj::Vector<KnownMember> members;  // members that its etcd knows
  kj::Maybe<int64_t> revision;      // newest revision of its data, while its etcd runs

  bool damaged = false;  // the node has data that its etcd cannot use

  // Returns true if its disk has no data of a cluster.
  bool isEmpty() const { return phase == "waiting" && !damaged; }
};

// Returns "joining: waiting until m-2 votes" or "does not answer: …".
kj::String stateText(const RecoveryNode& node);

struct RecoveryRequest {
  kj::ArrayPtr<const kj::String> without;  // addresses or names of members that are gone for good
  bool force = false;                      // even if the quorum may come back
};

struct RecoveryPlan {
  kj::Vector<kj::String> refusals;
  kj::Vector<kj::String> erased;  // addresses, in the order of the nodes
};

RecoveryPlan planRecovery(kj::ArrayPtr<const RecoveryNode> nodes, const RecoveryRequest& request);

// Evidence of the origin of a snapshot.
struct SignedSnapshot {
  kj::Array<kj::byte> signature;
  kj::String authorities;  // PEM: additional CAs that the user accepts
  uint64_t databaseBytes = 0;
  kj::Array<kj::byte> digest;
};

// Returns the statement of a member if it is about this snapshot and each node accepts the
// signature; otherwise nullptr, and a refusal. One compromised node cannot make the others accept a
// snapshot.
kj::Maybe<SnapshotStatement> judgeSignature(kj::ArrayPtr<const RecoveryNode> nodes,
                                            const SignedSnapshot& snapshot,
                                            kj::Vector<kj::String>& refusals);

// Returns the difference between the snapshot and the newest remaining data, a line for each node
// with data: "10.5.0.2 has revision 1300: 66 newer than the snapshot (1234), which are lost; …".
kj::Vector<kj::String> lossLines(kj::ArrayPtr<const RecoveryNode> nodes, int64_t revision);

}  // namespace talos::talosctl
