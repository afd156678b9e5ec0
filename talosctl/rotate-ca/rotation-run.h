// The phases of a rotation (rotation-plan.h), one after the other over all nodes.
//
// Every node's config is read before anything is changed; a node that does not answer ends the run
// there. A phase changes one node after the other and waits for each to show that it is in effect,
// then looks at all of them once more, and tries clients of both CAs at the endpoints. A node that
// does not get there within some minutes ends the run with the nodes that are left. A run that
// ended, at whatever line, is continued by the next one, by anybody.
#pragma once

#include "common/config/talosconfig.h"
#include "talosctl/rotate-ca/remote-rotation.h"

namespace talos::talosctl {

struct RotationOptions {
  kj::Vector<kj::String> nodes;  // all of the cluster; none: those that Kubernetes has
  kj::String asked;              // the node that names them
  bool dryRun = true;
  kj::String contextName;
  kj::Vector<kj::String> contextNodes;
  kj::String output;  // of the new client configuration
};

class RotationRun {
 public:
  // `cluster` outlives it; `present` is what it has been made with.
  RotationRun(Invocation& call, RemoteRotation& cluster, Credentials present,
              RotationOptions options);
  kj::Promise<void> run();

 private:
  Invocation& call;
  RemoteRotation& cluster;
  Credentials present;  // of the user
  RotationOptions options;
  kj::Vector<RotatedNode> nodes;  // the control plane first
  Rotation rotation;
  kj::Maybe<Credentials> fresh;  // of the new CA
  bool written = false;          // the new client configuration is in its file

  kj::Promise<void> findNodes();
  kj::Promise<void> readNodes();
  void checkOutput();
  void showPlan();
  kj::Promise<void> phase(RotationPhase phase);
  kj::Promise<void> reachPhase(size_t index, RotationPhase phase, bool changes);
  void makeClient();
  void writeClient();
  kj::Promise<void> tryClients(RotationPhase phase);
  kj::Promise<void> tryEndpoint(kj::StringPtr endpoint, RotationPhase phase);
  kj::String left(size_t from) const;
};

}  // namespace talos::talosctl
