// The end of a schedule: everything heals, and the cluster must become what its operators want.
#pragma once

#include "tests/tier/tier.h"

namespace talos::tier {

class Ending {
 public:
  explicit Ending(Tier& tier) : tier(tier) {}
  KJ_DISALLOW_COPY_AND_MOVE(Ending);

  // Heals the cluster, upgrades all of it, and judges the result.
  void finish();
  // Returns true if the node runs its confirmed system, and its member votes.
  bool isWell(Machine& machine);

 private:
  Tier& tier;

  void calm();
  void healPart();
  void heal();
  bool isIdle(Machine& machine);
  void repair(Machine& machine);
  void judgeEnd(unsigned image);
};

}  // namespace talos::tier
