#include "machined/config/trial-judge.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kClock = "clock"_kj;
constexpr kj::StringPtr kNoCall = "no client has called the node since the change"_kj;

// Returns true for a duty that every config has, so that its absence is a failure.
bool isOfEveryConfig(kj::StringPtr name) {
  return name == kBootDuty || name == kNetworkDuty;
}

// Returns true for a duty that may be absent because the config no longer has it.
bool mayBeDropped(kj::StringPtr name, const DutyScope& scope) {
  if (name.startsWith("volume "_kj) || name.startsWith("shared address "_kj)) return true;
  return !scope.known && name.startsWith("pod "_kj);
}

bool lists(kj::ArrayPtr<const Duty> duties, kj::StringPtr name) {
  for (auto& duty : duties) {
    if (duty.name == name) return true;
  }
  return false;
}

// Returns how the earlier duty fails now; empty if it does not.
kj::Vector<Duty> failuresOf(kj::StringPtr name, const TrialFacts& facts) {
  kj::Vector<Duty> failures;
  bool isListed = lists(facts.duties, name);
  if (!isListed && mayBeDropped(name, facts.scope)) return failures;
  if (!isListed && isOfEveryConfig(name)) {
    failures.add(Duty{kj::str(name), kj::str("missing")});
    return failures;
  }
  DutyRecord record;
  record.fulfilled.add(kj::str(name));
  return failingOf(record, facts.duties, facts.scope);
}

}  // namespace

kj::Vector<kj::String> trialDuties(kj::ArrayPtr<const Duty> duties) {
  kj::Vector<kj::String> names;
  for (auto& duty : duties) {
    if (duty.problem == nullptr && duty.name != kClock) names.add(kj::str(duty.name));
  }
  return names;
}

TrialJudge::TrialJudge(const Terms& terms, kj::TimePoint now, kj::Maybe<kj::Duration> left)
    : needsCall(terms.needsCall),
      timeout(terms.timeout),
      begun(now),
      deadline(now + left.orDefault(terms.timeout)) {
  for (auto& name : terms.before) duties.add(Kept{.name = kj::str(name)});
}

bool TrialJudge::expects(kj::StringPtr name) const {
  for (auto& duty : duties) {
    if (duty.name == name) return true;
  }
  return false;
}

bool TrialJudge::called() {
  if (!networkSeen || reached) return false;
  reached = true;
  return true;
}

void TrialJudge::postpone(kj::Duration by) {
  begun += by;
  deadline += by;
  steadySince = nullptr;
  for (auto& kept : duties) kept.since = kept.failingSince = nullptr;
}

void TrialJudge::forgetWork() {
  for (auto& kept : duties) {
    kept.since = nullptr;
    kept.fulfilled = false;
  }
}

// Notes since when each duty is fulfilled or fails.
TrialJudge::Failing TrialJudge::look(const TrialFacts& facts, kj::TimePoint now) {
  Failing failing;
  for (auto& kept : duties) {
    auto failures = failuresOf(kept.name, facts);
    if (failures.empty()) {
      kept.failingSince = nullptr;
      if (kept.since == nullptr) kept.since = now;
      kept.fulfilled = kept.fulfilled || now - KJ_ASSERT_NONNULL(kept.since) >= kTrialFulfilledFor;
      continue;
    }
    kept.since = nullptr;
    if (kept.failingSince == nullptr) kept.failingSince = now;
    bool forTooLong = now - KJ_ASSERT_NONNULL(kept.failingSince) >= timeout;
    failing.any = true;
    failing.counts = failing.counts || !kept.fulfilled || forTooLong;
    failing.boot = failing.boot || kept.name == kBootDuty;
    failing.network = failing.network || kept.name == kNetworkDuty;
    for (auto& failure : failures) {
      failing.elsewhere = failing.elsewhere || failure.causedElsewhere;
      failing.texts.add(describe(failure));
    }
  }
  return failing;
}

// Returns true if a part of the change takes effect later, in a service that the node had before.
bool TrialJudge::isLater(const TrialFacts& facts) const {
  if (facts.notInEffect == nullptr) return false;
  return facts.takenUpBy.size() == 0 || expects(facts.takenUpBy);
}

// Returns true while the time has not begun.
bool TrialJudge::waits(const TrialFacts& facts, const Failing& failing, kj::TimePoint now) {
  bool isEarly = facts.tooEarly != nullptr && !failing.any;
  auto longest = facts.pulls != nullptr    ? kLongestTrialWait
                 : failing.boot || isEarly ? kj::min(timeout, kLongestTrialWait)
                                           : 0 * kj::SECONDS;
  return now - begun < longest;
}

bool TrialJudge::isGood(const TrialFacts& facts, const Failing& failing, kj::TimePoint now) {
  bool isSettled = !isLater(facts) && facts.pulls == nullptr && facts.tooEarly == nullptr;
  if (failing.any || !isSettled) {
    steadySince = nullptr;
  } else if (steadySince == nullptr) {
    steadySince = now;
  }
  bool all = !duties.empty();
  for (auto& duty : duties) all = all && duty.fulfilled;
  bool isSteady =
      steadySince.map([&](kj::TimePoint since) { return now - since >= facts.steadyFor; })
          .orDefault(false);
  return isReached() && isSettled && (isSteady || all);
}

TrialJudge::Verdict TrialJudge::atEnd(const TrialFacts& facts, const Failing& failing,
                                      kj::TimePoint now) {
  if (!failing.elsewhere && failing.counts) return Verdict::kRevert;
  // The node does all that it can do by itself, or the call has been missing for too long.
  bool isGivenUp = !failing.any || now - begun >= kLongestTrialWait + timeout;
  if (!isReached() && isGivenUp) return Verdict::kRevert;
  if (failing.elsewhere || isLater(facts)) deadline = now + timeout;
  outlived = true;
  return Verdict::kGoOn;
}

TrialJudge::Verdict TrialJudge::judge(const TrialFacts& facts, kj::TimePoint now) {
  auto failing = look(facts, now);
  KJ_IF_MAYBE (failure, facts.bootFailure) {
    if (expects(kBootDuty)) {
      lacking = kj::str("the boot failed: ", *failure);
      return Verdict::kRevert;
    }
  }
  networkSeen = networkSeen || (!failing.network && now - begun >= kCallsCountAfter);
  bool isWaiting = waits(facts, failing, now);
  if (isWaiting) deadline = kj::max(deadline, now + timeout);
  if (isWaiting || isLater(facts) || facts.tooEarly != nullptr) forgetWork();
  bool good = isGood(facts, failing, now);
  if (good) return Verdict::kConfirm;

  if (isLater(facts)) {
    failing.texts.add(kj::str("not in effect yet: ", KJ_ASSERT_NONNULL(facts.notInEffect)));
  }
  KJ_IF_MAYBE (image, facts.pulls) failing.texts.add(kj::str("being fetched: ", *image));
  KJ_IF_MAYBE (why, facts.tooEarly) failing.texts.add(kj::str(*why));
  if (!isReached()) failing.texts.add(kj::str(kNoCall));
  lacking = kj::strArray(failing.texts, "; ");
  return now < deadline ? Verdict::kGoOn : atEnd(facts, failing, now);
}

}  // namespace talos::machined
