// This node's own state, as its parts share it: the intent, the claim, whose turn it is, and what
// is to be told.
//
// An intent counts when it is on disk: record() returns after that, in the same turn of the loop,
// so nobody hears of one that a crash could take back. A claim is in memory only
// (plan/bootstrap-claim.h).
#pragma once

#include <kj/refcount.h>

#include "common/base/signal.h"
#include "etcd-supervisor/membership/membership-dependencies.h"

namespace talos::supervisor {

class Here {
 public:
  explicit Here(Edges& edges) : edges(edges) {}

  // With the nodes that this one has heard of among the peers. FailedPrecondition elsewhere than on
  // a control-plane node.
  Config config();
  bool known() const { return loaded; }
  void load();  // and drops what is over

  const Intent& intent() const { return intent_; }
  void record(Intent next);
  // Nothing is under way; it is this member.
  void recordMember(etcd::MemberId member);
  Data data() { return edges.files.data(); }
  Phase phase() { return phaseOf(intent_, data()); }
  Standing standing();
  // Another node of the cluster to be, which is asked from now on; on disk when it returns. Of no
  // interest to a node that is in a cluster.
  void hearOf(kj::StringPtr address);

  // bootstrap, join and leave exclude each other. Given back when it is dropped.
  class Turn;
  kj::Own<Turn> take(kj::StringPtr what);  // FailedPrecondition, naming what has it
  bool busy() const { return turn.size() > 0; }

  class Claiming;
  kj::Own<Claiming> claimNow();
  bool claims() const { return claim != nullptr; }

  // For EtcdStatus, before there is an intent: who needs etcd of this node lets go of it.
  class Leaving;
  kj::Own<Leaving> leaveNow();
  bool leaves() const { return leaving; }
  // EtcdStatus says so, and those who need etcd can know.
  void leavingIsTold();
  kj::Promise<void> untilLeavingIsTold();

  // What is under way, for EtcdStatus.
  void say(kj::String text);
  kj::StringPtr message() const { return message_; }

  Signal changed;  // config, service, intent, data: something to decide
  Signal told;     // message: something to tell

 private:
  Edges& edges;
  Intent intent_;
  bool loaded = false;
  kj::StringPtr turn;
  kj::Maybe<int64_t> claim;
  bool leaving = false, knownToLeave = false;
  Signal heard;  // knownToLeave
  kj::String message_;
};

class Here::Turn {
 public:
  explicit Turn(Here& here) : here(here) {}
  ~Turn() noexcept(false) { here.turn = nullptr; }
  KJ_DISALLOW_COPY_AND_MOVE(Turn);

 private:
  Here& here;
};

class Here::Claiming {
 public:
  Claiming(Here& here, int64_t since) : since(since), here(here) { here.claim = since; }
  ~Claiming() noexcept(false) {
    here.claim = nullptr;
    here.told.raise();
  }
  KJ_DISALLOW_COPY_AND_MOVE(Claiming);

  const int64_t since;

 private:
  Here& here;
};

class Here::Leaving {
 public:
  explicit Leaving(Here& here) : here(here) { tell(true); }
  ~Leaving() noexcept(false) { tell(false); }
  KJ_DISALLOW_COPY_AND_MOVE(Leaving);

 private:
  Here& here;

  void tell(bool now) {
    here.leaving = now;
    here.knownToLeave = false;
    here.told.raise();
  }
};

}  // namespace talos::supervisor
