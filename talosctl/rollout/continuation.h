// The command line with which a rollout that was interrupted continues. A rollout keeps no state on
// this host, so the same command continues it; some need another flag from a point on.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

constexpr int kInterruptedStatus = 130;  // as shells report a program that SIGINT has ended

// A flag in the place of the one that the user gave, or in addition.
struct ChangedFlag {
  kj::StringPtr name, value;
};

// Returns the command line of this call, quoted for a shell: its path, its arguments, and the flags
// that the user gave, by their long names.
kj::String commandLineOf(const Invocation& call, kj::ArrayPtr<const ChangedFlag> changed = nullptr);

// Returns "continue with: talosctl …".
kj::String continueWith(const Invocation& call, kj::ArrayPtr<const ChangedFlag> changed = nullptr);

// Declares that the command is a rollout: its run uses untilInterrupted().
void declareRollout(Command& command);
// Returns the status of `run`, or at an interrupt drops it, prints "interrupted" and the line that
// `next` returns (empty: none), and returns kInterruptedStatus. Each change of a rollout is one
// request, so nothing is half done on a node.
kj::Promise<int> untilInterrupted(Invocation& call, kj::Promise<int> run,
                                  kj::Function<kj::String()> next);
// The same, with continueWith(), or no line if the call has --dry-run.
kj::Promise<int> untilInterrupted(Invocation& call, kj::Promise<int> run);

}  // namespace talos::talosctl
