// Takes a cluster from one release of Kubernetes to another, as the plan says (upgrade-plan.h).
//
// First everything is looked at, each node is asked whether it would take its config, and has to
// have pulled its images: until then nothing has changed. Then part after part, node after node,
// each waited for before the next. What has failed ends the run, with what was waited for; all that
// was done stays, and is a cluster that works: of two releases beside each other. There is no state
// but that of the cluster, so a run that was cut off at any line goes on when it is started again.
// Every wait has a limit.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "talosctl/upgrade-k8s/upgrade-lines.h"
#include "talosctl/upgrade-k8s/upgrade-plan.h"

namespace talos::talosctl {

// A pod of the control plane, as the API server has it.
struct SeenPod {
  kj::String configVersion;  // annotation talos.dev/config-version
  bool ready = false;
  kj::String trouble;  // what its container waits for: CrashLoopBackOff
};
// What a node makes a pod of: its resource kcpc.
struct SeenDefinition {
  kj::String image;
  uint64_t version = 0;
};
struct SeenKubelet {
  kj::String version;
  bool ready = false;
};
struct SeenDaemonSet {
  bool observed = false;  // its status is of the template that it has
  uint64_t desired = 0, updated = 0, available = 0, pods = 0;
};

// The cluster. A rejection with InvalidArgument, PermissionDenied, Unauthenticated, Unimplemented
// or FailedPrecondition is final; others are tried again while something is waited for.
class UpgradeEdges {
 public:
  virtual ~UpgradeEdges() noexcept(false) = default;
  // `workers`: of them too, what their configs say.
  virtual kj::Promise<SeenCluster> look(bool workers) = 0;
  // NotFound, PermissionDenied, Unavailable: it cannot be had.
  virtual kj::Promise<void> pull(const SeenNode& node, kj::StringPtr image) = 0;
  // Sets all of these in the config of the node, without a reboot. A rehearsal changes nothing.
  // Conflict: another config was applied meanwhile.
  virtual kj::Promise<void> setImages(const SeenNode& node,
                                      kj::ArrayPtr<const ImageChange* const> changes,
                                      bool rehearsal) = 0;
  virtual kj::Promise<SeenDefinition> definition(const SeenNode& node, KubernetesPart part) = 0;
  virtual kj::Promise<kj::Maybe<SeenPod>> pod(const SeenNode& node, KubernetesPart part) = 0;
  // Of the API server of this node: v1.35.4.
  virtual kj::Promise<kj::String> apiServerRelease(const SeenNode& node) = 0;
  virtual kj::Promise<SeenKubelet> kubelet(const SeenNode& node) = 0;
  virtual kj::Promise<void> setDaemonSetImage(kj::StringPtr image) = 0;
  virtual kj::Promise<SeenDaemonSet> daemonSet() = 0;
};

// Limits of what is waited for; how often it is looked at.
constexpr auto kPodLimit = 5 * kj::MINUTES, kApiServerLimit = 5 * kj::MINUTES,
               kKubeletLimit = 5 * kj::MINUTES, kDefinitionLimit = 1 * kj::MINUTES,
               kConfigLimit = 1 * kj::MINUTES, kProxyLimit = 5 * kj::MINUTES,
               kProxyLimitOfNode = 30 * kj::SECONDS, kLookInterval = 1 * kj::SECONDS;
// A kubelet of another minor release knows other fields of a pod, so it takes its static pods for
// new ones and starts them anew, some seconds after it is Ready. Nothing tells whether it will: the
// API server of its node has to answer for so long without a break.
constexpr auto kSettle = 20 * kj::SECONDS;

class UpgradeRun {
 public:
  // All outlive it.
  UpgradeRun(kj::Timer& timer, UpgradeEdges& edges, UpgradeLines& lines)
      : timer(timer), edges(edges), lines(lines) {}
  KJ_DISALLOW_COPY_AND_MOVE(UpgradeRun);

  // `dryRun`: ends before the images are pulled.
  kj::Promise<void> run(UpgradeIntent intent, bool dryRun);

 private:
  kj::Timer& timer;
  UpgradeEdges& edges;
  UpgradeLines& lines;

  kj::Promise<void> await(kj::String what, kj::Duration limit,
                          kj::Function<kj::Promise<kj::String>()> attempt);
  kj::Promise<void> rehearse(const UpgradePlan& plan, const SeenCluster& seen);
  kj::Promise<void> pullAll(const UpgradePlan& plan, const SeenCluster& seen);
  kj::Promise<void> pullOn(const UpgradePlan& plan, const SeenCluster& seen, size_t node);
  kj::Promise<void> setImage(const ImageChange& change, const SeenNode& node);
  kj::Promise<void> changePod(const ImageChange& change, const SeenNode& node);
  kj::Promise<void> changeKubelet(const ImageChange& change, const SeenNode& node,
                                  const KubernetesRelease& release);
  // Until it has answered for `settle` without a break.
  kj::Promise<void> awaitApiServer(const SeenNode& node, const KubernetesRelease& release,
                                   kj::Duration settle);
  kj::Promise<void> step(const ImageChange& change, const SeenNode& node,
                         const KubernetesRelease& release);
  kj::Promise<void> part(KubernetesPart part, const UpgradePlan& plan, const SeenCluster& seen,
                         const KubernetesRelease& release);
  kj::Promise<void> proxy(const UpgradePlan& plan, const SeenCluster& seen,
                          const KubernetesRelease& release);
  void tellPlan(const UpgradePlan& plan, const SeenCluster& seen, const KubernetesRelease& release);
};

}  // namespace talos::talosctl
