// Shows the progress of etcd on a node, for a command that waits for it.
#pragma once

#include "rpc/machine.capnp.h"
#include "talosctl/cli/command.h"
#include "talosctl/cli/progress-lines.h"

namespace talos::talosctl {

// Repeatedly reads the resource EtcdStatuses/etcd, shows it in the first line of `progress`, and
// stores it in `last`: "joining: waits for the lock …". Runs until dropped.
kj::Promise<void> followEtcd(Invocation& call, rpc::Node::Client node, Progress& progress,
                             kj::String& last);

// Returns the progress of sending a snapshot, in steps of 5 % on a terminal. Without a terminal,
// where each change would be a line, the text does not change. Pure.
kj::String sendingText(uint64_t done, uint64_t size, bool terminal);

}  // namespace talos::talosctl
