// The progress of etcd on a node, for a command that waits for it.
#pragma once

#include "rpc/machine.capnp.h"
#include "talosctl/cli/command.h"
#include "talosctl/cli/progress-lines.h"

namespace talos::talosctl {

// Reads the resource EtcdStatuses/etcd now and then, shows it in the first line of `progress`, and
// keeps it in `last`: "joining: waits for the lock …". Until dropped.
kj::Promise<void> followEtcd(Invocation& call, rpc::Node::Client node, Progress& progress,
                             kj::String& last);

// How far a snapshot was sent, in steps of 5 % where a line is rewritten; elsewhere each change is
// a line, and so it does not change. Pure.
kj::String sendingText(uint64_t done, uint64_t size, bool terminal);

}  // namespace talos::talosctl
