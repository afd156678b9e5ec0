// State of this node, shared by everything that changes its membership: the intent, the claim, the
// holder of the turn, and the message of EtcdStatus.
//
// An intent counts when it is on disk: record() returns after that, in the same turn of the loop,
// so no other node learns of an intent that a crash could undo. A claim is only in memory
// (plan/bootstrap-claim.h).
#pragma once

#include <kj/refcount.h>

#include "common/base/signal.h"
#include "etcd-supervisor/membership/membership-dependencies.h"

namespace talos::supervisor {

class LocalMember {
 public:
  explicit LocalMember(Dependencies& deps) : deps(deps) {}

  // Returns the config, with the nodes that have queried this one among the peers. Throws
  // FailedPrecondition on a node that is not a control-plane node.
  Config config();
  bool known() const { return loaded; }
  void load();  // and drops expired parts

  const Intent& intent() const { return intent_; }
  // Replaces the intent, which is on disk when this returns; other nodes that were learned stay in
  // it until this node votes. After an error the intent is the one that the disk has: the old or
  // the new one.
  void record(Intent next);
  // Returns true while join tokens of the snapshot may still be valid; no other node may join then.
  bool recovering() { return isRecovering(intent_, data()); }
  // Ends recovering(), with the promises of record().
  void recordRecovered();
  // Records that no change is under way and that the node is this member.
  void recordMember(etcd::MemberId member);
  void recordRebootLease(etcd::LeaseId lease);  // 0 for no lease
  // Records a list of members that a quorum has reported, if it is another one than before.
  void recordMembers(kj::ArrayPtr<const etcd::Member> members);
  // True while etcd must connect to other members through the proxy of this node (member-search.h).
  bool routed() const { return routed_; }
  void setRouted(bool now);
  Data data() { return deps.files.data(); }
  Phase phase() { return phaseOf(intent_, data()); }
  BootstrapState bootstrapState();
  // Adds another node of the future cluster, which this node queries from now on; it is on disk
  // when the call returns. Does nothing on a node that is in a cluster.
  void learnPeer(kj::StringPtr address);

  // Excludes bootstrap, join and leave from each other. Dropping the turn gives it back.
  class Turn;
  kj::Own<Turn> take(kj::StringPtr what);  // FailedPrecondition, naming the holder
  bool busy() const { return turn.size() > 0; }
  // While this node joins by itself, another request waits for the end of an attempt, which is
  // bounded, instead of failing because the node is busy.
  static constexpr kj::StringPtr kJoinTurn = "it joins a cluster"_kj;
  kj::Promise<void> untilNotJoining();

  class Claiming;
  kj::Own<Claiming> claimNow();
  bool claims() const { return claim != nullptr; }

  // Makes EtcdStatus report "leaving" before there is an intent: everything that needs etcd of this
  // node moves away.
  class Leaving;
  kj::Own<Leaving> leaveNow();
  bool leaves() const { return leaving; }
  // Notes that EtcdStatus has been published with "leaving", for the parts that need etcd of this
  // node.
  void leavingPublished();
  kj::Promise<void> untilLeavingPublished();

  // Sets the message of EtcdStatus.
  void say(kj::String text);
  kj::StringPtr message() const { return message_; }

  Signal changed;         // config, service, intent, data: a decision is due
  Signal messageChanged;  // message of EtcdStatus, or its causes

 private:
  Dependencies& deps;
  Intent intent_;
  bool loaded = false;
  kj::StringPtr turn;
  kj::Maybe<int64_t> claim;
  bool leaving = false, knownToLeave = false;
  bool routed_ = false;
  Signal heard;  // knownToLeave changed
  Signal freed;  // the turn is free
  kj::String message_;

  void write(Intent next);
};

class LocalMember::Turn {
 public:
  explicit Turn(LocalMember& self) : self(self) {}
  ~Turn() noexcept(false) {
    self.turn = nullptr;
    self.freed.raise();
  }
  KJ_DISALLOW_COPY_AND_MOVE(Turn);

 private:
  LocalMember& self;
};

class LocalMember::Claiming {
 public:
  Claiming(LocalMember& self, int64_t since) : since(since), self(self) { self.claim = since; }
  ~Claiming() noexcept(false) {
    self.claim = nullptr;
    self.messageChanged.raise();
  }
  KJ_DISALLOW_COPY_AND_MOVE(Claiming);

  const int64_t since;

 private:
  LocalMember& self;
};

class LocalMember::Leaving {
 public:
  explicit Leaving(LocalMember& self) : self(self) { set(true); }
  ~Leaving() noexcept(false) { set(false); }
  KJ_DISALLOW_COPY_AND_MOVE(Leaving);

 private:
  LocalMember& self;

  void set(bool now) {
    self.leaving = now;
    self.knownToLeave = false;
    self.messageChanged.raise();
  }
};

}  // namespace talos::supervisor
