// An operator of the model: `talosctl upgrade-cluster`, which is the real RollingRun, and its view
// of the nodes. A call takes a while, and may be lost.
#pragma once

#include "talosctl/upgrade-cluster/rolling-run.h"
#include "tests/tier/tier.h"

namespace talos::tier {

class Operator final : public talosctl::RollingCluster {
 public:
  explicit Operator(Tier& tier) : tier(tier) {}

  kj::Promise<talosctl::ClusterSurvey> survey() override;
  kj::Promise<Look> look(kj::StringPtr node, kj::StringPtr before) override;
  kj::Promise<talosctl::FetchOutcome> fetch(kj::StringPtr node, const talosctl::TargetImage& target,
                                            bool keep, Fetched progress) override;
  kj::Promise<kj::String> upgrade(kj::StringPtr node, const talosctl::TargetImage& target) override;
  kj::Promise<void> forfeit(kj::StringPtr node) override;

  // Requests that an operator makes of one node.
  kj::Promise<void> upgradeAlone(Machine& machine, unsigned image, bool preserve, bool stage);
  kj::Promise<void> rollBack(Machine& machine);
  kj::Promise<void> reboot(Machine& machine);

 private:
  Tier& tier;

  Machine& at(kj::StringPtr node);
  kj::Promise<void> transfer(Machine& machine);
  Brain& brainOf(Machine& machine);
  talosctl::NodeSurvey surveyOf(Machine& machine);
  kj::Maybe<talosctl::EtcdSurvey> etcdSurvey();
};

// One call of `talosctl upgrade-cluster`. Dropping it is an interrupt.
class Run {
 public:
  Run(Tier& tier, unsigned image);
  KJ_DISALLOW_COPY_AND_MOVE(Run);

  const unsigned image;
  enum class State { kRuns, kFinished, kStopped } state = State::kRuns;
  kj::String error;  // why it stopped

 private:
  class Silence;
  Tier& tier;
  kj::Own<talosctl::Console> console;
  Operator cluster;
  talosctl::RollingLines lines;
  talosctl::RollingRun run;
  kj::Promise<void> running;
};

}  // namespace talos::tier
