// Follows the trial of a change of the config (rpc/machine.capnp, ConfigTrial): the calls
// themselves show the node that a client can reach it.
#pragma once

#include "rpc/configuration.capnp.h"
#include "talosctl/cli/command.h"
#include "talosctl/cli/node-outcome.h"
#include "talosctl/cli/progress-lines.h"
#include "talosctl/configure/apply-configs.h"
#include "talosctl/configure/moved-node.h"

namespace talos::talosctl {

constexpr auto kUsualTrial = 10 * kj::MINUTES;  // the node's default

// The end that a follower waits for.
struct TrialGoal {
  kj::String document;     // SHA-256 of the config, hexadecimal
  bool reach = false;      // done as soon as the node was reached
  bool ifOnTrial = false;  // it is not known if the config is on trial
};
// Judges a trial by the node's status: done when the config is confirmed, or was reached; failed
// when the config went back, or another one has replaced it. Pure.
Judgement judgeTrial(rpc::Status::Reader status, const TrialGoal& goal);
// Judges the boot of a node whose config is on trial: failed when the config goes back, and
// otherwise as `boot` says, except that a boot which failed is not the end yet. Pure.
Judgement judgeTrialBoot(rpc::Status::Reader status, Judgement boot);

// Returns "on trial for at most 10m: goes back unless the node does this again: …"; empty for a
// change that is not on trial. Pure.
kj::String describeTrial(rpc::ApplyResult::Reader result, bool dryRun);

struct AppliedConfig {
  ApplySettings settings;
  kj::StringPtr document;
  bool answerWasLost = false;  // and with it the time of the trial
};
// After the answer of a node: follows its reboot if the settings say so. Then calls the node until
// it was reached with its new config, or follows the trial to its end. Rejects with the reason if
// the config went back, and if the node was not reached in the time of the trial. `name`: of the
// node, as the user wrote it.
kj::Promise<void> followConfig(Invocation& call, MovedNode& node, kj::StringPtr name,
                               const AppliedConfig& config, rpc::ApplyResult::Reader result,
                               Progress& progress, size_t index);

}  // namespace talos::talosctl
