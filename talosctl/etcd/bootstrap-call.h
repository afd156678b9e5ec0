// Bootstraps etcd's cluster on one node, with or without a snapshot.
#pragma once

#include "rpc/machine.capnp.h"
#include "talosctl/cli/command.h"
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

// Shows the progress of etcd on a node, for a command that waits for it: repeatedly reads the
// resource EtcdStatuses/etcd, shows it in the first line of `progress`, and stores it in `last`:
// "joining: waits for the lock …". Runs until dropped.
kj::Promise<void> followEtcd(Invocation& call, rpc::Node::Client node, Progress& progress,
                             kj::String& last);

// Returns the progress of sending a snapshot, in steps of 5 % on a terminal. Without a terminal,
// where each change would be a line, the text does not change. Pure.
kj::String sendingText(uint64_t done, uint64_t size, bool terminal);

}  // namespace talos::talosctl
