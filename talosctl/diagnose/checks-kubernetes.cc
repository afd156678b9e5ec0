// Checks the manifests with which the cluster starts, its nodes and its pods.
#include <string.h>

#include "common/base/node-messages.h"
#include "talosctl/diagnose/pull-failure.h"

namespace talos::talosctl {
namespace {

using Pod = rpc::Survey::Pod::Reader;
using KubeNode = rpc::Survey::Node::Reader;
using Workload = rpc::Survey::Workload::Reader;

constexpr int64_t kRetriedWithinS = 600;  // controllers retry, at longer and longer intervals

bool isNetworkMissing(KubeNode node) {
  return hasAny(node.getMessage(), {"cni plugin not initialized", "NetworkPluginNotReady",
                                    "network plugin is not ready", "cni config uninitialized"});
}

// Adds a finding about a node of Kubernetes; the node's address, if known, relates findings to each
// other.
Finding& addNamed(ObservedCluster cluster, Findings& findings, Illness illness,
                  kj::StringPtr name) {
  auto& finding = findings.add(illness).with("name", name);
  KJ_IF_MAYBE (node, nodeNamed(cluster, name)) finding.on(node->getAddress());
  return finding;
}

Finding& addKubeNode(ObservedCluster cluster, Findings& findings, Illness illness, KubeNode node) {
  auto state = reasonText(node.getReason(), node.getMessage());
  return addNamed(cluster, findings, illness, node.getName())
      .with("state", state, static_cast<uint64_t>(node.getSince()) * kSecondNs);
}

// --- pods and workloads

// Returns the pod's newest warning that says more than the pod's own message.
kj::StringPtr warningOf(ObservedCluster cluster, Pod pod) {
  auto object = kj::str("Pod ", pod.getNamespace(), "/", pod.getName());
  for (auto event : cluster.getSurvey().getWarnings()) {
    if (event.getObject() == object && event.getReason() != "BackOff") return event.getMessage();
  }
  return "";
}

bool reportsStarting(Pod pod) {
  auto reason = pod.getReason();
  return reason.size() == 0 ||
         hasAny(reason, {"ContainerCreating", "PodInitializing", "ContainersNotReady",
                         "ContainersNotInitialized", "PodReadyToStartContainers"});
}

// Judges by the pod's own reason, or, before it has a reason, by a warning. A warning stays for an
// hour, and is obsolete once a container has run.
bool lacksImage(ObservedCluster cluster, Pod pod) {
  return hasAny(pod.getReason(),
                {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"}) ||
         (pod.getPhase() == "Pending" && reportsStarting(pod) &&
          warningOf(cluster, pod).startsWith("Failed to pull image"));
}

// Excludes pods that are being deleted or have completed.
bool isIll(Pod pod) {
  return !pod.getReady() && !pod.getDeleted() && pod.getPhase() != "Succeeded";
}

// Returns true if nothing has failed yet: the pod may only need a moment.
bool isStarting(ObservedCluster cluster, Pod pod) {
  return warningOf(cluster, pod).size() == 0 && reportsStarting(pod);
}

kj::Vector<Pod> illPodsOf(ObservedCluster cluster, kj::StringPtr app) {
  kj::Vector<Pod> pods;
  for (auto pod : cluster.getSurvey().getPods()) {
    if (pod.getApp() == app && isIll(pod)) pods.add(pod);
  }
  return pods;
}

void showPods(Finding& finding, kj::ArrayPtr<const Pod> pods) {
  constexpr size_t kMostShown = 3;
  for (auto pod : pods.slice(0, kj::min(pods.size(), kMostShown))) {
    finding.shows(kj::str("kubectl -n ", pod.getNamespace(), " describe pod ", pod.getName()),
                  reasonText(pod.getReason(), pod.getMessage()));
  }
}

kj::Maybe<Workload> workloadOf(ObservedCluster cluster, kj::StringPtr app) {
  for (auto workload : cluster.getSurvey().getWorkloads()) {
    bool named = workload.getApp() == app || (app == "kube-dns" && workload.getName() == "coredns");
    if (named && workload.getKind() != "ReplicaSet") return workload;
  }
  return nullptr;
}

bool isReadable(ObservedCluster cluster, kj::StringPtr what) {
  for (auto problem : cluster.getSurvey().getProblems()) {
    if (has(problem, what)) return false;
  }
  return cluster.hasSurvey();
}

// Returns true if `object` is the workload itself, or a ReplicaSet of it, whose name has one more
// part.
bool belongsTo(Workload workload, kj::StringPtr object, kj::StringPtr prefix) {
  auto name = kj::str(prefix, workload.getName());
  if (!object.startsWith(name)) return false;
  auto rest = object.slice(name.size());
  return rest.size() == 0 || (workload.getKind() == "Deployment" && rest[0] == '-' &&
                              rest.slice(1).findFirst('-') == nullptr);
}

// Returns why the API server accepts no pods of a workload: from its condition, or from an event of
// the workload or of a Deployment's ReplicaSet. Empty if it accepts them.
kj::StringPtr refusalOf(ObservedCluster cluster, Workload workload) {
  if (hasAny(workload.getMessage(),
             {"forbidden", "exceeded quota", "FailedCreate", "denied", "webhook"})) {
    return workload.getMessage();
  }
  auto kind = workload.getKind() == "Deployment" ? "ReplicaSet"_kj : workload.getKind();
  unsigned pods = 0;
  for (auto pod : cluster.getSurvey().getPods()) {
    pods += pod.getNamespace() == "kube-system" && !pod.getDeleted() &&
            belongsTo(workload, pod.getOwner(), kj::str(kind, "/"));
  }
  if (pods >= workload.getDesired()) return "";  // they exist by now
  for (auto event : cluster.getSurvey().getWarnings()) {
    auto object = event.getObject();
    bool its = belongsTo(workload, object, kj::str(kind, " kube-system/")) ||
               belongsTo(workload, object, kj::str(workload.getKind(), " kube-system/"));
    bool recent = cluster.getNow() / kSecondNs - event.getTime() < kRetriedWithinS;
    if (event.getReason() == "FailedCreate" && its && recent) return event.getMessage();
  }
  return "";
}

// Returns true if a replacement for a component that Talos brings is installed, in any namespace.
bool runsOneOf(ObservedCluster cluster, std::initializer_list<kj::StringPtr> names) {
  for (auto workload : cluster.getSurvey().getWorkloads()) {
    if (hasAny(workload.getName(), names)) return true;
  }
  for (auto pod : cluster.getSurvey().getPods()) {
    if (hasAny(pod.getName(), names)) return true;
  }
  return false;
}

// --- the checks

Illness manifestIllness(kj::StringPtr name, kj::StringPtr error) {
  if (!has(name, "://")) return Illness::kManifestUnreadable;
  auto failure = failureOf(error);
  if (isConnectionFailure(failure)) return Illness::kManifestUnreachable;
  bool invalid = error.size() > 0 && error[0] >= '0' && error[0] <= '9';  // line:column: …
  return invalid ? Illness::kManifestInvalid : Illness::kManifestNotFetched;
}

// Reports each manifest once, because every control-plane node reports the same manifests.
void checkManifests(ObservedCluster cluster, Findings& findings) {
  kj::Vector<kj::String> known;
  for (auto node : cluster.getNodes()) {
    kj::StringPtr message = node.getManifests().getMessage();
    for (auto at = strstr(message.cStr(), messages::kCannotReadManifest.cStr()); at != nullptr;) {
      auto next = strstr(at + 1, messages::kCannotReadManifest.cStr());
      auto text = kj::heapString(at, next == nullptr ? strlen(at) : next - at);
      while (text.endsWith("; ")) text = kj::heapString(text.slice(0, text.size() - 2));
      at = next;
      if (!isFirst(known, text)) continue;
      auto rest = text.slice(messages::kCannotReadManifest.size());
      auto end = strstr(rest.cStr(), ": ");
      auto name = end == nullptr ? kj::str(rest) : kj::heapString(rest.cStr(), end - rest.cStr());
      kj::StringPtr error = end == nullptr ? "" : end + 2;
      findings.add(manifestIllness(name, error), node)
          .with("manifest", name)
          .with("error", error)
          .with("message", text);
    }
    // The checks of etcd and of the API server report the failures for which the manifests wait.
    bool waits = message.startsWith(messages::kWaitingFor) || has(message, messages::kSelfHosted) ||
                 failureOf(message) != FailureKind::kOther;
    bool failed =
        message.size() > 0 && message != messages::kApplied && (!waits || isApplied(message));
    if (!failed || !known.empty()) continue;
    known.add(kj::str(message));
    findings.add(Illness::kManifestsNotApplied, node).with("message", message);
  }
}

Finding& addPod(ObservedCluster cluster, Findings& findings, Illness illness, Pod pod) {
  auto reason = pod.getReason().size() > 0 ? pod.getReason() : pod.getPhase();
  return addNamed(cluster, findings, illness, pod.getNode())
      .with("namespace", pod.getNamespace())
      .with("pod", pod.getName())
      .with("owner",
            pod.getOwner().size() > 0 ? kj::str(pod.getOwner()) : kj::str("pod/", pod.getName()))
      .with("container", pod.getContainer())
      .with("reason", reason)
      .with("state", reasonText(reason, pod.getMessage()))
      .with("warning", warningOf(cluster, pod));
}

// Returns the failure of the image's own registry. nullptr if the failure concerns the image, or if
// its cause is unknown. A failure of another registry does not explain it.
kj::Maybe<PullFailure> registryFailure(ObservedCluster cluster, Pod pod) {
  KJ_IF_MAYBE (node, nodeNamed(cluster, pod.getNode())) {
    for (kj::StringPtr text : {warningOf(cluster, pod), kj::StringPtr(pod.getMessage())}) {
      KJ_IF_MAYBE (pull, pullFailureOf(*node, Statement{kj::str("events"), kj::str(text)})) {
        if (pull->isOfRegistry() || pull->failure == FailureKind::kMirrors) return kj::mv(*pull);
      }
    }
  }
  return nullptr;
}

void addPullOfPod(ObservedCluster cluster, Findings& findings, Pod pod) {
  KJ_IF_MAYBE (pull, registryFailure(cluster, pod)) {
    addPod(cluster, findings, Illness::kPodRegistry, pod)
        .with("registry", pull->host)
        .with("failure", pull->description())
        .with("image", pull->image)
        .useRemedy(pull->remedy(""));
  } else {
    auto text = kj::str(warningOf(cluster, pod), " ", pod.getMessage());
    bool credentials = pullFailureOf(text) == FailureKind::kCredentials;
    addPod(cluster, findings, credentials ? Illness::kPodCredentials : Illness::kPodImage, pod)
        .notBecause({"registry", "resolver"});
  }
}

// Excludes causes for which the messages of the pod have no evidence.
void excludeUnrelated(ObservedCluster cluster, Pod pod, Finding& finding) {
  auto text = kj::str(warningOf(cluster, pod), " ", pod.getMessage());
  bool started = !reportsStarting(pod) && pod.getNode().size() > 0;
  if (!has(text, "were unschedulable")) finding.notBecause({"node-cordoned"});
  if (!hasAny(text, {"no such host", "lookup ", "server misbehaving", "resolve"}))
    finding.notBecause({"core-dns"});
  if (started && !pod.getMirror()) finding.notBecause({"control-plane-pod"});
  if (started && !hasAny(text, {"network", "cni", "CNI", "sandbox"})) finding.notBecause({"cni"});
}

// Adds evidence for a storage driver or cloud controller: it may need the metadata service, to
// which its node refuses access.
void showMetadataService(ObservedCluster cluster, Pod pod, Finding& finding) {
  KJ_IF_MAYBE (node, nodeNamed(cluster, pod.getNode())) {
    auto dropped = node->getMetadataBlock().getDropped();
    if (dropped == 0) return;
    finding.shows(kj::str("talosctl -n ", node->getAddress(), " get metadatablockstatus"),
                  kj::str(dropped,
                          " packets of pods to the metadata service of the platform were "
                          "dropped; machine.features.podMetadataAccess permits them"));
  }
}

// Returns the command that shows more about a container: the log of its last end, its log, or, if
// it has never run, why.
kj::StringPtr remedyOf(Pod pod) {
  if (hasAny(pod.getReason(), {"CrashLoopBackOff", "Error", "OOMKilled", "Completed"}) &&
      !has(pod.getReason(), "Config")) {
    return "kubectl -n {namespace} logs {pod} -c {container} --previous";
  }
  if (pod.getPhase() == "Running") {
    return "kubectl -n {namespace} logs {pod} -c {container}    # and its probes: describe pod";
  }
  return "kubectl -n {namespace} describe pod {pod}";
}

// Returns a remedy for pods of the system that do not run: before a program has run, it has no log.
kj::Maybe<kj::StringPtr> remedyWithoutLog(kj::ArrayPtr<const Pod> pods, kj::StringPtr remedy) {
  for (auto pod : pods) {
    if (pod.getPhase() != "Pending") return nullptr;
  }
  return pods.size() > 0 ? kj::Maybe<kj::StringPtr>(remedy) : nullptr;
}

// Reports the pods that no other check reports.
void checkPods(ObservedCluster cluster, Findings& findings) {
  for (auto pod : cluster.getSurvey().getPods()) {
    auto app = pod.getApp();
    if (!isIll(pod)) continue;
    if (lacksImage(cluster, pod)) {
      addPullOfPod(cluster, findings, pod);
    } else if (app != "kube-dns" && app != "kube-proxy") {
      bool named = pod.getContainer().size() > 0;
      // A static pod may run again long before Kubernetes reports it, so its finding is not
      // certain.
      auto& finding = addPod(cluster, findings,
                             named ? Illness::kContainerNotReady : Illness::kPodNotReady, pod)
                          .certainIf(!isStarting(cluster, pod) && !pod.getMirror());
      if (named) finding.useRemedy(remedyOf(pod));
      excludeUnrelated(cluster, pod, finding);
      showMetadataService(cluster, pod, finding);
    }
  }
}

// Returns the CNI of a config that was read; empty if no config was read.
kj::StringPtr configuredCni(ObservedCluster cluster) {
  kj::StringPtr cni;
  for (auto node : cluster.getNodes()) {
    if (node.getFacts().getCni().size() > 0) cni = node.getFacts().getCni();
  }
  return cni;
}

void checkCni(ObservedCluster cluster, Findings& findings) {
  auto cni = configuredCni(cluster);
  bool missing = workloadOf(cluster, "flannel") == nullptr;
  // Without flannel, nodes stay Ready, but new pods cannot reach pods of other nodes.
  if (cni == "flannel" && missing && isReadable(cluster, "daemonsets") && hasManifests(cluster) &&
      !runsOneOf(cluster, {"cilium", "calico", "antrea", "kube-router", "weave", "canal"})) {
    findings.add(Illness::kCniDeleted).isItsOwnCause();
    return;
  }
  auto illness = cni == "none"     ? Illness::kCniNone
                 : cni == "custom" ? Illness::kCniCustom
                 : missing         ? Illness::kCniMissing
                                   : Illness::kCniDown;
  for (auto node : cluster.getSurvey().getNodes()) {
    if (node.getReady() || !isNetworkMissing(node)) continue;
    auto& finding = addKubeNode(cluster, findings, illness, node);
    if (cni != "none" && cni != "custom") showPods(finding, illPodsOf(cluster, "flannel"));
  }
}

void checkKubeNode(ObservedCluster cluster, KubeNode node, Findings& findings) {
  for (auto pressure : node.getPressures()) {
    auto illness = has(pressure, "Disk") ? Illness::kDiskPressure : Illness::kPressure;
    addKubeNode(cluster, findings, illness, node).with("pressure", pressure);
  }
  if (!node.getReady()) {
    bool silent =
        node.getReason() == "NodeStatusUnknown" || has(node.getMessage(), "stopped posting");
    addKubeNode(cluster, findings, silent ? Illness::kNodeStoppedReporting : Illness::kNodeNotReady,
                node)
        .certainIf(!isNetworkMissing(node));
  }
  if (node.getUnschedulable()) addKubeNode(cluster, findings, Illness::kNodeCordoned, node);
}

void checkWorkload(ObservedCluster cluster, Workload workload, Findings& findings) {
  auto refusal = workload.getReady() < workload.getDesired() ? refusalOf(cluster, workload) : ""_kj;
  if (refusal.size() == 0) return;
  findings
      .add(has(refusal, "webhook")          ? Illness::kPodsRefusedByWebhook
           : has(refusal, "exceeded quota") ? Illness::kPodsOverQuota
                                            : Illness::kPodsRefused)
      .with("kind", workload.getKind())
      .with("name", workload.getName())
      .with("error", refusal);
}

void checkKubeProxy(ObservedCluster cluster, Findings& findings) {
  if (!isReadable(cluster, "daemonsets") || cluster.getSurvey().getNodes().size() == 0) return;
  KJ_IF_MAYBE (proxy, workloadOf(cluster, "kube-proxy")) {
    if (proxy->getReady() >= proxy->getDesired()) return;
    for (auto pod : illPodsOf(cluster, "kube-proxy")) {
      auto& finding = addPod(cluster, findings, Illness::kProxyPodDown, pod)
                          .certainIf(!isStarting(cluster, pod));
      KJ_IF_MAYBE (remedy, remedyWithoutLog(kj::arrayPtr(&pod, 1),
                                            "kubectl -n kube-system describe pod {pod}")) {
        finding.useRemedy(*remedy);
      }
    }
    return;
  }
  if (runsOneOf(cluster, {"cilium", "kube-router", "calico", "antrea", "proxy"})) return;
  bool disabled = false;
  for (auto node : cluster.getNodes()) disabled = disabled || node.getFacts().getProxyDisabled();
  if (disabled) {
    findings.add(Illness::kProxyNotReplaced).isItsOwnCause();
  } else if (hasManifests(cluster) && configuredCni(cluster).size() > 0) {
    // If the manifests were not applied, other checks report why; without a config nothing is known
    // about kube-proxy.
    findings.add(Illness::kProxyDeleted).isItsOwnCause();
  }
}

// Returns true if a taint keeps the pods away, by the message of the newest pod that has a reason.
bool isTainted(kj::ArrayPtr<const Pod> pods) {
  kj::StringPtr message;
  for (auto pod : pods) {
    if (pod.getReason().size() > 0) message = pod.getMessage();
  }
  return hasAny(message, {"untolerated taint", "had taint"});
}

void excludeUnrelatedOfDns(ObservedCluster cluster, kj::ArrayPtr<const Pod> pods,
                           Finding& finding) {
  bool image = false, cordoned = pods.size() == 0, pressure = cordoned, unready = cordoned;
  for (auto pod : pods) {
    image = image || lacksImage(cluster, pod);
    auto text = kj::str(pod.getReason(), " ", pod.getMessage(), " ", warningOf(cluster, pod));
    cordoned = cordoned || has(text, "unschedulable");
    pressure = pressure || hasAny(text, {"pressure", "Evicted", "Insufficient"});
    unready = unready || hasAny(text, {"not-ready", "unreachable", "not ready"});
    for (auto node : cluster.getSurvey().getNodes()) {
      unready = unready || (node.getName() == pod.getNode() && !node.getReady());
    }
  }
  if (!image) finding.notBecause({"image-pod"});
  if (!cordoned) finding.notBecause({"node-cordoned"});
  if (!pressure) finding.notBecause({"node-pressure"});
  if (!unready) finding.notBecause({"node-ready"});
}

void checkCoreDns(ObservedCluster cluster, Findings& findings) {
  if (!isReadable(cluster, "deployments")) return;
  KJ_IF_MAYBE (dns, workloadOf(cluster, "kube-dns")) {
    auto ready = dns->getReady(), desired = dns->getDesired();
    if (desired > 0 && ready >= desired) return;
    auto pods = illPodsOf(cluster, "kube-dns");
    bool tainted = isTainted(pods), starting = !pods.empty();
    for (auto pod : pods) starting = starting && isStarting(cluster, pod);
    auto& finding = findings
                        .add(desired == 0 ? Illness::kDnsScaledToZero
                             : tainted    ? Illness::kDnsTainted
                             : ready == 0 ? Illness::kDnsDown
                                          : Illness::kDnsIncomplete)
                        .certainIf(desired == 0 || !starting)
                        .with("name", dns->getName())
                        .with("ready", kj::str(ready))
                        .with("desired", kj::str(desired));
    if (desired == 0) {
      finding.isItsOwnCause();
      return;
    }
    KJ_IF_MAYBE (remedy, remedyWithoutLog(
                             pods, "kubectl -n kube-system describe pods -l k8s-app=kube-dns")) {
      if (!tainted) finding.useRemedy(*remedy);
    }
    excludeUnrelatedOfDns(cluster, pods, finding);
    showPods(finding, pods);
    for (auto node : cluster.getSurvey().getNodes()) {
      if (!tainted || node.getTaints().size() == 0) continue;
      finding.shows(kj::str("kubectl get node ", node.getName()),
                    kj::str("taints: ", kj::strArray(node.getTaints(), ", ")));
    }
  } else if (hasManifests(cluster)) {
    findings.add(Illness::kDnsDeleted).isItsOwnCause();
  }
}

}  // namespace

void checkKubernetes(ObservedCluster cluster, Findings& findings) {
  checkManifests(cluster, findings);
  checkPods(cluster, findings);
  checkCni(cluster, findings);
  for (auto node : cluster.getSurvey().getNodes()) checkKubeNode(cluster, node, findings);
  for (auto workload : cluster.getSurvey().getWorkloads()) {
    checkWorkload(cluster, workload, findings);
  }
  checkKubeProxy(cluster, findings);
  checkCoreDns(cluster, findings);
}

}  // namespace talos::talosctl
