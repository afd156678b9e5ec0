// One host's part in the election of the holder of one shared address: decides its next action from
// its inputs. Pure: no clock, no I/O; chance is passed in.
//
// The election is that of the original, as etcd's own clients do it: under one prefix each
// candidate has a key that is bound to a lease of its own and named after it. The key that was
// created first holds the address; the others wait until all older ones are gone. Three things are
// added to it:
//
// * the address is given to the kernel with a lifetime that ends with the lease (fence-times.h), so
//   it needs nobody alive to be taken away;
// * a holder that leaves in order takes the address off the link first and then writes kReleased
//   into its key, which is worth as much as no key. Whoever saw that need not wait;
// * whoever did not see it, because the key went with its lease, or before it looked, waits for
//   kGuard first.
//
// Safe at any moment, whatever happens to the process: at most one key is the oldest, and an
// address is in the kernel at most until kGuard after its key's lease may have expired.
//
// A key of an earlier life of this host is not ours: another host may have the same name, and a
// process that was stopped may still run. It goes with its lease. What the earlier life left in the
// kernel is taken away before anything else is done (mayBePresent is true in the beginning).
//
// To be used so: report an event, then call next() until there is nothing left to do, and again at
// wake(). Calls to etcd but renewals make a chain: a new one replaces the one before, whose answer
// does not count any more. A renewal without an answer does not keep the next one from being sent:
// kRenewalsAtOnce are under way at most.
#pragma once

#include <kj/function.h>
#include <kj/one-of.h>

#include <map>
#include <optional>
#include <string>

#include "common/base/backoff.h"
#include "common/etcd/etcd.h"
#include "common/net/ip.h"
#include "vipd/fence-times.h"

namespace talos::vipd {

constexpr unsigned kRenewalsAtOnce = 4;

// The value of a key whose host has let go of the address. No host is called so.
constexpr kj::StringPtr kReleased = "talos:released"_kj;

// --- what is to be done
struct Grant {
  kj::Duration ttl;
};
// Create the key with the lease, if it is not there.
struct Enter {
  etcd::LeaseId lease;
  kj::String key, value;
};
struct Look {
  kj::String prefix;
};
// Report every change from this revision on, until the next Follow or followEnded().
struct Follow {
  kj::String prefix;
  etcd::Revision from;
};
struct Release {
  etcd::LeaseId lease;
  kj::String key;
  etcd::Revision created;
};
struct Revoke {
  etcd::LeaseId lease;
};
struct Renew {
  etcd::LeaseId lease;
  kj::Duration within;  // to be given up then
};
// Give the kernel the address, or a new lifetime for it; never begin it after stay.latest.
struct Put {
  Stay stay;
};
// From every link.
struct Remove {};
using Action = kj::OneOf<Grant, Enter, Look, Follow, Release, Revoke, Renew, Put, Remove>;

class Candidate {
 public:
  // `ttl` is what etcd is asked for; it may grant more. `chance` is in [0, 1).
  Candidate(const Ip& address, kj::Duration ttl, kj::Function<double()> chance);

  // --- what is known
  // The name of this host, and the obstacle that keeps it from holding the address now, if any.
  void stand(kj::TimePoint now, kj::StringPtr host, kj::Maybe<kj::String> obstacle);
  void granted(kj::TimePoint now, const etcd::Lease& lease);
  void entered(kj::TimePoint now, etcd::Revision created);
  void saw(kj::TimePoint now, const etcd::RangeResult& keys);
  void happened(kj::TimePoint now, const etcd::Events& events);
  void followEnded(kj::TimePoint now);
  void renewed(kj::TimePoint now, const etcd::Lease& lease);
  // `sent`: the time of the Renew. `gone`: etcd says that there is no such lease.
  void renewalFailed(kj::TimePoint now, etcd::LeaseId lease, kj::TimePoint sent, bool gone,
                     kj::StringPtr cause);
  // Release and Revoke have ended, with or without success.
  void left(kj::TimePoint now);
  // Grant, Enter or Look.
  void failed(kj::TimePoint now, kj::StringPtr cause);
  // The kernel has the address.
  void taken();
  void putFailed(kj::TimePoint now, kj::StringPtr cause);
  // It was too late to put it, and nothing was done.
  void late(kj::TimePoint now);
  void removed(kj::TimePoint now, bool done);
  // Another program has taken the address off its link.
  void missing();

  // --- what is to be done
  kj::Maybe<Action> next(kj::TimePoint now);
  // The time of the next call, if nothing is reported before.
  kj::TimePoint wake(kj::TimePoint now) const;

  // --- how it is
  // kHolder: the kernel has been given the address, and not only may be. kIdle: nothing of it is
  // left anywhere: no lease in etcd, as far as that answered, and nothing in the kernel.
  enum class State { kIdle, kWaiting, kHolder };
  State state() const;
  kj::StringPtr holder() const { return holderName; }  // empty: not known
  // The cause of the state, or the trouble with it.
  kj::StringPtr reason() const { return trouble.size() > 0 ? trouble : cause; }
  kj::Maybe<kj::TimePoint> leaseEnd() const;  // of the holder
  bool holds() const { return phase == Phase::kHolding; }
  // It has a lease, and a key with it or soon.
  bool takesPart() const { return phase >= Phase::kEntering && phase <= Phase::kHolding; }
  // It has no lease, and nothing in the kernel.
  bool gone() const { return phase == Phase::kIdle && !mayBePresent; }

 private:
  enum class Phase { kIdle, kGranting, kEntering, kWaiting, kHolding, kLeaving };
  struct Rival {
    etcd::Revision created;
    bool released;
    std::string host;
  };

  kj::String prefix;
  kj::Duration ttl;
  kj::Function<double()> chance;
  kj::String host, holderName, cause, trouble;
  std::optional<std::string> obstacle;
  Backoff backoff;

  Phase phase = Phase::kIdle;
  bool mayBePresent = true;
  kj::TimePoint removeAt = kj::origin<kj::TimePoint>();
  kj::TimePoint retryAt = kj::origin<kj::TimePoint>();
  bool busy = false;  // a call of the chain is under way

  etcd::LeaseId lease = 0;
  Term term;
  unsigned unanswered = 0;  // renewals
  kj::TimePoint renewAt = kj::origin<kj::TimePoint>();
  kj::TimePoint renewedAt = kj::origin<kj::TimePoint>();  // when the last one was sent

  kj::String key;
  etcd::Revision created = 0, observedRevision = 0;
  std::map<std::string, Rival> rivals;  // that are older
  bool everObserved = false, current = false, following = false;
  kj::TimePoint lookAt = kj::origin<kj::TimePoint>();  // if not current; at the latest, if it is
  std::optional<kj::TimePoint> guard;                  // the address may not be put before
  bool refresh = false, placed = false, toRelease = false, toRevoke = false;

  bool first() const;
  kj::Duration beat() const;
  kj::TimePoint renewalDue() const;
  void beginRound(kj::TimePoint now);
  void leave(kj::TimePoint now, kj::StringPtr because, bool leaseGone, bool soon);
  void forgetView();
  void rivalGone(kj::TimePoint now, bool released);
  void updateHolder();
  kj::Maybe<Action> stepRound(kj::TimePoint now);
  kj::Maybe<Action> stepView(kj::TimePoint now);
  kj::Maybe<Action> stepAddress(kj::TimePoint now);
  kj::Maybe<Action> stepLeaving(kj::TimePoint now);
  kj::Maybe<Action> stepRenewal(kj::TimePoint now);
};

}  // namespace talos::vipd
