// The judges of a tier: what must never happen, whatever the faults. A violation is noted with
// Tier::never(), and ends the schedule.
#pragma once

#include "tests/tier/machine.h"

namespace talos::tier {

class Judges {
 public:
  explicit Judges(Tier& tier) : tier(tier) {}
  KJ_DISALLOW_COPY_AND_MOVE(Judges);

  // Notes a fault, or a departure that is not by an upgrade: for some seconds no node can know of
  // it.
  void noteFault(kj::TimePoint now) { lastFault = now; }

  // Visits the probes of the start of a system, before the system draws its conclusion.
  void observeStart(Machine& machine);
  // The following judge a start, a choice of the boot loader's confirmed slot, a departure for the
  // trial of another system or for the end of one, a member that has left for an upgrade, and
  // EPHEMERAL that is about to be erased.
  void judgeStart(Machine& machine);
  void judgeChoice(Machine& machine, install::Slot confirmed);
  void judgeGoing(Machine& machine, bool givesUp);
  void judgeLeft(Machine& machine);
  void judgeWipe(Machine& machine);
  // Judges the claim of upgrade-cluster that each node runs this image.
  void judgeFinished(unsigned image);

 private:
  Tier& tier;
  kj::TimePoint lastFault = kj::origin<kj::TimePoint>();
};

}  // namespace talos::tier
