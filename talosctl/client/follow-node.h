// Follows a node until an outcome is known: after a reboot, until the node answers with another
// boot id and its services are up; after a shutdown, until the node is off.
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cli/node-outcome.h"
#include "talosctl/cli/progress-lines.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

constexpr kj::Duration kOutcome = 10 * kj::MINUTES;

// Declares --wait.
void addWaitFlag(Command& command, bool fallback);

// Declares the flag by which Talos selects the kind of reboot. This system always reboots
// through the firmware.
void addRebootMode(Command& command, kj::StringPtr name);

struct Follower {
  kj::Duration limit;
  // Judges the node through a client that is connected. Rejects if the node does not answer.
  kj::Function<kj::Promise<Judgement>(Client& client)> look;
  // Judges a missing answer of the node, or with `unreached` of all these endpoints.
  kj::Function<Judgement(bool unreached, kj::ArrayPtr<const kj::String> endpoints)> silent;
  bool anew = false;  // each look has its own connection
  // Returns the target of the next connection; nullptr: that of the call.
  kj::Maybe<kj::Function<Target()>> target = nullptr;
};

// Follows a node over separate connections. Shows each state in line `index` of `progress`. Rejects
// with the reason if the node failed, and with its last state when the limit has passed.
kj::Promise<void> follow(Invocation& call, Follower follower, Progress& progress, size_t index);

// Follows the node in this way, for at most --timeout (default kOutcome). A node that shuts down
// counts as off if it stays silent while an endpoint answers, or if the node is itself an endpoint:
// by its name, or by `isEndpoint`.
kj::Promise<void> follow(Invocation& call, Outcome::Kind kind, kj::StringPtr node,
                         kj::String bootId, Progress& progress, size_t index,
                         bool isEndpoint = false);

// Requests the state of a node that an Outcome needs, through the client's connection, and judges
// it; connect() first. Rejects if the node does not answer; the caller then calls outcome.silent().
kj::Promise<Judgement> judge(Client& client, kj::StringPtr node, Outcome& outcome);

}  // namespace talos::talosctl
