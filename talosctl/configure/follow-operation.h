// Follows an apply that a node carries out: after an early answer, because keys of volumes are
// being changed, and after a lost connection (resource Operations/apply-config).
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cli/progress-lines.h"
#include "talosctl/configure/moved-node.h"

namespace talos::talosctl {

struct NodeOperation {
  uint64_t number;
  kj::String bootId;  // boot of the node that has the operation; empty: an earlier release, unknown
};

enum class OperationEnd {
  kDone,
  kRebooted  // the node has rebooted since, and runs the config
};

// Follows the operation to its end, over its own connections; `document` is the config that it
// applies. Shows each step in line `index` of `progress`. Rejects with the reason if it failed, if
// the node has rebooted and runs another config, and with the last step when --timeout (default 10
// minutes) has passed, although the node then continues the operation.
kj::Promise<OperationEnd> followOperation(Invocation& call, MovedNode& node,
                                          const NodeOperation& operation, kj::StringPtr document,
                                          Progress& progress, size_t index);

// A node's record of an apply that it has begun.
struct BegunApply {
  kj::String mode;    // as the user writes it: no-reboot
  kj::String bootId;  // boot of the node that has the record
};

// Asks the node, after a call whose answer was lost, for the operation with the number that the
// call named. Resolves with nullptr if for 10 s the node has no such record, or does not answer for
// `silentFor`.
kj::Promise<kj::Maybe<BegunApply>> findOperation(Invocation& call, MovedNode& node, uint64_t number,
                                                 kj::Duration silentFor);

// Returns true for an error of the connection, such as during a restart of machined: a retry may
// succeed.
bool mayPass(const kj::Exception& e);

}  // namespace talos::talosctl
