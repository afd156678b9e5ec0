// Cordons, uncordons and drains nodes of Kubernetes as kubectl does, with the implementation that
// nodes use themselves (common/kube/drain-plan.h, pod-evictor.h).
//
// Keeps no state: the same command continues an interrupted run. A drain cordons first; a node that
// cannot be drained stays cordoned, as with kubectl. Every wait has a limit.
#pragma once

#include "common/kube/pod-evictor.h"
#include "talosctl/drain/drain-lines.h"

namespace talos::talosctl {

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

}  // namespace talos::talosctl
