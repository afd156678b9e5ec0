// Cordons, uncordons and drains nodes of Kubernetes, as kubectl does, with the one implementation
// that nodes use themselves (common/kube/drain-plan.h, pod-evictor.h).
//
// Nothing is kept: the same command continues a run that was interrupted. A drain cordons first; a
// node that cannot be drained stays cordoned, as with kubectl. Every wait has a limit.
#pragma once

#include "common/kube/pod-evictor.h"
#include "talosctl/drain/drain-lines.h"

namespace talos::talosctl {

struct DrainOptions {
  bool force = false, deleteEmptyDirData = false, ignoreDaemonSets = false;
  bool disableEviction = false;
  kj::Maybe<kj::Duration> grace = nullptr;  // none: the pods' own
  kj::StringPtr podSelector = "";           // of labels; empty: all pods
  kj::Duration timeout;                     // of the pods of one node
};

// The name of the node that has this name or address. NotFound when there is none, with those that
// there are. Pure.
kj::String nodeNamed(kj::ArrayPtr<const kube::Json> nodes, kj::StringPtr named);

class DrainRun {
 public:
  // All outlive it. `clock`: for the times in messages.
  DrainRun(kj::Timer& timer, const kj::Clock& clock, kube::KubeClient& kubernetes,
           DrainLines& lines, bool dryRun)
      : timer(timer), clock(clock), kubernetes(kubernetes), lines(lines), dryRun(dryRun) {}
  KJ_DISALLOW_COPY_AND_MOVE(DrainRun);

  // Names of nodes, each once, for names and addresses.
  kj::Promise<kj::Vector<kj::String>> resolve(kj::ArrayPtr<const kj::String> named);
  kj::Promise<void> cordon(kj::StringPtr node);
  kj::Promise<void> uncordon(kj::StringPtr node);
  // The node is cordoned already. False: failed, which was printed.
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
