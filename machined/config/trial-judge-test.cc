#include "machined/config/trial-judge.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace talos::machined {
namespace {

using Verdict = TrialJudge::Verdict;
constexpr auto kTime = 2 * kj::MINUTES;

kj::TimePoint at(int seconds) {
  return kj::origin<kj::TimePoint>() + seconds * kj::SECONDS;
}

// Reads "voter of etcd !network ~Kubernetes node": fails, or fails because of other nodes. Names
// are separated by commas.
kj::Vector<Duty> dutiesOf(const std::string& text) {
  kj::Vector<Duty> duties;
  for (size_t begin = 0; begin < text.size();) {
    auto end = std::min(text.find(',', begin), text.size());
    auto name = text.substr(begin, end - begin);
    bool elsewhere = name[0] == '~', fails = elsewhere || name[0] == '!';
    Duty duty{kj::heapString(name.c_str() + (fails ? 1 : 0))};
    if (fails) duty.problem = kj::str("it fails");
    duty.causedElsewhere = elsewhere;
    duties.add(kj::mv(duty));
    begin = end + 1;
  }
  return duties;
}

TrialFacts factsOf(const std::string& text) {
  TrialFacts facts;
  facts.duties = dutiesOf(text);
  return facts;
}

// A judge that looks each second.
struct WatchedNode {
  kj::Vector<kj::String> before;
  kj::Maybe<TrialJudge> judge;
  int now = 0;
  Verdict last = Verdict::kGoOn;

  explicit WatchedNode(const std::string& fulfilled, bool needsCall = false) {
    before = trialDuties(dutiesOf(fulfilled));
    judge.emplace(TrialJudge::Terms{.before = before, .needsCall = needsCall, .timeout = kTime},
                  at(0));
  }
  TrialJudge& get() { return KJ_ASSERT_NONNULL(judge); }
  // Looks at this state until `end`, or until there is a verdict.
  Verdict see(const TrialFacts& facts, int end) {
    while (now < end && last == Verdict::kGoOn) last = get().judge(facts, at(now++));
    return last;
  }
  Verdict see(const std::string& state, int end) { return see(factsOf(state), end); }
};

}  // namespace

// Catches: a good config that waits for the end of the time, or is confirmed at its first look.
TEST(TrialJudge, AGoodConfigIsConfirmedWithinSeconds) {
  WatchedNode trial("network,Kubernetes node");
  EXPECT_EQ(Verdict::kGoOn, trial.see("network,Kubernetes node", 5));
  EXPECT_EQ(Verdict::kConfirm, trial.see("network,Kubernetes node", 6));
}

// Catches: a harmful config that stays, goes back before its time, or goes back without the reason.
TEST(TrialJudge, ADutyThatFailsAllTheTimeRevertsAtTheEnd) {
  for (auto lost : {"!network,Kubernetes node", "network", "network,!Kubernetes node"}) {
    SCOPED_TRACE(lost);
    WatchedNode trial("network,Kubernetes node");
    EXPECT_EQ(Verdict::kGoOn, trial.see(lost, 120));
    EXPECT_EQ(Verdict::kRevert, trial.see(lost, 121));
    EXPECT_GT(trial.get().lacks().size(), 0u);
  }
}

// Catches: a config that goes back for what is not its fault.
TEST(TrialJudge, NoOtherReasonReverts) {
  struct {
    const char* before;
    const char* after;
    bool confirmed;
  } rows[] = {
      {"!Kubernetes node,network", "!Kubernetes node,network", true},  // ill before
      {"clock,network", "!clock,network", true},                       // depends on servers
      {"shared address 10.0.0.9,network", "network", true},            // the config has no more
      {"volume u-data,network", "network", true},
      {"pod kube-system/a,network", "network", true},
      {"service vipd,network", "network", true},
      {"voter of etcd,network", "~voter of etcd,network", false},  // too few other voters
      {"voter of etcd,boot", "~voter of etcd,!boot", false},       // and so the boot waits
      {"service kubelet,network", "network", true},
  };
  for (auto& row : rows) {
    SCOPED_TRACE(std::string(row.before) + " -> " + row.after);
    WatchedNode trial(row.before);
    EXPECT_EQ(row.confirmed ? Verdict::kConfirm : Verdict::kGoOn, trial.see(row.after, 1000));
  }
}

// Catches: a config that goes back because other nodes were down for the whole time, or keeps its
// own failure for ever afterwards.
TEST(TrialJudge, TheTimeBeginsAgainAfterOtherNodesWereDown) {
  WatchedNode trial("voter of etcd");
  EXPECT_EQ(Verdict::kGoOn, trial.see("~voter of etcd", 130));
  EXPECT_EQ(Verdict::kGoOn, trial.see("!voter of etcd", 240));
  EXPECT_EQ(Verdict::kRevert, trial.see("!voter of etcd", 241));
}

// Catches: a trial that never ends for a node whose duties fail in turn, or one that goes back
// although each duty was fulfilled for long.
TEST(TrialJudge, DutiesThatWereFulfilledInTurnConfirm) {
  WatchedNode trial("network,voter of etcd");
  EXPECT_EQ(Verdict::kGoOn, trial.see("network,!voter of etcd", 60));
  EXPECT_EQ(Verdict::kGoOn, trial.see("!network,voter of etcd", 90));
  EXPECT_EQ(Verdict::kConfirm, trial.see("!network,voter of etcd", 92));
}

// Catches: a service that is up for a moment between two crashes and counts as working.
TEST(TrialJudge, AMomentOfWorkIsNoWork) {
  WatchedNode trial("voter of etcd");
  auto verdict = Verdict::kGoOn;
  for (int begin = 0; begin < 130 && verdict == Verdict::kGoOn; begin += 10) {
    trial.see("voter of etcd", begin + 3);
    verdict = trial.see("!voter of etcd", begin + 10);
  }
  EXPECT_EQ(Verdict::kRevert, verdict);
}

// Catches: a node that no client can reach and that keeps its config; a call before the network was
// as wanted that counts.
TEST(TrialJudge, ANodeWithoutTheCallOfAClientGoesBack) {
  for (bool early : {false, true}) {
    SCOPED_TRACE(early);
    WatchedNode trial("network", true);
    trial.see("!network", 2);
    if (early) trial.get().called();
    EXPECT_EQ(Verdict::kGoOn, trial.see("network", 120));
    EXPECT_EQ(Verdict::kRevert, trial.see("network", 121));
  }
  WatchedNode trial("network", true);
  trial.see("network", 10);
  trial.get().called();
  EXPECT_EQ(Verdict::kConfirm, trial.see("network", 11));
}

// Catches: a call that is forgotten because the network is incomplete for a moment later.
TEST(TrialJudge, ACallIsNotForgotten) {
  WatchedNode trial("network", true);
  trial.see("network", 10);
  EXPECT_TRUE(trial.get().called());
  EXPECT_FALSE(trial.get().called());
  trial.see("!network", 40);
  EXPECT_TRUE(trial.get().isReached());
  EXPECT_EQ(Verdict::kConfirm, trial.see("network", 46));
}

// Catches: a call that was on its way when the change took effect.
TEST(TrialJudge, AnImmediateCallDoesNotCount) {
  WatchedNode trial("network", true);
  EXPECT_FALSE(trial.get().called());
  trial.see("network", 2);
  EXPECT_FALSE(trial.get().called());
  trial.see("network", 5);
  EXPECT_TRUE(trial.get().called());
}

// Catches: work that the new config does not want and that is missed; wanted work that is missing
// and that is not.
TEST(TrialJudge, TheScopeOfTheNewConfigCounts) {
  struct {
    const char* name;
    const char* before;
    const char* after;
    bool registered;
    std::vector<const char*> pods;
    bool confirmed;
  } rows[] = {
      {"skipNodeRegistration", "Kubernetes node,network", "network", false, {}, true},
      {"a Node that is gone", "Kubernetes node,network", "network", true, {}, false},
      {"another host name",
       "pod kube-system/kube-scheduler-a,network",
       "pod kube-system/kube-scheduler-b,network",
       true,
       {"kube-scheduler"},
       true},
      {"another host name, and ill",
       "pod kube-system/kube-scheduler-a,network",
       "!pod kube-system/kube-scheduler-b,network",
       true,
       {"kube-scheduler"},
       false},
      {"a scheduler that is disabled",
       "pod kube-system/kube-scheduler-a,network",
       "network",
       true,
       {},
       true},
      {"a scheduler that is gone",
       "pod kube-system/kube-scheduler-a,network",
       "network",
       true,
       {"kube-scheduler"},
       false},
  };
  for (auto& row : rows) {
    SCOPED_TRACE(row.name);
    WatchedNode trial(row.before);
    auto facts = factsOf(row.after);
    facts.scope.known = true;
    facts.scope.registered = row.registered;
    for (auto pod : row.pods) facts.scope.staticPods.add(kj::str(pod));
    EXPECT_EQ(row.confirmed ? Verdict::kConfirm : Verdict::kRevert, trial.see(facts, 1000));
  }
}

// Catches: what a service did before it took up the change, and that counts for the change.
TEST(TrialJudge, WorkBeforeTheChangeIsInEffectDoesNotCount) {
  WatchedNode trial("voter of etcd");
  auto facts = factsOf("voter of etcd");
  facts.notInEffect = kj::str("etcd waits for its turn");
  trial.see(facts, 100);
  EXPECT_EQ(Verdict::kRevert, trial.see("!voter of etcd", 1000));
  EXPECT_EQ(121, trial.now);
}

// Catches: a failure that stays for ever because the duty was once fulfilled.
TEST(TrialJudge, ALateFailureRevertsAfterTheWholeTime) {
  WatchedNode trial("voter of etcd,network", true);
  trial.see("voter of etcd,network", 60);
  EXPECT_EQ(Verdict::kGoOn, trial.see("!voter of etcd,network", 180));
  EXPECT_EQ(Verdict::kRevert, trial.see("!voter of etcd,network", 182));
}

// Catches: a kubelet whose image is fetched slowly, and a config that goes back for that; an image
// that never comes.
TEST(TrialJudge, TheTimeBeginsWhenTheImageIsThere) {
  auto facts = factsOf("!service kubelet,network");
  facts.pulls = kj::str("the image of kubelet");
  WatchedNode slow("service kubelet,network");
  EXPECT_EQ(Verdict::kGoOn, slow.see(facts, 1100));
  EXPECT_EQ(Verdict::kConfirm, slow.see("service kubelet,network", 1110));
  WatchedNode never("service kubelet,network");
  EXPECT_EQ(Verdict::kRevert, never.see(facts, 3000));
  EXPECT_EQ(20 * 60 + 120, never.now);
}

// Catches: a slow boot that counts as a failure.
TEST(TrialJudge, TheTimeBeginsWhenTheBootHasEnded) {
  WatchedNode slow("boot,voter of etcd");
  EXPECT_EQ(Verdict::kGoOn, slow.see("!boot,!voter of etcd", 118));
  EXPECT_EQ(Verdict::kGoOn, slow.see("boot,!voter of etcd", 230));
  EXPECT_EQ(Verdict::kConfirm, slow.see("boot,voter of etcd", 236));
  WatchedNode never("boot");
  EXPECT_EQ(Verdict::kRevert, never.see("!boot", 1000));
  EXPECT_EQ(240, never.now);
}

// Catches: a Node that counts as Ready although its kubelet has just been started, or that reverts
// for that.
TEST(TrialJudge, ItIsTooEarlyForAVerdictAfterAStartOfTheKubelet) {
  WatchedNode trial("Kubernetes node");
  auto facts = factsOf("Kubernetes node");
  facts.tooEarly = kj::str("the kubelet was started 5 s ago");
  EXPECT_EQ(Verdict::kGoOn, trial.see(facts, 1000));
  EXPECT_EQ(Verdict::kConfirm, trial.see("Kubernetes node", 1006));
}

// Catches: a Node that is Ready by what its kubelet did before the start, and that counts as
// fulfilled for ever; a time that ends while it is too early, so that a moment's failure reverts.
TEST(TrialJudge, WhatWasFulfilledTooEarlySaysNothing) {
  auto facts = factsOf("Kubernetes node");
  facts.tooEarly = kj::str("the kubelet was started 5 s ago");
  WatchedNode bad("Kubernetes node");
  bad.see(facts, 60);
  EXPECT_EQ(Verdict::kRevert, bad.see("!Kubernetes node", 1000));
  WatchedNode good("Kubernetes node");
  good.see(facts, 119);
  EXPECT_EQ(Verdict::kGoOn, good.see("!Kubernetes node", 125));
  EXPECT_EQ(Verdict::kConfirm, good.see("Kubernetes node", 131));
  // The same once the time has begun, although it is too early still.
  WatchedNode late("Kubernetes node");
  late.see(facts, 200);
  EXPECT_EQ(Verdict::kRevert, late.see("!Kubernetes node", 1000));
  EXPECT_EQ(240, late.now);
  // A kubelet that ends after each start is always just started.
  WatchedNode loop("service kubelet");
  auto ends = factsOf("!service kubelet");
  ends.tooEarly = kj::str("the kubelet was started 1 s ago");
  EXPECT_EQ(Verdict::kRevert, loop.see(ends, 1000));
  EXPECT_EQ(121, loop.now);
}

// Catches: a node that no client reaches, and that keeps its config because etcd cannot be
// restarted, or because other nodes are down for ever.
TEST(TrialJudge, AMissingCallIsNotWaitedForForever) {
  auto facts = factsOf("voter of etcd,network");
  facts.notInEffect = kj::str("etcd waits for its turn");
  WatchedNode later("voter of etcd,network", true);
  EXPECT_EQ(Verdict::kRevert, later.see(facts, 3000));
  EXPECT_EQ(121, later.now);
  WatchedNode others("voter of etcd,network", true);
  EXPECT_EQ(Verdict::kRevert, others.see("~voter of etcd,network", 3000));
  EXPECT_GE(others.now, 20 * 60 + 120);
  WatchedNode reached("voter of etcd,network", true);
  reached.see("~voter of etcd,network", 10);
  reached.get().called();
  EXPECT_EQ(Verdict::kGoOn, reached.see("~voter of etcd,network", 3000));
}

// Catches: a trial without an end on a node whose etcd was ill before the change.
TEST(TrialJudge, AServiceThatWasIllBeforeNeedNotTakeUpItsPart) {
  for (bool before : {true, false}) {
    SCOPED_TRACE(before);
    WatchedNode trial(before ? "service etcd,network" : "!service etcd,network");
    auto facts = factsOf("!service etcd,network");
    facts.notInEffect = kj::str("etcd does not start");
    facts.takenUpBy = "service etcd"_kj;
    EXPECT_EQ(before ? Verdict::kRevert : Verdict::kConfirm, trial.see(facts, 1000));
  }
}

// Catches: a change of the control plane that is confirmed before kubed has noticed its failure.
TEST(TrialJudge, AChangeOfTheControlPlaneIsLookedAtForLonger) {
  auto facts = factsOf("kube-apiserver");
  facts.steadyFor = kClusterSteadyFor;
  WatchedNode trial("kube-apiserver");
  EXPECT_EQ(Verdict::kConfirm, trial.see(facts, 100));
  EXPECT_EQ(16, trial.now);
}

// Catches: steadiness that is counted over a time without a look.
TEST(TrialJudge, ATrialThatStoodStillLooksAgain) {
  WatchedNode trial("network");
  trial.see("network", 4);
  trial.get().postpone(60 * kj::SECONDS);
  trial.now += 60;
  EXPECT_EQ(Verdict::kGoOn, trial.see("network", 69));
  EXPECT_EQ(Verdict::kConfirm, trial.see("network", 70));
}

// Catches: a part of the change that takes effect later, and is confirmed or reverted before that.
TEST(TrialJudge, APartThatIsNotInEffectIsWaitedFor) {
  WatchedNode trial("voter of etcd");
  auto facts = factsOf("voter of etcd");
  facts.notInEffect = kj::str("etcd waits for its turn");
  EXPECT_EQ(Verdict::kGoOn, trial.see(facts, 1000));
  EXPECT_EQ(Verdict::kConfirm, trial.see("voter of etcd", 1006));
}

// Catches: a node whose boot failed and that waits for the whole time; a boot that failed before.
TEST(TrialJudge, AFailedBootRevertsAtOnce) {
  for (bool before : {true, false}) {
    WatchedNode trial(before ? "boot,network" : "!boot,network");
    auto facts = factsOf("!boot,network");
    facts.bootFailure = kj::str("no such disk");
    EXPECT_EQ(before ? Verdict::kRevert : Verdict::kConfirm, trial.see(facts, 100));
    EXPECT_EQ(before ? 1 : 6, trial.now);
  }
}

// --- all schedules

namespace {

// Mistakes in the use of the judge, for a check of the check.
struct Mistakes {
  bool countsIllBefore = false;  // what failed before is expected
  bool blamesNode = false;       // failures that other nodes cause are this node's
  bool forgetsBoot = false;      // the end of the boot is no duty
  bool trustsEveryCall = false;  // a call counts before the network is as wanted
  bool hidesFetch = false;       // says nothing of the fetch of an image
  bool hidesDelay = false;       // nor that a part of the change is not in effect
};

// Runs a random schedule of duties, and returns what is wrong with the verdict; empty: nothing.
std::string explore(unsigned seed, const Mistakes& mistakes) {
  std::mt19937 random(seed);
  auto one = [&](unsigned of) { return random() % of == 0; };
  static const char* const kNames[] = {"boot", "network", "voter of etcd"};
  bool ill[3], lost[3], elsewhere[3];
  std::string before;
  for (int i = 0; i < 3; ++i) {
    ill[i] = one(4);
    lost[i] = ill[i] || one(4);  // what was ill before stays ill
    elsewhere[i] = lost[i] && i == 2 && one(3);
    bool listed = !(i == 0 && mistakes.forgetsBoot);
    bool illSeen = ill[i] && !mistakes.countsIllBefore;
    if (listed) before += std::string(before.empty() ? "" : ",") + (illSeen ? "!" : "") + kNames[i];
  }
  bool needsCall = one(2), calls = !needsCall || one(2);
  int networkFrom = one(2) ? 6 : 0;                // takes effect a little later
  int effectFrom = one(3) ? 50 : 0;                // of the whole change
  int fetchUntil = one(3) ? effectFrom + 200 : 0;  // an image, without which etcd does not run
  WatchedNode trial(before, needsCall);
  for (int now = 0; now < 1500 && trial.last == Verdict::kGoOn; ++now) {
    std::string state;
    bool acts = now >= effectFrom, fetches = acts && now < fetchUntil;
    for (int i = 0; i < 3; ++i) {
      bool fails =
          (acts ? lost[i] : ill[i]) || (i == 1 && now < networkFrom) || (i == 2 && fetches);
      bool others = acts && elsewhere[i] && !mistakes.blamesNode;
      state += std::string(i > 0 ? "," : "") + (fails ? (others ? "~" : "!") : "") + kNames[i];
    }
    // A client that will not reach the node again had a last call on the way.
    bool stale = now == 4 && effectFrom == 0 && !calls && !ill[1];
    if (stale && (networkFrom > 4 || mistakes.trustsEveryCall)) {
      trial.see(mistakes.trustsEveryCall ? "boot,network,voter of etcd" : state, now + 1);
      trial.get().called();
    }
    if (calls && now == 10) trial.get().called();
    auto facts = factsOf(state);
    if (!acts && !mistakes.hidesDelay) facts.notInEffect = kj::str("later");
    if (fetches && !mistakes.hidesFetch) facts.pulls = kj::str("an image");
    trial.see(facts, now + 1);
  }
  bool ownLoss = false, othersLoss = false;
  for (int i = 0; i < 3; ++i) {
    bool counts = lost[i] && !ill[i];
    ownLoss = ownLoss || (counts && !elsewhere[i]);
    othersLoss = othersLoss || (counts && elsewhere[i]);
  }
  bool isGivenUp = !trial.get().isReached() && trial.now > 20 * 60 + 120;
  bool mayRevert = ((ownLoss || !calls) && !othersLoss) || isGivenUp;
  bool mustConfirm = !ownLoss && !othersLoss && calls;
  if (trial.last == Verdict::kRevert && !mayRevert) return "reverted a config that is not at fault";
  if (trial.last == Verdict::kConfirm && !mustConfirm) return "confirmed a harmful config";
  if (trial.last == Verdict::kGoOn && (mustConfirm || mayRevert)) return "never decided";
  return "";
}

}  // namespace

// Catches: a mixture of failures with a wrong verdict, or with none.
TEST(TrialJudge, EverySchedulesVerdictIsRight) {
  for (unsigned seed = 0; seed < 5000; ++seed) {
    ASSERT_EQ("", explore(seed, {})) << "seed " << seed;
  }
}

// Catches: a test of schedules that nothing fails.
TEST(TrialJudge, TheSchedulesFindMistakes) {
  struct {
    const char* name;
    bool Mistakes::* of;
  } rows[] = {
      {"what was ill before counts", &Mistakes::countsIllBefore},
      {"other nodes' failures count", &Mistakes::blamesNode},
      {"the boot does not count", &Mistakes::forgetsBoot},
      {"an early call counts", &Mistakes::trustsEveryCall},
      {"says nothing of the fetch of an image", &Mistakes::hidesFetch},
      {"says nothing of a part that is not in effect", &Mistakes::hidesDelay},
  };
  for (auto& row : rows) {
    Mistakes mistakes;
    mistakes.*row.of = true;
    unsigned found = 0;
    for (unsigned seed = 0; seed < 5000; ++seed) found += !explore(seed, mistakes).empty();
    EXPECT_GT(found, 0u) << row.name;
  }
}

// Catches: a node without a network, or that has not booted, whose config is kept because nothing
// speaks of them.
TEST(TrialJudge, WhatEveryConfigHasIsMissed) {
  for (auto duty : {"network", "boot"}) {
    WatchedNode trial(std::string(duty) + ",voter of etcd");
    EXPECT_EQ(Verdict::kRevert, trial.see("voter of etcd", 1000)) << duty;
  }
}

// Catches: a time that passes while nothing looks at the node.
TEST(TrialJudge, TheEndMovesWhileTheTrialStandsStill) {
  WatchedNode trial("network");
  trial.see("!network", 10);
  trial.get().postpone(60 * kj::SECONDS);
  trial.now += 60;
  EXPECT_EQ(Verdict::kGoOn, trial.see("!network", 180));
  EXPECT_EQ(Verdict::kRevert, trial.see("!network", 181));
}

}  // namespace talos::machined
