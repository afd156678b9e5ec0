// Makes etcd's cluster on one node, with a snapshot or without.
#pragma once

#include "talosctl/cli/progress-lines.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/client/sent-file.h"

namespace talos::talosctl {

struct BootstrapCall {
  kj::ArrayPtr<const kj::String> among;    // nodes that are asked for a cluster first
  kj::ArrayPtr<const kj::String> without;  // nodes that are not
  kj::Maybe<const SentFile&> snapshot;
  bool skipHashCheck = false;
};

// Said before or after a snapshot is restored.
constexpr kj::StringPtr kTokensEnd =
    "all join tokens that the snapshot has are revoked; workers that have joined stay"_kj;

// True when it was done before. Shows in line 0 how far it is, and leaves in `last` the newest
// state of etcd. Within the session's deadline.
kj::Promise<bool> callBootstrap(Invocation& call, Session& session, kj::StringPtr node,
                                const BootstrapCall& how, Progress& progress, kj::String& last);

}  // namespace talos::talosctl
