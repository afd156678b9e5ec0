// One host's part in the election of the holder of one shared address: decides its next action from
// its inputs. Pure: no clock, no I/O; chance is passed in.
//
// The election works as in Talos, and as etcd's clients do it: under one prefix each
// candidate has a key that is bound to the candidate's lease and named after it. The candidate with
// the oldest key holds the address; the others wait until all older keys are gone. Three rules are
// added:
//
// * the kernel gets the address with a lifetime that ends with the lease (fence-times.h), so the
//   kernel removes it even if the process is dead;
// * a holder that leaves in order first removes the address from the link and then writes kReleased
//   into its key, which then counts as no key. A candidate that saw this value need not wait;
// * a candidate that did not see it, because the key vanished with its lease, or vanished before
//   the candidate looked, waits for kGuard first.
//
// Safe at any moment, whatever happens to the process: at most one key is the oldest, and an
// address is in the kernel at most until kGuard after its key's lease may have expired.
//
// Computed seconds from the loss of the holder's host (dead, frozen, cut off in both directions or
// in one) until the next candidate has the address, with a lease of 2 s and etcd's default timers:
//
//   etcd's leader on another host            etcd's leader on the holder's host
//   1.7 - 2.0  rest of the lease             1.0 - 2.0  election of a leader: etcd's election
//   0.0 - 0.6  the holder's last renewals,              timeout, up to twice, by chance
//              if they arrive and only       3.0        the lease again, and an election timeout:
//              their answers are lost                   the new leader knows no renewals
//   0.0 - 0.5  etcd looks for ended leases   0.0 - 0.5  etcd looks for ended leases
//   0.3        kGuard                        0.3        kGuard
//   0.0 - 0.1  a renewal by the candidate    0.0 - 0.1  a renewal by the candidate
//   2.0 - 3.5                                4.3 - 5.9
//
// etcd-supervisor therefore keeps the leader away from holders. If etcd's leader is lost and the
// holder is not, the holder has the address again with its first renewal after the election. No
// timer of TCP is in these sums: the members that are left elect a leader and renew leases over the
// connections between each other, and a candidate calls only etcd at the loopback address. A fault
// that follows the end of another one would meet connections that still wait: VipManager ends them.
// A candidate leaves the election when a health check of its etcd fails (vip-store-adapter.h); if
// the checks of all candidates meet the election of etcd's leader, the address waits for their next
// ones. machined repeats a bad check after 0.1 s, and after half as long again each time.
//
// A key of an earlier process of this host does not count as ours: another host may have the same
// name, and a stopped process may still run. The key vanishes with its lease. An address that the
// earlier process left in the kernel is removed before any other action (mayBePresent is true in
// the beginning).
//
// The caller reports an event, then calls next() until nothing is left to do, and again at wake().
// Calls to etcd except renewals form a chain: a new call replaces the previous one, whose answer is
// then ignored. A renewal without an answer does not prevent the next renewal: at most
// kRenewalsAtOnce are in progress.
#pragma once

#include <kj/function.h>
#include <kj/one-of.h>

#include <map>
#include <optional>
#include <string>

#include "common/base/backoff.h"
#include "common/etcd/address-elections.h"
#include "common/net/ip.h"
#include "vipd/fence-times.h"

namespace talos::vipd {

constexpr unsigned kRenewalsAtOnce = 4;

using etcd::kReleased;

// --- actions
struct Grant {
  kj::Duration ttl;
};
// Create the key with the lease, if the key does not exist.
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
  kj::Duration within;  // time limit of this call
};
// Give the kernel the address, or a new lifetime for it; never start this after stay.latest.
struct Put {
  Stay stay;
};
// Remove the address from every link.
struct Remove {};
using Action = kj::OneOf<Grant, Enter, Look, Follow, Release, Revoke, Renew, Put, Remove>;

class Candidate {
 public:
  // `ttl` is the requested lease time; etcd may grant more. `chance` is in [0, 1).
  Candidate(const Ip& address, kj::Duration ttl, kj::Function<double()> chance);

  // --- inputs
  //
  // Reports the name of this host, and the obstacle that keeps it from holding the address now, if
  // any.
  void stand(kj::TimePoint now, kj::StringPtr host, kj::Maybe<kj::String> obstacle);
  void granted(kj::TimePoint now, const etcd::Lease& lease);
  void entered(kj::TimePoint now, etcd::Revision created);
  void saw(kj::TimePoint now, const etcd::RangeResult& keys);
  void happened(kj::TimePoint now, const etcd::Events& events);
  void followEnded(kj::TimePoint now);
  void renewed(kj::TimePoint now, const etcd::Lease& lease);
  // `sent`: the time of the Renew. `gone`: etcd reports that the lease does not exist.
  void renewalFailed(kj::TimePoint now, etcd::LeaseId lease, kj::TimePoint sent, bool gone,
                     kj::StringPtr cause);
  // Release and Revoke have ended, with or without success.
  void left(kj::TimePoint now);
  // Grant, Enter or Look has failed.
  void failed(kj::TimePoint now, kj::StringPtr cause);
  // The kernel has added the address.
  void taken();
  void putFailed(kj::TimePoint now, kj::StringPtr cause);
  // The Put was too late, and did nothing.
  void late(kj::TimePoint now);
  void removed(kj::TimePoint now, bool done);
  // Another program has removed the address from its link.
  void missing();

  // --- next action
  kj::Maybe<Action> next(kj::TimePoint now);
  // Returns the time of the next call, if no event is reported before.
  kj::TimePoint wake(kj::TimePoint now) const;

  // --- state
  //
  // kHolder: the kernel certainly has the address. kIdle: no trace is left: no lease in etcd, as
  // far as etcd answered, and no address in the kernel.
  enum class State { kIdle, kWaiting, kHolder };
  State state() const;
  kj::StringPtr holder() const { return holderName; }  // empty: unknown
  // Returns the cause of the state, or its problem.
  kj::StringPtr reason() const { return trouble.size() > 0 ? trouble : cause; }
  kj::Maybe<kj::TimePoint> leaseEnd() const;  // lease of the holder
  bool holds() const { return phase == Phase::kHolding; }
  // The host has a lease, and a key with it now or soon.
  bool takesPart() const { return phase >= Phase::kEntering && phase <= Phase::kHolding; }
  // The host has no lease, and no address in the kernel.
  bool gone() const { return phase == Phase::kIdle && !mayBePresent; }

 private:
  enum class Phase {
    kIdle,      // no lease. Next: kGranting
    kGranting,  // a lease was requested. Next: kEntering; kIdle if the request failed
    // The next three may be followed by kLeaving, or by kIdle if the lease is gone (leave()).
    kEntering,  // the key is being created. Next: kWaiting
    kWaiting,   // other keys are older, or the guard has not ended. Next: kHolding
    kHolding,   // has the oldest key, and puts the address. Next: kWaiting at the end of its term
    kLeaving,   // releases the key and revokes the lease. Next: kIdle
  };
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
  bool busy = false;  // A call of the chain is in progress.

  etcd::LeaseId lease = 0;
  Term term;
  unsigned unanswered = 0;  // renewals
  kj::TimePoint renewAt = kj::origin<kj::TimePoint>();
  kj::TimePoint renewedAt = kj::origin<kj::TimePoint>();  // when the last renewal was sent

  kj::String key;
  etcd::Revision created = 0, observedRevision = 0;
  std::map<std::string, Rival> rivals;  // with older keys
  bool everObserved = false, current = false, following = false;
  kj::TimePoint lookAt = kj::origin<kj::TimePoint>();  // when not current: the time of the next
                                                       // look; else its latest time
  std::optional<kj::TimePoint> guard;                  // The kernel must not get the address before
                                                       // this time.
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
