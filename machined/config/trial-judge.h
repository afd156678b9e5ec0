// The verdict about a change of the config that is on trial (change-trial.h). Pure: the state of
// the node and the time are passed in.
//
// The change is confirmed when the node does again what it did before: each duty that was fulfilled
// before the change is fulfilled, all at the same time for some seconds, or each for half a minute
// at some time; and, if the client has promised to call again, a client has called. It is reverted
// when the time has passed and a duty of this node was never fulfilled for half a minute, or has
// failed for as long as the whole time.
//
// No other reason reverts it: not a duty that failed before, not one that the new config no longer
// wants (an address or a volume that was removed, a component that was disabled, a node that no
// longer registers), not the clock, which depends on servers, and not a failure that other nodes
// cause. While other nodes cause a failure, or a part of the change is not in effect although the
// node works, the time begins again; but a client that has promised to call is not waited for
// longer than kLongestTrialWait more. It begins after the boot, and after the fetch of the image of
// a service, both within a limit. A service that was ill before need not take up its part.
//
// A duty counts from the moment when the whole change is in effect and shows its effect: what the
// node did before that says nothing.
#pragma once

#include <kj/time.h>

#include "machined/upgrade/node-duties.h"

namespace talos::machined {

constexpr kj::StringPtr kBootDuty = "boot"_kj, kNodeDuty = "Kubernetes node"_kj;
constexpr auto kTrialSteadyFor = 5 * kj::SECONDS, kTrialFulfilledFor = 30 * kj::SECONDS;
// kubed's verdict about the API server of the node is late by some seconds.
constexpr auto kClusterSteadyFor = 15 * kj::SECONDS;
// A call on its way when the change took effect says nothing.
constexpr auto kCallsCountAfter = 3 * kj::SECONDS;
// The longest time before the time of a trial begins.
constexpr auto kLongestTrialWait = 20 * kj::MINUTES;

// The state of the node during a trial.
struct TrialFacts {
  kj::Vector<Duty> duties;            // with kBootDuty: the boot has ended
  DutyScope scope;                    // the work in Kubernetes that the new config wants
  kj::Maybe<kj::String> bootFailure;  // the boot has failed: no time helps
  kj::Maybe<kj::String> notInEffect;  // a part of the change that takes effect later
  // The duty of the service that takes this part up; empty: none.
  kj::StringPtr takenUpBy = nullptr;
  kj::Maybe<kj::String> pulls;  // an image that is being fetched, without an error so far
  // Why the duties do not show the effect of the change yet, although it is in effect.
  kj::Maybe<kj::String> tooEarly;
  kj::Duration steadyFor = kTrialSteadyFor;  // how long all duties have to be fulfilled
  bool standsStill = false;                  // something else is on trial: the system
};

// Returns the names of the fulfilled duties that a trial looks at.
kj::Vector<kj::String> trialDuties(kj::ArrayPtr<const Duty> duties);

class TrialJudge {
 public:
  struct Terms {
    kj::ArrayPtr<const kj::String> before;  // the duties that were fulfilled before the change
    bool needsCall = false;                 // a client has to call
    kj::Duration timeout;
  };
  // `left`: the time until the end, if it is not `timeout`.
  TrialJudge(const Terms& terms, kj::TimePoint now, kj::Maybe<kj::Duration> left = nullptr);

  enum class Verdict { kGoOn, kConfirm, kRevert };
  Verdict judge(const TrialFacts& facts, kj::TimePoint now);
  // Counts a call of a client, if the network was as wanted in a verdict since the change. Returns
  // true for the first one that counts.
  bool called();
  // Moves the end: the node was not looked at.
  void postpone(kj::Duration by);

  bool isReached() const { return reached || !needsCall; }
  // Returns true if the time has passed once, and no failure of this node ended the trial.
  bool hasOutlived() const { return outlived; }
  kj::StringPtr lacks() const { return lacking; }  // what the last verdict missed; may be empty
  kj::TimePoint end() const { return deadline; }

 private:
  struct Kept {
    kj::String name;
    kj::Maybe<kj::TimePoint> since = nullptr, failingSince = nullptr;
    bool fulfilled = false;  // for long enough, once
  };
  struct Failing {
    kj::Vector<kj::String> texts;
    bool any = false;
    bool counts = false;  // a duty was never fulfilled for long enough, or fails for too long
    bool elsewhere = false, boot = false, network = false;
  };
  kj::Vector<Kept> duties;
  bool needsCall, reached = false, networkSeen = false, outlived = false;
  kj::Duration timeout;
  kj::TimePoint begun, deadline;
  kj::Maybe<kj::TimePoint> steadySince;
  kj::String lacking;

  Failing look(const TrialFacts& facts, kj::TimePoint now);
  bool isLater(const TrialFacts& facts) const;
  void forgetWork();
  bool waits(const TrialFacts& facts, const Failing& failing, kj::TimePoint now);
  bool isGood(const TrialFacts& facts, const Failing& failing, kj::TimePoint now);
  Verdict atEnd(const TrialFacts& facts, const Failing& failing, kj::TimePoint now);
  bool expects(kj::StringPtr name) const;
};

}  // namespace talos::machined
