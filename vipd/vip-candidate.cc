#include "vipd/vip-candidate.h"

namespace talos::vipd {

using etcd::LeaseId;
using kj::TimePoint;

namespace {

// Pace of rounds after failures. Candidates that lost etcd together do not all return at once.
constexpr Backoff::Pace kPace = {
    .first = 200 * kj::MILLISECONDS,
    .longest = 2 * kj::SECONDS,
    .chance0 = 0.5,
};
constexpr kj::Duration kLookAgain = 200 * kj::MILLISECONDS, kRemoveAgain = 100 * kj::MILLISECONDS,
                       kRenewAgain = 250 * kj::MILLISECONDS, kUrgent = 50 * kj::MILLISECONDS,
                       kLongestRenewal = 1 * kj::SECONDS;
// A silent watch may be broken, and no error would show it.
constexpr kj::Duration kLongestFollow = 15 * kj::SECONDS;
// The lifetime of a holder's address is a second shorter than its lease, and needs renewing more
// than once in that time; a waiting candidate only has to keep its key.
constexpr int kBeatsOfHolder = 6, kBeatsOfOthers = 3;

kj::String hex(LeaseId lease) {
  char text[17];
  snprintf(text, sizeof(text), "%llx", static_cast<unsigned long long>(lease));
  return kj::heapString(text);
}

}  // namespace

Candidate::Candidate(const Ip& address, kj::Duration ttl, kj::Function<double()> chance)
    : prefix(kj::str(etcd::kAddressElections, address, "/")),
      ttl(ttl),
      chance(kj::mv(chance)),
      cause(kj::str("starting")),
      obstacle("starting"),
      backoff(kPace) {}

// --- inputs

void Candidate::stand(TimePoint now, kj::StringPtr name, kj::Maybe<kj::String> cause) {
  host = kj::str(name);
  bool before = obstacle.has_value();
  KJ_IF_MAYBE (text, cause) {
    obstacle = std::string(text->cStr());
    if (phase == Phase::kIdle) this->cause = kj::str(*text);
  } else {
    obstacle.reset();
    if (before && phase == Phase::kIdle) {
      backoff.reset();
      retryAt = now;
    }
  }
}

void Candidate::granted(TimePoint now, const etcd::Lease& given) {
  if (phase != Phase::kGranting) return;
  busy = false;
  lease = given.id;
  term = {given.sent, given.ttl};
  unanswered = 0;
  renewedAt = given.sent;
  phase = Phase::kEntering;
  key = kj::str(prefix, hex(lease));
  renewAt = given.sent + beat();
}

void Candidate::entered(TimePoint now, etcd::Revision revision) {
  if (phase != Phase::kEntering) return;
  busy = false;
  created = revision;
  phase = Phase::kWaiting;
  cause = kj::str("another node was there first");
  lookAt = now;
}

void Candidate::saw(TimePoint now, const etcd::RangeResult& keys) {
  if (phase != Phase::kWaiting && phase != Phase::kHolding) return;
  busy = false;
  bool own = false;
  auto before = kj::mv(rivals);
  rivals.clear();
  for (auto& kv : keys.kvs) {
    if (kv.key == key) own = kv.createRevision == created;
    if (kv.createRevision >= created) continue;
    std::string name(kv.key.begin(), kv.key.size());
    rivals[name] = Rival{kv.createRevision, kv.value == kReleased,
                         std::string(kv.value.begin(), kv.value.size())};
  }
  if (!own) return leave(now, "the key in etcd was deleted", true, true);
  for (auto& [name, rival] : before) {
    if (rivals.contains(name)) {
      rivals[name].released |= rival.released;
    } else {
      rivalGone(now, rival.released);
    }
  }
  observedRevision = keys.revision;
  bool anew = !everObserved;
  everObserved = current = true;
  following = false;
  lookAt = now + kLongestFollow;
  if (anew && first()) guard = now + kGuard;  // the previous holder is unknown
  updateHolder();
}

void Candidate::happened(TimePoint now, const etcd::Events& events) {
  if (!following) return;
  for (auto& event : events.events) {
    auto& kv = event.kv;
    observedRevision = kj::max(observedRevision, kv.modRevision);
    if (event.deleted && kv.key == key) {
      return leave(now, "the key in etcd was deleted", true, true);
    }
    auto rival = rivals.find(std::string(kv.key.begin(), kv.key.size()));
    if (rival == rivals.end()) continue;
    if (event.deleted) {
      bool released = rival->second.released;
      rivals.erase(rival);
      rivalGone(now, released);
    } else {
      rival->second.released |= kv.value == kReleased;
    }
  }
  updateHolder();
}

void Candidate::rivalGone(TimePoint now, bool released) {
  if (!released) guard = now + kGuard;
}

void Candidate::followEnded(TimePoint now) {
  if (!following) return;
  following = current = false;
  lookAt = now + kLookAgain / 4 + kLookAgain / 100 * int64_t(chance() * 100);
}

void Candidate::renewed(TimePoint now, const etcd::Lease& given) {
  if (!takesPart() || given.id != lease) return;
  if (unanswered > 0) --unanswered;
  // The answer of a newer renewal may arrive before that of an older one. So the longer term stays.
  Term newer{given.sent, given.ttl};
  if (newer.end() > term.end()) term = newer;
  renewAt = renewedAt + beat();
  refresh = true;
  trouble = nullptr;
  if (phase == Phase::kHolding && !stayFor(term, now)) {
    trouble = kj::str("etcd answers too slowly for a lease of ", term.ttl / kj::SECONDS,
                      " s: the address is missing at times; set a longer leaseTTL");
  }
}

void Candidate::renewalFailed(TimePoint now, LeaseId id, TimePoint sent, bool gone,
                              kj::StringPtr because) {
  if (!takesPart() || id != lease) return;
  if (unanswered > 0) --unanswered;
  if (gone) return leave(now, "etcd has ended the lease", true, true);
  if (sent <= term.sent) return;  // A later renewal was confirmed.
  renewAt = kj::min(renewAt, renewedAt + kj::min(beat(), kRenewAgain));
  trouble = kj::str("cannot renew the lease: ", because);
}

void Candidate::left(TimePoint now) {
  if (phase != Phase::kLeaving) return;
  busy = false;
  if (!toRelease && !toRevoke) phase = Phase::kIdle;
}

void Candidate::failed(TimePoint now, kj::StringPtr because) {
  busy = false;
  if (phase == Phase::kGranting) {
    phase = Phase::kIdle;
    cause = obstacle ? kj::str(obstacle->c_str()) : kj::str(because);
    retryAt = now + backoff.next(chance());
  } else if (phase == Phase::kEntering) {
    // etcd may have created the key before the answer was lost. Revoking the lease removes the key
    // in either case.
    leave(now, because, false, false);
  } else {
    lookAt = now + kLookAgain;
  }
}

void Candidate::taken() {
  if (phase != Phase::kHolding || placed) return;
  placed = true;
  cause = kj::str("elected");
  updateHolder();
}

void Candidate::putFailed(TimePoint now, kj::StringPtr because) {
  if (phase == Phase::kHolding) leave(now, because, false, false);
}

void Candidate::late(TimePoint now) {
  renewAt = kj::min(renewAt, now + kRenewAgain);
}

void Candidate::removed(TimePoint now, bool done) {
  mayBePresent = !done;
  if (!done) removeAt = now + kRemoveAgain;
}

void Candidate::missing() {
  refresh = true;
}

// --- next action

bool Candidate::first() const {
  for (auto& [name, rival] : rivals) {
    if (!rival.released) return false;
  }
  return everObserved;
}

// A holder's next renewal does not wait for the previous answer; but many unanswered renewals are
// of no use.
TimePoint Candidate::renewalDue() const {
  if (unanswered >= kRenewalsAtOnce) return kj::max(renewAt, renewedAt + kLongestRenewal);
  return unanswered == 0 ? renewAt : kj::max(renewAt, renewedAt + beat());
}

kj::Duration Candidate::beat() const {
  bool near = phase == Phase::kHolding || (phase == Phase::kWaiting && first());
  return term.ttl / (near ? kBeatsOfHolder : kBeatsOfOthers);
}

void Candidate::forgetView() {
  rivals.clear();
  everObserved = current = following = refresh = placed = false;
  guard.reset();
  holderName = nullptr;
  trouble = nullptr;
}

// `soon`: retry with a new round at once.
void Candidate::leave(TimePoint now, kj::StringPtr because, bool leaseGone, bool soon) {
  cause = kj::str(because);  // copied before the text that it may point to is cleared
  toRelease = phase == Phase::kHolding && !leaseGone;
  toRevoke = !leaseGone;
  phase = leaseGone ? Phase::kIdle : Phase::kLeaving;
  busy = false;
  unanswered = 0;
  forgetView();
  if (soon) backoff.reset();
  retryAt = now + backoff.next(chance());
}

kj::Maybe<Action> Candidate::next(TimePoint now) {
  if (takesPart()) {
    if (obstacle) {
      leave(now, obstacle->c_str(), false, true);
    } else if (now >= term.end() && phase == Phase::kEntering) {
      leave(now, "the lease has expired", false, false);
    } else if (now >= term.end() && phase == Phase::kHolding) {
      // No renewal was confirmed in time, but etcd may have extended all leases when it elected a
      // new leader, so our key may still be the oldest. Only the address has to go; the key waits.
      phase = Phase::kWaiting;
      placed = refresh = false;
      cause = kj::str("the lease has not been renewed in time");
      updateHolder();
    }
  }
  if (mayBePresent && phase != Phase::kHolding) {
    if (now < removeAt) return nullptr;
    return Action(Remove{});
  }
  switch (phase) {
    case Phase::kIdle:
      if (obstacle || now < retryAt) return nullptr;
      phase = Phase::kGranting;
      busy = true;
      return Action(Grant{ttl});
    case Phase::kGranting:
      return nullptr;
    case Phase::kLeaving:
      return stepLeaving(now);
    default:
      return stepRound(now);
  }
}

kj::Maybe<Action> Candidate::stepLeaving(TimePoint now) {
  if (busy) return nullptr;
  if (toRelease) {
    toRelease = false;
    busy = true;
    return Action(Release{lease, kj::str(key), created});
  }
  if (toRevoke) {
    toRevoke = false;
    busy = true;
    return Action(Revoke{lease});
  }
  phase = Phase::kIdle;
  return nullptr;
}

kj::Maybe<Action> Candidate::stepRound(TimePoint now) {
  if (phase == Phase::kEntering) {
    if (busy) return stepRenewal(now);
    busy = true;
    return Action(Enter{lease, kj::str(key), kj::str(host)});
  }
  // The kernel's address comes before every action that may wait.
  KJ_IF_MAYBE (action, stepAddress(now)) return kj::mv(*action);
  KJ_IF_MAYBE (action, stepRenewal(now)) return kj::mv(*action);
  return stepView(now);
}

kj::Maybe<Action> Candidate::stepRenewal(TimePoint now) {
  if (now < renewalDue()) return nullptr;
  ++unanswered;
  renewedAt = now;
  renewAt = now + beat();
  return Action(Renew{lease, kj::min(term.ttl / 2, kLongestRenewal)});
}

kj::Maybe<Action> Candidate::stepView(TimePoint now) {
  if (now >= lookAt) current = false;
  if (!current) {
    if (busy || now < lookAt) return nullptr;
    busy = true;
    return Action(Look{kj::str(prefix)});
  }
  if (following) return nullptr;
  following = true;
  return Action(Follow{kj::str(prefix), observedRevision + 1});
}

kj::Maybe<Action> Candidate::stepAddress(TimePoint now) {
  if (phase == Phase::kWaiting) {
    if (!first() || (guard && now < *guard)) return nullptr;
  } else if (!refresh) {
    return nullptr;
  }
  auto stay = stayFor(term, now);
  if (!stay) {
    // Waiting consumed the rest of the lease.
    if (phase == Phase::kWaiting) renewAt = kj::min(renewAt, renewedAt + kUrgent);
    return nullptr;
  }
  if (phase == Phase::kWaiting) {
    phase = Phase::kHolding;
    backoff.reset();
    cause = kj::str("elected; the address is not on its link yet");
    updateHolder();
    renewAt = kj::min(renewAt, renewedAt + beat());
  }
  refresh = false;
  mayBePresent = true;
  return Action(Put{*stay});
}

TimePoint Candidate::wake(TimePoint now) const {
  auto at = now + 1 * kj::HOURS;
  auto by = [&](TimePoint time) { at = kj::min(at, kj::max(time, now)); };
  if (mayBePresent && phase != Phase::kHolding) {
    by(removeAt);
    return at;
  }
  if (phase == Phase::kIdle && !obstacle) by(retryAt);
  if (!takesPart()) return at;
  if (phase != Phase::kWaiting) by(term.end());
  by(renewalDue());
  if (phase == Phase::kWaiting && guard && *guard > now) by(*guard);
  if (phase >= Phase::kWaiting && !busy) by(lookAt);
  return at;
}

// --- state

void Candidate::updateHolder() {
  holderName = nullptr;
  if (placed) {
    holderName = kj::str(host);
    return;
  }
  etcd::Revision oldest = created;
  for (auto& [name, rival] : rivals) {
    if (rival.released || rival.created >= oldest) continue;
    oldest = rival.created;
    holderName = kj::heapString(rival.host.data(), rival.host.size());
  }
}

Candidate::State Candidate::state() const {
  if (placed) return State::kHolder;
  return phase >= Phase::kEntering || mayBePresent ? State::kWaiting : State::kIdle;
}

kj::Maybe<TimePoint> Candidate::leaseEnd() const {
  if (phase != Phase::kHolding) return nullptr;
  return term.end();
}

}  // namespace talos::vipd
