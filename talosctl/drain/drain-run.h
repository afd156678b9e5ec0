// Cordons, uncordons and drains nodes of Kubernetes as kubectl does, with the implementation that
// nodes use themselves (common/kube/drain-plan.h, pod-evictor.h).
//
// Keeps no state: the same command continues an interrupted run. A drain cordons first; a node that
// cannot be drained stays cordoned, as with kubectl. Every wait has a limit.
#pragma once

#include "common/kube/kube-client.h"
#include "common/kube/pod-evictor.h"
#include "talosctl/cli/progress-lines.h"
#include "talosctl/rollout/rollout-lines.h"

namespace talos::talosctl {

// Prints a cordon, uncordon or drain in kubectl's words. stdout has the result of each node, or
// with JSON or YAML every event. stderr has pods, warnings and failures; on a terminal the pods
// of a node share one line, which is rewritten in place.
class DrainLines : private RolloutLines {
 public:
  DrainLines(Console& console, EventFormat format, bool dryRun)
      : RolloutLines(console, format), dryRun(dryRun) {}

  // Prints "node/w-1 cordoned". `result` as in JSON: cordoned, already cordoned, uncordoned,
  // already uncordoned, drained.
  void node(kj::StringPtr node, kj::StringPtr result);
  void failed(kj::StringPtr node, kj::StringPtr error);
  // Prints "Warning: ignoring DaemonSet-managed Pods: a/b, c/d".
  void warning(kj::StringPtr node, kj::StringPtr text, kj::ArrayPtr<const kj::String> pods);

  // Prints the state of a pod. `line`: text for a pipe, or empty. `result` as in JSON: evicting,
  // refused, terminating, evicted, deleted, failed.
  void pod(kj::StringPtr node, kj::StringPtr pod, kj::StringPtr result, kj::StringPtr line,
           kube::Json more = kube::Json::object());
  // Shows the progress of the whole node on a terminal.
  void progress(kj::StringPtr node, kj::StringPtr text);

 private:
  bool dryRun;
  kj::Array<kj::String> names;  // the node that is drained
  kj::Maybe<kj::Own<Progress>> live;

  void event(kj::StringPtr kind, kj::StringPtr node, kube::Json more);
};

struct DrainOptions {
  bool force = false, deleteEmptyDirData = false, ignoreDaemonSets = false;
  bool disableEviction = false;
  kj::Maybe<kj::Duration> grace = nullptr;  // nullptr: the pods' own grace period
  kj::StringPtr podSelector = "";           // label selector; empty: all pods
  kj::Duration timeout;                     // limit for the pods of one node
};

// Returns the name of the node that has this name or address. NotFound, with the existing nodes, if
// there is no such node. Pure.
kj::String nodeNamed(kj::ArrayPtr<const kube::Json> nodes, kj::StringPtr named);

class DrainRun {
 public:
  // All arguments must outlive the run. `clock`: for the times in messages.
  DrainRun(kj::Timer& timer, const kj::Clock& clock, kube::KubeClient& kubernetes,
           DrainLines& lines, bool dryRun)
      : timer(timer), clock(clock), kubernetes(kubernetes), lines(lines), dryRun(dryRun) {}
  KJ_DISALLOW_COPY_AND_MOVE(DrainRun);

  // Resolves names and addresses to names of nodes, each once.
  kj::Promise<kj::Vector<kj::String>> resolve(kj::ArrayPtr<const kj::String> named);
  kj::Promise<void> cordon(kj::StringPtr node);
  kj::Promise<void> uncordon(kj::StringPtr node);
  // Drains a node that is cordoned already. Returns false if it failed; the failure was printed.
  kj::Promise<bool> drain(kj::StringPtr node, const DrainOptions& options);

 private:
  kj::Timer& timer;
  const kj::Clock& clock;
  kube::KubeClient& kubernetes;
  DrainLines& lines;
  bool dryRun;

  using Plan = kj::Maybe<kube::Json> (*)(const kube::Json& node);
  kj::Promise<bool> change(kj::StringPtr node, Plan plan);
  kj::Promise<kube::DrainPolicy> policyOf(const DrainOptions& options);
  kj::Promise<void> drainNode(kj::StringPtr node, const DrainOptions& options);
  void warnOf(kj::StringPtr node, const kube::DrainPlan& plan);
};

// Removes the Kubernetes objects of nodes that leave for good: finds them while the nodes still
// exist, and removes them afterwards, so that no kubelet creates them again.
class NodeRemoval {
 public:
  // Finds the nodes by names or addresses. NotFound, naming the node, if Kubernetes does not have
  // it.
  static kj::Promise<kj::Own<NodeRemoval>> find(kube::KubeClient& kubernetes,
                                                kj::ArrayPtr<const kj::String> nodes);

  NodeRemoval(kube::KubeClient& kubernetes, size_t nodes) : kubernetes(kubernetes), found(nodes) {}
  KJ_DISALLOW_COPY_AND_MOVE(NodeRemoval);

  // Returns a name by the index of its request.
  kj::StringPtr name(size_t index) const { return found[index].name; }
  // Removes the object, unless another object has the name since. Errors say what is left to do.
  kj::Promise<void> remove(size_t index);

 private:
  struct Found {
    kj::String name, uid;
  };
  kube::KubeClient& kubernetes;
  kj::Vector<Found> found;
};

}  // namespace talos::talosctl
