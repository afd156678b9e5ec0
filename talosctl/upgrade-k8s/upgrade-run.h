// Upgrades a cluster from one release of Kubernetes to another, according to the plan
// (upgrade-plan.h).
//
// First it reads the state of the cluster, looks for uses that the new release would break,
// rehearses the change of each node's config, and lets each node pull its images (control-plane
// nodes one by one): until then nothing has changed. Then it changes part after part, node after
// node, and waits for each before the next. Finally it changes the objects of the nodes' manifests
// for the new release. A failure ends the run and names the state for which it waited. Changes made
// so far stay, and the cluster works with both releases. The cluster holds the only state, so a run
// that was interrupted at any point continues when it is started again. Every wait has a limit.
#pragma once

#include "talosctl/rollout/state-waits.h"
#include "talosctl/upgrade-k8s/manifest-change.h"
#include "talosctl/upgrade-k8s/upgrade-hazards.h"

namespace talos::talosctl {

// A pod of the control plane, as the API server reports it.
struct PodState {
  kj::String configVersion;  // annotation talos.dev/config-version
  bool ready = false;
  kj::String problem;  // reason for which its container waits: CrashLoopBackOff
};
// The definition from which a node makes a pod: resource kcpc.
struct PodDefinition {
  kj::String image;
  uint64_t version = 0;
};
struct KubeletState {
  kj::String version;
  bool ready = false;
};
struct DaemonSetState {
  bool observed = false;  // the status belongs to the present template
  uint64_t desired = 0, updated = 0, available = 0, pods = 0;
};

// The cluster to upgrade. A rejection with InvalidArgument, PermissionDenied, Unauthenticated,
// Unimplemented or FailedPrecondition is final; after any other, a wait retries.
class UpgradableCluster {
 public:
  virtual ~UpgradableCluster() noexcept(false) = default;
  // Reads the state; with `workers`, also the images in the configs of workers.
  virtual kj::Promise<ClusterState> read(bool workers) = 0;
  // Finds the hazards; to be called after read(). API versions removed by releases up to `to` have
  // the objects that were written in them.
  virtual kj::Promise<UpgradeHazards> hazards(const ClusterState& state, KubernetesVersion to) = 0;
  // NotFound, PermissionDenied or Unavailable if the image cannot be pulled.
  virtual kj::Promise<void> pull(const NodeState& node, kj::StringPtr image) = 0;
  // Sets all these images in the config of the node, without a reboot. A rehearsal changes nothing.
  // Conflict if another config was applied meanwhile.
  virtual kj::Promise<void> setImages(const NodeState& node,
                                      kj::ArrayPtr<const ImageChange* const> changes,
                                      bool rehearsal) = 0;
  virtual kj::Promise<PodDefinition> definition(const NodeState& node, KubernetesPart part) = 0;
  virtual kj::Promise<kj::Maybe<PodState>> pod(const NodeState& node, KubernetesPart part) = 0;
  // Returns the release of this node's API server: v1.35.4.
  virtual kj::Promise<kj::String> apiServerRelease(const NodeState& node) = 0;
  virtual kj::Promise<KubeletState> kubelet(const NodeState& node) = 0;
  virtual kj::Promise<void> setDaemonSetImage(kj::StringPtr image) = 0;
  virtual kj::Promise<DaemonSetState> daemonSet() = 0;
  // Returns the objects of the manifests, without the bootstrap token, that the node makes of its
  // config with these changes. nullptr for a node of an earlier version, which does not report
  // them.
  virtual kj::Promise<kj::Maybe<kj::Vector<kube::ManifestObject>>> manifests(
      const NodeState& node, kj::ArrayPtr<const ImageChange* const> changes) = 0;
  virtual kj::Promise<ObjectChange> changeObject(const kube::ManifestObject& object,
                                                 bool rehearsal) = 0;
  // Returns missingOfRollout() of the object.
  virtual kj::Promise<kj::String> rollout(const kube::ManifestObject& object) = 0;
};

// Limits of the waits.
constexpr auto kPodLimit = 5 * kj::MINUTES, kApiServerLimit = 5 * kj::MINUTES,
               kKubeletLimit = 5 * kj::MINUTES, kDefinitionLimit = 1 * kj::MINUTES,
               kConfigLimit = 1 * kj::MINUTES, kObjectLimit = 5 * kj::MINUTES,
               kProxyLimit = 5 * kj::MINUTES, kProxyLimitOfNode = 30 * kj::SECONDS;
// Time for which the API server of a node must answer without a break after a change of its
// kubelet. A kubelet of another minor release knows other fields of a pod, so it may regard its
// static pods as new and restart them some seconds after it is Ready. No sign announces such a
// restart.
constexpr auto kSettle = 20 * kj::SECONDS;

constexpr size_t kMostPulling = 5;  // workers that pull images at the same time

// Prints a run. With text, stdout has only the lines that Talos prints, and the plan of a dry run.
// With JSON or YAML, it has each change that was made or has failed. stderr has everything else:
// workers, kubelets, objects of the manifests, and the reasons for waiting.
class UpgradeLines : public RolloutLines {
 public:
  using RolloutLines::RolloutLines;

  // Prints an event. `node` empty: the whole cluster.
  void done(kj::StringPtr component, kj::StringPtr node, kj::StringPtr image, kj::StringPtr result,
            kj::StringPtr message = "");
  // Prints the same for an object of the manifests.
  void object(kj::StringPtr name, kj::StringPtr result);
};

class UpgradeRun {
 public:
  // All arguments must outlive the run. `clock`: for the times in messages.
  UpgradeRun(kj::Timer& timer, const kj::Clock& clock, UpgradableCluster& cluster,
             UpgradeLines& lines)
      : timer(timer), cluster(cluster), lines(lines), waits(timer, clock, lines) {}
  KJ_DISALLOW_COPY_AND_MOVE(UpgradeRun);

  // `dryRun`: prints the plan, and ends before images are pulled.
  kj::Promise<void> run(UpgradeIntent intent, bool dryRun);

 private:
  kj::Timer& timer;
  UpgradableCluster& cluster;
  UpgradeLines& lines;
  StateWaits waits;

  kj::Promise<void> checkHazards(const UpgradeIntent& intent, const ClusterState& state);
  kj::Promise<void> rehearse(const UpgradePlan& plan, const ClusterState& state);
  kj::Promise<void> pullInTurn(const UpgradePlan& plan, const ClusterState& state,
                               kj::Vector<size_t> nodes, size_t first, size_t step);
  kj::Promise<void> pullAll(const UpgradePlan& plan, const ClusterState& state);
  kj::Promise<void> pullOn(const UpgradePlan& plan, const ClusterState& state, size_t node);
  // Waits for a change of the component, and prints its result; prints only a failure if `result`
  // is empty.
  kj::Promise<void> printResult(kj::StringPtr component, kj::StringPtr node, kj::StringPtr image,
                                kj::StringPtr result, kj::Promise<void> change);
  kj::Promise<void> setImage(const ImageChange& change, const NodeState& node);
  kj::Promise<void> changePod(const ImageChange& change, const NodeState& node);
  kj::Promise<void> changeKubelet(const ImageChange& change, const NodeState& node,
                                  const KubernetesRelease& release);
  // Waits until the API server has answered for `settle` without a break.
  kj::Promise<void> awaitApiServer(const NodeState& node, const KubernetesRelease& release,
                                   kj::Duration settle);
  kj::Promise<void> step(const ImageChange& change, const NodeState& node,
                         const KubernetesRelease& release);
  kj::Promise<void> changeDaemonSet(kj::StringPtr image, bool changes, size_t nodes);
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
