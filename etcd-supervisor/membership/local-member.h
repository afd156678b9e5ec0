// This node's own state, shared by all that change its membership: the intent, the claim, the
// holder of the turn, and the message of EtcdStatus.
//
// An intent counts when it is on disk: record() returns after that, in the same turn of the loop,
// so nobody hears of one that a crash could take back. A claim is in memory only
// (plan/bootstrap-claim.h).
#pragma once

#include <kj/refcount.h>

#include "common/base/signal.h"
#include "etcd-supervisor/membership/membership-dependencies.h"

namespace talos::supervisor {

class LocalMember {
 public:
  explicit LocalMember(Dependencies& deps) : deps(deps) {}

  // The config, with the nodes that have asked this one among the peers. FailedPrecondition on a
  // node that is no control-plane node.
  Config config();
  bool known() const { return loaded; }
  void load();  // and drops what is over

  const Intent& intent() const { return intent_; }
  void record(Intent next);
  // Join tokens of the snapshot may still be good; no other node joins.
  bool recovering() { return isRecovering(intent_, data()); }
  void recordRecovered();
  // No change is under way; the node is this member.
  void recordMember(etcd::MemberId member);
  void recordRebootLease(etcd::LeaseId lease);  // 0: none
  Data data() { return deps.files.data(); }
  Phase phase() { return phaseOf(intent_, data()); }
  BootstrapState bootstrapState();
  // Remembers another node of the cluster to be, which is asked from now on; on disk when it
  // returns. Does nothing on a node that is in a cluster.
  void learnPeer(kj::StringPtr address);

  // bootstrap, join and leave exclude each other. Dropping the turn gives it back.
  class Turn;
  kj::Own<Turn> take(kj::StringPtr what);  // FailedPrecondition, naming what has it
  bool busy() const { return turn.size() > 0; }
  // This node tries to join by itself, so who asks it for something else waits for the end of a
  // try, which is bounded, and does not hear that it is busy.
  static constexpr kj::StringPtr kJoinTurn = "it joins a cluster"_kj;
  kj::Promise<void> untilNotJoining();

  class Claiming;
  kj::Own<Claiming> claimNow();
  bool claims() const { return claim != nullptr; }

  // EtcdStatus says "leaving" before there is an intent: everything that needs etcd of this node
  // moves away.
  class Leaving;
  kj::Own<Leaving> leaveNow();
  bool leaves() const { return leaving; }
  // EtcdStatus has been published with it, so those who need etcd can know.
  void leavingPublished();
  kj::Promise<void> untilLeavingPublished();

  // The message of EtcdStatus.
  void say(kj::String text);
  kj::StringPtr message() const { return message_; }

  Signal changed;         // config, service, intent, data: something to decide
  Signal messageChanged;  // of EtcdStatus, or what leads to it

 private:
  Dependencies& deps;
  Intent intent_;
  bool loaded = false;
  kj::StringPtr turn;
  kj::Maybe<int64_t> claim;
  bool leaving = false, knownToLeave = false;
  Signal heard;  // knownToLeave
  Signal freed;  // turn
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
