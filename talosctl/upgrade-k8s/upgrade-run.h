// Takes a cluster from one release of Kubernetes to another, as the plan says (upgrade-plan.h).
//
// First it reads the state of the cluster, looks for what the new release would break, rehearses
// the change of each node's config, and has each node pull its images (control planes one by one):
// until then nothing has changed. Then it changes part after part, node after node, and waits for
// each before the next. At last the objects of the nodes' manifests become what the new release
// wants of them. A failure ends the run, with what was waited for; the changes that were made stay,
// and the cluster works with both releases beside each other. The cluster holds the only state, so
// a run that was interrupted at any line continues when it is started again. Every wait has a
// limit.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "talosctl/upgrade-k8s/await-state.h"
#include "talosctl/upgrade-k8s/manifest-change.h"
#include "talosctl/upgrade-k8s/upgrade-hazards.h"

namespace talos::talosctl {

// A pod of the control plane, as the API server has it.
struct PodState {
  kj::String configVersion;  // annotation talos.dev/config-version
  bool ready = false;
  kj::String problem;  // why its container waits: CrashLoopBackOff
};
// The definition from which a node makes a pod: its resource kcpc.
struct PodDefinition {
  kj::String image;
  uint64_t version = 0;
};
struct KubeletState {
  kj::String version;
  bool ready = false;
};
struct DaemonSetState {
  bool observed = false;  // its status is that of its present template
  uint64_t desired = 0, updated = 0, available = 0, pods = 0;
};

// The cluster that is upgraded. A rejection with InvalidArgument, PermissionDenied,
// Unauthenticated, Unimplemented or FailedPrecondition is final; others are retried during a wait.
class UpgradableCluster {
 public:
  virtual ~UpgradableCluster() noexcept(false) = default;
  // `workers`: the images in the configs of workers as well.
  virtual kj::Promise<ClusterState> read(bool workers) = 0;
  // After read(). API versions that releases up to `to` remove have the objects that were written
  // in them.
  virtual kj::Promise<UpgradeHazards> hazards(const ClusterState& state, KubernetesVersion to) = 0;
  // NotFound, PermissionDenied, Unavailable: it cannot be pulled.
  virtual kj::Promise<void> pull(const NodeState& node, kj::StringPtr image) = 0;
  // Sets all of these in the config of the node, without a reboot. A rehearsal changes nothing.
  // Conflict: another config was applied meanwhile.
  virtual kj::Promise<void> setImages(const NodeState& node,
                                      kj::ArrayPtr<const ImageChange* const> changes,
                                      bool rehearsal) = 0;
  virtual kj::Promise<PodDefinition> definition(const NodeState& node, KubernetesPart part) = 0;
  virtual kj::Promise<kj::Maybe<PodState>> pod(const NodeState& node, KubernetesPart part) = 0;
  // Of the API server of this node: v1.35.4.
  virtual kj::Promise<kj::String> apiServerRelease(const NodeState& node) = 0;
  virtual kj::Promise<KubeletState> kubelet(const NodeState& node) = 0;
  virtual kj::Promise<void> setDaemonSetImage(kj::StringPtr image) = 0;
  virtual kj::Promise<DaemonSetState> daemonSet() = 0;
  // Objects of the manifests as the node makes them of its config with these changes, but the
  // bootstrap token. None: the node is of an earlier version and does not say.
  virtual kj::Promise<kj::Maybe<kj::Vector<kube::ManifestObject>>> manifests(
      const NodeState& node, kj::ArrayPtr<const ImageChange* const> changes) = 0;
  virtual kj::Promise<ObjectChange> changeObject(const kube::ManifestObject& object,
                                                 bool rehearsal) = 0;
  // missingOfRollout().
  virtual kj::Promise<kj::String> rollout(const kube::ManifestObject& object) = 0;
};

// Limits of the waits, and the interval of the attempts.
constexpr auto kPodLimit = 5 * kj::MINUTES, kApiServerLimit = 5 * kj::MINUTES,
               kKubeletLimit = 5 * kj::MINUTES, kDefinitionLimit = 1 * kj::MINUTES,
               kConfigLimit = 1 * kj::MINUTES, kObjectLimit = 5 * kj::MINUTES,
               kProxyLimit = 5 * kj::MINUTES, kProxyLimitOfNode = 30 * kj::SECONDS,
               kLookInterval = 1 * kj::SECONDS;
// A kubelet of another minor release knows other fields of a pod, so it regards its static pods as
// new ones and restarts them, some seconds after it is Ready. There is no sign of whether it will:
// the API server of its node must answer for this time without a break.
constexpr auto kSettle = 20 * kj::SECONDS;

constexpr size_t kMostPulling = 5;  // workers that pull images at the same time

class UpgradeRun {
 public:
  // All outlive it.
  UpgradeRun(kj::Timer& timer, UpgradableCluster& cluster, UpgradeLines& lines)
      : timer(timer), cluster(cluster), lines(lines) {}
  KJ_DISALLOW_COPY_AND_MOVE(UpgradeRun);

  // `dryRun`: ends before the images are pulled, and prints the plan.
  kj::Promise<void> run(UpgradeIntent intent, bool dryRun);

 private:
  kj::Timer& timer;
  UpgradableCluster& cluster;
  UpgradeLines& lines;

  kj::Promise<void> await(kj::String what, kj::Duration limit,
                          kj::Function<kj::Promise<kj::String>()> attempt);
  kj::Promise<void> checkHazards(const UpgradeIntent& intent, const ClusterState& state);
  kj::Promise<void> rehearse(const UpgradePlan& plan, const ClusterState& state);
  kj::Promise<void> pullInTurn(const UpgradePlan& plan, const ClusterState& state,
                               kj::Vector<size_t> nodes, size_t first, size_t step);
  kj::Promise<void> pullAll(const UpgradePlan& plan, const ClusterState& state);
  kj::Promise<void> pullOn(const UpgradePlan& plan, const ClusterState& state, size_t node);
  kj::Promise<void> setImage(const ImageChange& change, const NodeState& node);
  kj::Promise<void> changePod(const ImageChange& change, const NodeState& node);
  kj::Promise<void> changeKubelet(const ImageChange& change, const NodeState& node,
                                  const KubernetesRelease& release);
  // Until it has answered for `settle` without a break.
  kj::Promise<void> awaitApiServer(const NodeState& node, const KubernetesRelease& release,
                                   kj::Duration settle);
  kj::Promise<void> step(const ImageChange& change, const NodeState& node,
                         const KubernetesRelease& release);
  kj::Promise<void> part(KubernetesPart part, const UpgradePlan& plan, const ClusterState& state,
                         const KubernetesRelease& release);
  kj::Promise<void> proxy(const UpgradePlan& plan, const ClusterState& state,
                          const KubernetesRelease& release);
  kj::Promise<void> manifests(const UpgradePlan& plan, const ClusterState& state, bool rehearsal);
  kj::Promise<bool> changeObject(const kube::ManifestObject& object, bool rehearsal, bool headed);
  void printPlan(const UpgradePlan& plan, const ClusterState& state,
                 const KubernetesRelease& release);
};

}  // namespace talos::talosctl
