// Both sides of the control socket of a cluster's supervisor, <state>/<name>/control.sock. Cap'n
// Proto (rpc/cluster.capnp), mode 0600: only for the owner of the state folder.
#pragma once

#include <kj/async-io.h>

#include "common/wire/rpc-server.h"
#include "rpc/cluster.capnp.h"
#include "talosctl/cluster/nodes/cluster-nodes.h"

namespace talos::cluster {

// Runs until dropped.
kj::Promise<void> serveControl(kj::AsyncIoContext& io, kj::StringPtr stateFolder,
                               ClusterNodes& nodes);

// The client of a command. Every call has a deadline, and its error names the awaited result.
class ControlClient {
 public:
  // Rejects with Unavailable if no supervisor listens.
  static kj::Promise<kj::Own<ControlClient>> connect(kj::LowLevelAsyncIoProvider& lowLevel,
                                                     kj::Timer& timer, kj::StringPtr stateFolder);
  ControlClient(kj::Timer& timer, kj::Own<Connection> connection);

  kj::Promise<capnp::Response<rpc::LocalClusterControl::StatusResults>> states();
  kj::Promise<void> power(kj::StringPtr node, rpc::PowerAction action);
  kj::Promise<void> stopAll();

 private:
  kj::Timer& timer;
  kj::Own<Connection> connection;
  rpc::LocalClusterControl::Client control;
};

}  // namespace talos::cluster
