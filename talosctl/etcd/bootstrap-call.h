// Bootstraps etcd's cluster on one node, with or without a snapshot.
#pragma once

#include "talosctl/cli/progress-lines.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/client/sent-file.h"

namespace talos::talosctl {

struct BootstrapCall {
  kj::ArrayPtr<const kj::String> among;    // nodes that are checked for a cluster first
  kj::ArrayPtr<const kj::String> without;  // nodes that are not checked
  kj::Maybe<const SentFile&> snapshot;
  bool skipHashCheck = false;
};

// Printed before or after a snapshot is restored.
constexpr kj::StringPtr kTokensEnd =
    "all join tokens that the snapshot has are revoked; workers that have joined stay"_kj;

// Bootstraps the node, within the session's deadline. Returns true if it was bootstrapped before.
// Shows the progress in line 0, and stores the newest state of etcd in `last`.
kj::Promise<bool> callBootstrap(Invocation& call, Session& session, kj::StringPtr node,
                                const BootstrapCall& how, Progress& progress, kj::String& last);

}  // namespace talos::talosctl
