// Sends machine configs to nodes and shows the outcome: common code of apply-config, edit and
// patch. For the modes see rpc/configuration.capnp.
#pragma once

#include "talosctl/client/answer-output.h"
#include "talosctl/client/node-config.h"

namespace talos::talosctl {

// Declares --mode, --immediate, --on-reboot, --dry-run, --no-trial, --trial-timeout, --wait,
// --output.
void addApplyFlags(Command& command);

struct ApplySettings {
  rpc::ApplyMode mode = rpc::ApplyMode::REBOOT;
  bool byDefault = true;  // no flag has named the mode
  bool dryRun = false;
  bool wait = false;
  kj::Duration trial = 1 * kj::MINUTES;  // duration of mode try
  bool noTrial = false;
  kj::Duration changeTrial = 0 * kj::SECONDS;  // of the other modes; 0: the node's default
};
// Reads the settings from the flags; a usage error if the flags contradict each other.
ApplySettings applySettings(const Invocation& call);
// Returns true if this command calls the node after its answer, so that the node may conclude from
// silence that it cannot be reached. Calls over the node's own socket do not show that. Pure.
bool callsAgain(const ApplySettings& settings, kj::ArrayPtr<const kj::String> endpoints);

// Returns every error that does not depend on the node, or nullptr. Leaves out warnings, because
// the node reports them, too.
kj::Maybe<kj::String> mistakesOf(kj::ArrayPtr<const char> document, kj::StringPtr file);
// Checks a document before it is written to a file: throws InvalidArgument with its errors, and
// prints its warnings on stderr.
void requireGood(Invocation& call, kj::ArrayPtr<const char> document, kj::StringPtr file);
// Throws Conflict, in the words of the original, if the file exists and --force is not given.
void refuseExisting(Invocation& call, kj::StringPtr path);
// Writes a file that only its owner can read, and makes the missing folders of its path.
void writePrivateFile(kj::StringPtr path, kj::ArrayPtr<const char> content);
// Prints each warning on a separate line of stderr.
void printWarnings(Invocation& call, kj::ArrayPtr<const kj::String> warnings);

struct Parcel;
// Makes a document again, from the config that the node runs now; nullptr if nothing is left to
// send.
using Remake = kj::Function<kj::Promise<kj::Maybe<Parcel>>()>;

struct Parcel {
  kj::StringPtr node;
  kj::StringPtr document;
  // Version of the config from which the document was made: the node refuses the document if it
  // runs another config.
  uint64_t version = 0;
  // Set: after a conflict, such as the change of another client, the document is made again and
  // sent again, a bounded number of times. Outlives the delivery.
  kj::Maybe<Remake&> remake = nullptr;
};

// Sends each node its document, all at once; shows each outcome, and follows the nodes that reboot
// if `settings` say so. For a node that accepted its document, prints `done` first ("patched mc at
// the node 10.0.0.2"; nothing for a dry run), without the node's name if `done` is empty.
kj::Promise<int> applyAll(Invocation& call, Session& session, kj::Array<Parcel> parcels,
                          ApplySettings settings, kj::String done = nullptr);

// Sends a single document, for edit, and prints the outcome. Rejects with the node's error, and
// `taken` then says if the node took the document and, for example, went back.
kj::Promise<void> applyOne(Invocation& call, Session& session, Parcel parcel,
                           ApplySettings settings, bool& taken);

// Declares the arguments and flags of a command that changes the running config of nodes: edit and
// patch.
void declareConfigChange(Command& command);
// Returns the settings of this command; throws InvalidArgument unless the first argument names
// machine configs.
ApplySettings configChangeSettings(const Invocation& call);
// Returns the second argument of this command: the id of the config.
kj::StringPtr changedConfigId(const Invocation& call);
// Returns the running config that this command changes.
kj::Promise<RunningConfig> configToChange(Invocation& call, Session& session, kj::StringPtr node);

// Prints "10.0.0.2: Apply was skipped: no changes detected." on stderr, in the words of the
// original; with -o json or yaml also an answer that reports no change.
void printSkipped(Invocation& call, kj::StringPtr node, kj::StringPtr reason);

}  // namespace talos::talosctl
