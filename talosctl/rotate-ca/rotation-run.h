// The phases of a rotation (rotation-plan.h), one after the other over all nodes.
//
// Every node's config is read before anything is changed; a node that does not answer ends the run
// there, and so does one whose role is not what others say, or that is of the control plane and
// cannot show it (node-roles.h). A phase changes one node after the other and waits for each to
// show that it is in effect, then looks at all of them once more, and tries clients of both CAs. A
// node that does not get there within some minutes ends the run with the nodes that are left. A run
// that ended, at whatever line, is continued by the next one, by anybody.
//
// They differ in what is in effect, and for whom: MachineRotation, KubernetesRotation,
// SecretsKeyRotation, ServiceAccountRotation, AggregatorRotation, EtcdRotation.
#pragma once

#include "talosctl/rotate-ca/node-roles.h"
#include "talosctl/rotate-ca/remote-rotation.h"
#include "talosctl/rotate-ca/worker-tokens.h"

namespace talos::talosctl {

struct RotationOptions {
  kj::Vector<kj::String> nodes;            // all of the cluster; none: those that Kubernetes has
  kj::Vector<kj::String> planes, workers;  // those of `nodes` whose role is named
  kj::String asked;                        // the node that names them
  bool dryRun = true;
  kj::String contextName;
  kj::Vector<kj::String> contextNodes;
  kj::String output;  // of the new client configuration
};

class RotationRun {
 public:
  // All outlive it.
  RotationRun(Invocation& call, RemoteRotation& cluster, const RotationOptions& options,
              RotatedCa which);
  virtual ~RotationRun() noexcept(false) = default;
  KJ_DISALLOW_COPY_AND_MOVE(RotationRun);

  // Reads the configs of all nodes. To be called first.
  kj::Promise<void> look();
  // An earlier run has begun it and did not end it.
  bool isBegun() const { return rotation.begun; }
  // Throws when it cannot be done; changes nothing.
  kj::Promise<void> show();
  kj::Promise<void> run();

 protected:
  Invocation& call;
  RemoteRotation& cluster;
  const RotationOptions& options;
  kj::Vector<RotatedNode> nodes;   // the control plane first
  kj::Vector<ListedToken> tokens;  // of workers
  Rotation rotation;

  // Of the nodes, beside their configs.
  virtual kj::Promise<void> readMore() { return kj::READY_NOW; }
  virtual kj::StringPtr owner() const = 0;  // of the CA, as it follows "of"
  virtual kj::StringPtr thing() const { return "CA"_kj; }
  virtual kj::String shownOld() const { return shortHash(rotation.oldCa); }
  virtual kj::String shownNew() const { return shortHash(rotation.newCa); }
  virtual kj::StringPtr doneText(RotationPhase phase) const;
  virtual kj::StringPtr stateWhenStopped() const {
    return "the cluster serves clients of the present CA"_kj;
  }
  // Before anything is changed, or shown; throws when it cannot be done.
  virtual kj::Promise<void> prepare() = 0;
  virtual void showMore() {}
  virtual kj::Promise<void> begin(RotationPhase) { return kj::READY_NOW; }
  // The reason why what the node's config has at the end of the phase is not in effect; none: it
  // is.
  virtual kj::Promise<kj::Maybe<kj::String>> served(const RotatedNode& node,
                                                    RotationPhase phase) = 0;
  virtual void reached(RotationPhase) {}  // by a node
  virtual kj::Promise<void> tryClients(RotationPhase phase) = 0;
  virtual kj::Promise<void> finish() = 0;
  virtual kj::Duration pause() const = 0;  // between two looks

  // Until `attempt` finds no error. DeadlineExceeded after `limit`, with `problem` and the last
  // one.
  kj::Promise<void> repeat(kj::Function<kj::Promise<kj::Maybe<kj::String>>()> attempt,
                           kj::Duration limit, kj::StringPtr problem);
  void note(kj::StringPtr text);  // "> …"
  void requireNames() const;      // FailedPrecondition for a node that Kubernetes does not have

 private:
  struct Named {
    kj::String host, name, ip;
    AssignedRole role;
  };
  kj::Promise<kj::Vector<Named>> findNodes(kj::StringPtr asked);
  void addMember(kj::Vector<Named>& named, const ClusterMember& member, kj::StringPtr asked) const;
  kj::Promise<void> readNodes(kj::ArrayPtr<const Named> named);
  void fixRoles(kj::ArrayPtr<const Named> named);
  kj::Promise<void> requireSameMembers(kj::ArrayPtr<const Named> named);
  kj::Vector<size_t> order(RotationPhase phase) const;
  void showPlan();
  kj::Promise<void> phase(RotationPhase phase);
  kj::Promise<void> reachPhase(RotatedNode& node, RotationPhase phase, bool changes,
                               kj::StringPtr left);
};

}  // namespace talos::talosctl
