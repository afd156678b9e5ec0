// Sends machine configs to nodes and shows the outcome: common code of apply-config, edit and
// patch. Modes: rpc/configuration.capnp.
#pragma once

#include "talosctl/client/answer-output.h"
#include "talosctl/client/node-config.h"

namespace talos::talosctl {

// Declares --mode, --immediate, --on-reboot, --dry-run, --wait, --output.
void addApplyFlags(Command& command);

struct ApplySettings {
  rpc::ApplyMode mode = rpc::ApplyMode::REBOOT;
  bool byDefault = true;  // no flag has named the mode
  bool dryRun = false;
  bool wait = false;
  kj::Duration trial = 1 * kj::MINUTES;  // of mode try
};
// From the flags; a usage error if they cannot be used together.
ApplySettings applySettings(const Invocation& call);

// Every error that does not depend on the node, or none. Warnings are left out: the node reports
// them too.
kj::Maybe<kj::String> mistakesOf(kj::ArrayPtr<const char> document, kj::StringPtr file);
// For a document that goes to a file: throws InvalidArgument with its errors; its warnings go to
// stderr.
void requireGood(Invocation& call, kj::ArrayPtr<const char> document, kj::StringPtr file);
// Each on a line of its own, to stderr.
void printWarnings(Invocation& call, kj::ArrayPtr<const kj::String> warnings);

struct Parcel {
  kj::StringPtr node;
  kj::StringPtr document;
  // Of the config that the document is based on: refused if another one is running.
  uint64_t version = 0;
};

// Sends each node its document, all at once; shows each outcome, and follows the nodes that reboot
// if `settings` say so. `done` is printed first for a node that accepted its document ("patched mc
// at the node 10.0.0.2"; none for a dry run), without the node's name if it is empty.
kj::Promise<int> applyAll(Invocation& call, Session& session, kj::Array<Parcel> parcels,
                          ApplySettings settings, kj::String done = nullptr);

// One document, for edit: rejects as the node does. Prints the outcome.
kj::Promise<void> applyOne(Invocation& call, Session& session, Parcel parcel,
                           ApplySettings settings);

// Declares the arguments and flags of a command that changes the running config of nodes: edit and
// patch.
void declareConfigChange(Command& command);
// Its settings; throws InvalidArgument unless the first argument means machine configs.
ApplySettings configChangeSettings(const Invocation& call);
// Its second argument: the id of the config.
kj::StringPtr changedConfigId(const Invocation& call);
// The running config that it changes.
kj::Promise<RunningConfig> configToChange(Invocation& call, Session& session, kj::StringPtr node);

// Pure: `result` of one node as text. Warnings are separate: they go to stderr.
DrawnText renderOutcome(kj::StringPtr node, rpc::ApplyResult::Reader result,
                        const ApplySettings& settings, bool insecure, bool colour);
kj::String renderWarnings(kj::StringPtr node, rpc::ApplyResult::Reader result);

// "10.0.0.2: Apply was skipped: no changes detected." on stderr, in the words of the original; with
// -o json also an answer in which nothing was done.
void printSkipped(Invocation& call, kj::StringPtr node, kj::StringPtr reason);

}  // namespace talos::talosctl
