// Follows the trial of a change of the config (rpc/machine.capnp, ConfigTrial): the calls
// themselves show the node that a client can reach it.
#pragma once

#include "rpc/configuration.capnp.h"
#include "talosctl/cli/command.h"
#include "talosctl/cli/node-outcome.h"
#include "talosctl/cli/progress-lines.h"

namespace talos::talosctl {

constexpr auto kUsualTrial = 10 * kj::MINUTES;  // the node's default

// The end that a follower waits for.
struct TrialGoal {
  kj::String document;     // SHA-256 of the config, hexadecimal
  bool reach = false;      // done as soon as the node was reached
  bool ifOnTrial = false;  // it is not known if the config is on trial
};
// Judges a trial by the node's status: done when the config is confirmed, or was reached; failed
// when the config went back, or the node runs another one without a trial. Pure.
Judgement judgeTrial(rpc::Status::Reader status, const TrialGoal& goal);

// Returns "on trial for at most 10m: goes back unless the node does this again: …"; empty for a
// change that is not on trial. Pure.
kj::String describeTrial(rpc::ApplyResult::Reader result, bool dryRun);

// Follows the trial to this goal. Each look has a new connection, because an earlier one may work
// although the new config refuses it. Rejects with the reason if the config went back, and if the
// node was not reached in this time.
kj::Promise<void> followTrial(Invocation& call, kj::StringPtr node, const TrialGoal& goal,
                              kj::Duration time, Progress& progress, size_t index);

}  // namespace talos::talosctl
