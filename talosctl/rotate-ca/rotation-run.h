// Runs the phases of a rotation (rotation-plan.h), one after the other over all nodes.
//
// Every node's config is read before anything is changed. The run ends there if a node does not
// answer, if its role contradicts the assigned role, or if it belongs to the control plane and
// cannot prove it (node-roles.h). A phase changes one node after the other and waits for each to
// show that the change is in effect; then it checks all nodes once more and tries clients of both
// CAs. If a node does not get there within some minutes, the run ends with the list of the
// remaining nodes. A run that ended at any point can be continued by any user.
//
// The rotations (rotations.h) differ in the state that must be in effect, and for which programs.
#pragma once

#include "talosctl/rollout/attempts.h"
#include "talosctl/rotate-ca/node-roles.h"
#include "talosctl/rotate-ca/remote-rotation.h"
#include "talosctl/rotate-ca/worker-tokens.h"

namespace talos::talosctl {

struct RotationOptions {
  kj::Vector<kj::String> nodes;  // all nodes of the cluster; empty: the nodes that Kubernetes has
  kj::Vector<kj::String> planes, workers;  // nodes among `nodes` whose role is named
  kj::String asked;                        // node that lists the members
  bool dryRun = true;
  kj::String contextName;
  kj::Vector<kj::String> contextNodes;
  kj::String output;  // path of the new client configuration
  // Further client configurations, whose current context gets the new client.
  kj::Vector<kj::String> renewed;
  kj::String mark;  // path of an empty file that is written before the first change; empty: none
};

class RotationRun {
 public:
  // All arguments must outlive the run.
  RotationRun(Invocation& call, RemoteRotation& cluster, const RotationOptions& options,
              RotatedCa which);
  virtual ~RotationRun() noexcept(false) = default;
  KJ_DISALLOW_COPY_AND_MOVE(RotationRun);

  // Reads the configs of all nodes. Must be called first.
  kj::Promise<void> look();
  struct State {
    const Rotation& rotation;
    kj::ArrayPtr<const RotatedNode> nodes;
  };
  // Returns the rotation that look() has planned, and the nodes as this run has last read them.
  State state() const { return {rotation, nodes.asPtr()}; }
  // Prints the plan and changes nothing. Throws if the rotation is impossible.
  kj::Promise<void> show();
  kj::Promise<void> run();

 protected:
  Invocation& call;
  RemoteRotation& cluster;
  const RotationOptions& options;
  kj::Vector<RotatedNode> nodes;   // control plane first
  kj::Vector<ListedToken> tokens;  // join tokens of workers
  Rotation rotation;

  // Reads more of the nodes than their configs.
  virtual kj::Promise<void> readMore() { return kj::READY_NOW; }
  virtual kj::StringPtr owner() const = 0;  // owner of the CA, as it follows "of"
  virtual kj::StringPtr thing() const { return "CA"_kj; }
  virtual kj::String shownOld() const { return shortHash(rotation.oldCa); }
  virtual kj::String shownNew() const { return shortHash(rotation.newCa); }
  virtual kj::StringPtr doneText(RotationPhase phase) const;
  virtual kj::StringPtr stateWhenStopped() const {
    return "the cluster serves clients of the present CA"_kj;
  }
  // Prepares the rotation, before anything is changed or shown. Throws if it is impossible: by
  // default FailedPrecondition if Kubernetes lacks a node.
  virtual kj::Promise<void> prepare();
  virtual void showMore() {}
  virtual kj::Promise<void> begin(RotationPhase) { return kj::READY_NOW; }
  // Returns the reason why the node's config at the end of the phase is not in effect yet; nullptr
  // if it is.
  virtual kj::Promise<Missing> served(const RotatedNode& node, RotationPhase phase) = 0;
  virtual void reached(RotationPhase) {}  // called when a node has reached the phase
  virtual kj::Promise<void> tryClients(RotationPhase) { return kj::READY_NOW; }
  virtual void finish() {}                                               // prints the result
  virtual kj::Duration pause() const { return 500 * kj::MILLISECONDS; }  // between two checks

  // Repeats `attempt` until it finds no error. DeadlineExceeded after `limit`, with `problem` and
  // the last error.
  kj::Promise<void> repeat(Attempt attempt, kj::Duration limit, kj::StringPtr problem);
  // Removes the old CA from the CAs that Kubernetes publishes for API servers, or for aggregated
  // ones. Returns true if it was still published.
  kj::Promise<bool> forgetOldCa(bool aggregator);
  void note(kj::StringPtr text);  // prints "> …"

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
