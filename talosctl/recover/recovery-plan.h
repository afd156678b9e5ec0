// Judges if the etcd of a control plane may be replaced by a snapshot, and whose data is erased for
// that. Pure: from the answers of the nodes to refusals, each with what to do, or to the nodes.
//
// A cluster that has its quorum is never replaced; one that may have it again, only by force: each
// voter that the members know has to be among the nodes, or be declared gone by the user, and those
// that have their data must be fewer than a quorum.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/etcd-data/snapshot-signature.h"

namespace talos::talosctl {

struct KnownMember {
  kj::String name, host;  // of its first peer URL; the name is empty before it has started
  bool learner = false;
};

struct RecoveryNode {
  kj::String address;             // as it is called
  kj::Maybe<kj::String> silence;  // why it did not answer; the rest is empty then
  kj::String hostname, bootId;
  bool controlPlane = false;
  kj::String phase, message;        // EtcdStatuses/etcd
  kj::String authorities;           // PEM: CAs of etcd that its config accepts
  bool quorum = false;              // its etcd belongs to one
  kj::Vector<KnownMember> members;  // that its etcd knows
  kj::Maybe<int64_t> revision;      // the newest of its data, while its etcd runs

  bool damaged = false;  // it has data that its etcd cannot use

  // Nothing of a cluster is on its disk.
  bool isEmpty() const { return phase == "waiting" && !damaged; }
};

// "joining: waiting until m-2 votes", "does not answer: …".
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

// The evidence of the origin of a snapshot.
struct SignedSnapshot {
  kj::Array<kj::byte> signature;
  kj::String authorities;  // PEM: those that the user accepts besides
  uint64_t databaseBytes = 0;
  kj::Array<kj::byte> digest;
};

// Returns the statement of a member if it is about this snapshot and each node accepts the
// signature; otherwise none, and a refusal. One node that is in foreign hands cannot make the
// others accept anything.
kj::Maybe<SnapshotStatement> judgeSignature(kj::ArrayPtr<const RecoveryNode> nodes,
                                            const SignedSnapshot& snapshot,
                                            kj::Vector<kj::String>& refusals);

// The difference between the snapshot and the newest data that is left, a line for each node that
// has some: "10.5.0.2 has revision 1300: 66 newer than the snapshot (1234), which are lost; …".
kj::Vector<kj::String> lossLines(kj::ArrayPtr<const RecoveryNode> nodes, int64_t revision);

}  // namespace talos::talosctl
