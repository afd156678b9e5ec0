// What the cluster begins with, its nodes and its pods.
#include <string.h>

#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

using Pod = rpc::Survey::Pod::Reader;
using KubeNode = rpc::Survey::Node::Reader;

constexpr kj::StringPtr kUnreadable = "cannot read the manifest "_kj;
constexpr kj::StringPtr kCreateAgain =
    "talosctl -n <control-plane node> service kubed restart    # it creates what is missing"_kj;
constexpr int64_t kRefusedAgain = 600;  // s: controllers try again, at longer and longer intervals

uint64_t since(KubeNode node) {
  return static_cast<uint64_t>(node.getSince()) * 1'000'000'000;
}

bool isNetworkMissing(KubeNode node) {
  return hasAny(node.getMessage(), {"cni plugin not initialized", "NetworkPluginNotReady",
                                    "network plugin is not ready", "cni config uninitialized"});
}

// The node's address where it is known, so that findings of one node meet.
Finding& about(Seen seen, Finding& finding, kj::StringPtr name) {
  KJ_IF_MAYBE (node, nodeNamed(seen, name)) finding.nodes.add(kj::str(node->getAddress()));
  return finding;
}

kj::String nameOfPod(Pod pod) {
  return kj::str(pod.getNamespace(), "/", pod.getName());
}

// Its newest warning that says more than the pod itself.
kj::StringPtr warningOf(Seen seen, Pod pod) {
  auto object = kj::str("Pod ", pod.getNamespace(), "/", pod.getName());
  for (auto event : seen.getSurvey().getWarnings()) {
    if (event.getObject() == object && event.getReason() != "BackOff") return event.getMessage();
  }
  return "";
}

bool saysItStarts(Pod pod) {
  auto reason = pod.getReason();
  return reason.size() == 0 ||
         hasAny(reason, {"ContainerCreating", "PodInitializing", "ContainersNotReady",
                         "ContainersNotInitialized", "PodReadyToStartContainers"});
}

// By its own word, or before it says so by what was warned of. The warning stays for an hour: it
// is over when a container has run.
bool lacksImage(Seen seen, Pod pod) {
  return hasAny(pod.getReason(),
                {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"}) ||
         (pod.getPhase() == "Pending" && saysItStarts(pod) &&
          warningOf(seen, pod).startsWith("Failed to pull image"));
}

// Without those that end, and those of nodes that are said to be down.
bool isIll(Pod pod) {
  return !pod.getReady() && !pod.getDeleted() && pod.getPhase() != "Succeeded";
}

// It may only need a moment: nothing has failed yet.
bool isStarting(Seen seen, Pod pod) {
  return warningOf(seen, pod).size() == 0 && saysItStarts(pod);
}

kj::Maybe<rpc::Survey::Workload::Reader> workloadOf(Seen seen, kj::StringPtr app) {
  for (auto workload : seen.getSurvey().getWorkloads()) {
    bool named = workload.getApp() == app || (app == "kube-dns" && workload.getName() == "coredns");
    if (named && workload.getKind() != "ReplicaSet") return workload;
  }
  return nullptr;
}

bool isReadable(Seen seen, kj::StringPtr what) {
  for (auto problem : seen.getSurvey().getProblems()) {
    if (has(problem, what)) return false;
  }
  return seen.hasSurvey();
}

// Why the API server takes no pods of a workload: its condition, or an event of it, or of the
// ReplicaSet of a Deployment. Empty: it takes them.
kj::StringPtr refusalOf(Seen seen, rpc::Survey::Workload::Reader workload) {
  if (hasAny(workload.getMessage(),
             {"forbidden", "exceeded quota", "FailedCreate", "denied", "webhook"})) {
    return workload.getMessage();
  }
  unsigned pods = 0;
  // Itself, or a ReplicaSet of it, whose name has one part more.
  bool deployment = workload.getKind() == "Deployment";
  auto ofIt = [&](kj::StringPtr object, kj::StringPtr before) {
    auto name = kj::str(before, workload.getName());
    if (!object.startsWith(name)) return false;
    auto rest = object.slice(name.size());
    if (rest.size() == 0) return true;
    return deployment && rest[0] == '-' && rest.slice(1).findFirst('-') == nullptr;
  };
  auto kind = deployment ? "ReplicaSet"_kj : workload.getKind();
  for (auto pod : seen.getSurvey().getPods()) {
    if (pod.getNamespace() == "kube-system" && ofIt(pod.getOwner(), kj::str(kind, "/"))) {
      pods += !pod.getDeleted();
    }
  }
  if (pods >= workload.getDesired()) return "";  // they are there by now
  for (auto event : seen.getSurvey().getWarnings()) {
    auto object = event.getObject();
    bool its = event.getReason() == "FailedCreate" &&
               (ofIt(object, kj::str(kind, " kube-system/")) ||
                ofIt(object, kj::str(workload.getKind(), " kube-system/")));
    if (its && seen.getNow() / 1'000'000'000 - event.getTime() < kRefusedAgain) {
      return event.getMessage();
    }
  }
  return "";
}

void showPods(Seen seen, Finding& finding, kj::StringPtr app) {
  unsigned shown = 0;
  for (auto pod : seen.getSurvey().getPods()) {
    if (pod.getApp() != app || !isIll(pod) || ++shown > 3) continue;
    finding.shows(
        kj::str("kubectl -n ", pod.getNamespace(), " describe pod ", pod.getName()),
        kj::str(pod.getReason(), pod.getMessage().size() > 0 ? ": " : "", pod.getMessage()));
  }
}

}  // namespace

// One for each manifest; every control-plane node says the same.
void checkManifests(Seen seen, Report& report) {
  kj::Vector<kj::String> told;
  for (auto node : seen.getNodes()) {
    kj::StringPtr message = node.getManifests().getMessage();
    const char* at = message.cStr();
    while ((at = strstr(at, kUnreadable.cStr())) != nullptr) {
      auto next = strstr(at + 1, kUnreadable.cStr());
      size_t size = next == nullptr ? strlen(at) : next - at;
      auto text = kj::heapString(at, size);
      at += kUnreadable.size();
      while (text.endsWith("; ")) text = kj::heapString(text.slice(0, text.size() - 2));
      bool before = false;
      for (auto& one : told) before = before || one == text;
      if (before) continue;
      auto rest = text.slice(kUnreadable.size());
      auto end = strstr(rest.cStr(), ": ");
      auto name = end == nullptr ? kj::str(rest) : kj::heapString(rest.cStr(), end - rest.cStr());
      bool url = has(name, "://");
      report
          .certain(node,
                   kj::str("the ", url ? "manifest " : "inline manifest ", name, " cannot be ",
                           url ? "fetched" : "read", ": ", end == nullptr ? "" : end + 2))
          .shows(node, "get manifeststatus", text)
          .mend(node,
                url ? kj::str("edit machineconfig --mode=no-reboot    # cluster.extraManifests, "
                              "cluster.network.cni.urls")
                    : kj::str("edit machineconfig --mode=no-reboot    # cluster.inlineManifests"));
      told.add(kj::mv(text));
    }
    // What waits for etcd or the API server is told there.
    bool partly = message.startsWith("applied; ");
    bool waits = message.startsWith("waiting") || has(message, "self-hosted") ||
                 failureOf(message) != DialFailure::kOther;
    bool failed = message.size() > 0 && message != "applied" && !waits;
    bool refused = told.empty() && (partly || failed) && !has(message, kUnreadable);
    if (!refused) continue;
    told.add(kj::str(message));
    report.likely(node, kj::str("the manifests of the cluster are not all applied"))
        .shows(node, "get manifeststatus", message)
        .mend(node, "logs kubed");
  }
}

void checkPodImages(Seen seen, Report& report) {
  for (auto pod : seen.getSurvey().getPods()) {
    if (!isIll(pod) || !lacksImage(seen, pod)) continue;
    auto& finding = about(
        seen, report.certain(kj::str("an image of the pod ", nameOfPod(pod), " cannot be pulled")),
        pod.getNode());
    auto warning = warningOf(seen, pod);
    auto source = kj::str("kubectl -n ", pod.getNamespace(), " describe pod ", pod.getName());
    finding.shows(source, kj::str(pod.getReason(), ": ", pod.getMessage())).shows(source, warning);
    finding.mend(kj::str(
        "kubectl -n ", pod.getNamespace(), " edit ",
        pod.getOwner().size() > 0 ? kj::str(pod.getOwner()) : kj::str("pod/", pod.getName()),
        "    # the image of container ", pod.getContainer()));
  }
}

// What somebody has put in the place of a part that the node brings, in whatever namespace.
bool runsOneOf(Seen seen, std::initializer_list<kj::StringPtr> names) {
  for (auto name : names) {
    for (auto workload : seen.getSurvey().getWorkloads()) {
      if (has(workload.getName(), name)) return true;
    }
    for (auto pod : seen.getSurvey().getPods()) {
      if (has(pod.getName(), name)) return true;
    }
  }
  return false;
}

// By a config that was read; empty: none was.
kj::StringPtr wantedCni(Seen seen) {
  kj::StringPtr cni;
  for (auto node : seen.getNodes()) {
    if (node.getFacts().getCni().size() > 0) cni = node.getFacts().getCni();
  }
  return cni;
}

void checkCni(Seen seen, Report& report) {
  auto cni = wantedCni(seen);
  // Without it nodes stay Ready, and new pods reach none of another node.
  bool gone = cni == "flannel" && workloadOf(seen, "flannel") == nullptr &&
              isReadable(seen, "daemonsets") && hasManifests(seen) &&
              !runsOneOf(seen, {"cilium", "calico", "antrea", "kube-router", "weave", "canal"});
  if (gone) {
    report
        .certain(kj::str("the network plugin (CNI) flannel is gone: somebody has deleted its "
                         "DaemonSet"))
        .shows("kubectl -n kube-system get daemonsets", "no kube-flannel")
        .mend(kj::str(kCreateAgain));
    return;
  }
  for (auto node : seen.getSurvey().getNodes()) {
    if (node.getReady() || !isNetworkMissing(node)) continue;
    bool flannel = cni == "flannel" || cni.size() == 0;
    auto workload = workloadOf(seen, "flannel");
    bool missing = flannel && workload == nullptr;
    auto text = cni == "none"
                    ? kj::str(
                          "no network plugin (CNI) is installed: cluster.network.cni.name "
                          "is none, and nobody has applied one")
                : cni == "custom"
                    ? kj::str("the network plugin (CNI) of cluster.network.cni.urls does not run")
                : missing ? kj::str("the network plugin (CNI) flannel is not installed")
                          : kj::str("the network plugin (CNI) flannel does not run");
    auto& finding = about(
        seen, cni == "none" || missing ? report.certain(kj::mv(text)) : report.likely(kj::mv(text)),
        node.getName());
    finding.shows(kj::str("kubectl get node ", node.getName()),
                  kj::str(node.getReason(), ": ", node.getMessage()), since(node));
    if (flannel) showPods(seen, finding, "flannel");
    finding.mend(cni == "none" ? kj::str("kubectl apply -f <the manifest of a network plugin>")
                 : flannel
                     ? kj::str("kubectl -n kube-system get pods -l k8s-app=flannel")
                     : kj::str("talosctl get manifeststatus; kubectl -n kube-system get pods"));
  }
}

void checkPressure(Seen seen, Report& report) {
  for (auto node : seen.getSurvey().getNodes()) {
    for (auto pressure : node.getPressures()) {
      auto& finding =
          about(seen, report.certain(kj::str("the node ", node.getName(), " has ", pressure)),
                node.getName());
      bool disk = has(pressure, "Disk");
      finding.shows(kj::str("kubectl describe node ", node.getName()), pressure);
      KJ_IF_MAYBE (there, nodeNamed(seen, node.getName())) {
        finding.mend(*there, disk ? "usage /var --depth 3" : "stats -k");
      }
    }
  }
}

void checkNodesReady(Seen seen, Report& report) {
  for (auto node : seen.getSurvey().getNodes()) {
    if (node.getReady()) continue;
    bool silent =
        node.getReason() == "NodeStatusUnknown" || has(node.getMessage(), "stopped posting");
    auto text = silent ? kj::str("the node ", node.getName(),
                                 " is not Ready: its kubelet has stopped "
                                 "reporting")
                       : kj::str("the node ", node.getName(), " is not Ready");
    auto& finding = about(
        seen, isNetworkMissing(node) ? report.likely(kj::mv(text)) : report.certain(kj::mv(text)),
        node.getName());
    finding.shows(kj::str("kubectl get node ", node.getName()),
                  kj::str(node.getReason(), ": ", node.getMessage()), since(node));
    KJ_IF_MAYBE (there, nodeNamed(seen, node.getName())) finding.mend(*there, "service kubelet");
  }
}

void checkCordoned(Seen seen, Report& report) {
  for (auto node : seen.getSurvey().getNodes()) {
    if (!node.getUnschedulable()) continue;
    about(seen,
          report.certain(kj::str("the node ", node.getName(), " is cordoned: it gets no new pods")),
          node.getName())
        .shows(kj::str("kubectl get node ", node.getName()), "SchedulingDisabled")
        .mend(kj::str("kubectl uncordon ", node.getName()));
  }
}

void checkWorkloads(Seen seen, Report& report) {
  for (auto workload : seen.getSurvey().getWorkloads()) {
    if (workload.getReady() >= workload.getDesired()) continue;
    auto why = refusalOf(seen, workload);
    if (why.size() == 0) continue;
    bool webhook = has(why, "webhook");
    report
        .certain(kj::str("pods of ", workload.getKind(), " kube-system/", workload.getName(),
                         " cannot be made",
                         webhook ? ": a webhook refuses them, or does not answer"_kj
                         : has(why, "exceeded quota") ? ": a quota is used up"_kj
                                                      : ""_kj))
        .shows(kj::str("kubectl -n kube-system describe ", workload.getKind(), " ",
                       workload.getName()),
               why)
        .mend(webhook ? kj::str("kubectl get validatingwebhookconfigurations,"
                                "mutatingwebhookconfigurations")
                      : kj::str("kubectl -n kube-system get resourcequotas,events"));
  }
}

void checkKubeProxy(Seen seen, Report& report) {
  if (!isReadable(seen, "daemonsets") || seen.getSurvey().getNodes().size() == 0) return;
  bool disabled = false;
  for (auto node : seen.getNodes()) disabled = disabled || node.getFacts().getProxyDisabled();
  KJ_IF_MAYBE (proxy, workloadOf(seen, "kube-proxy")) {
    if (proxy->getReady() >= proxy->getDesired()) return;
    for (auto pod : seen.getSurvey().getPods()) {
      if (pod.getApp() != "kube-proxy" || !isIll(pod)) continue;
      auto text = kj::str("kube-proxy of ", pod.getNode(),
                          " does not run: services are not reachable there");
      auto& finding = about(
          seen, isStarting(seen, pod) ? report.likely(kj::mv(text)) : report.certain(kj::mv(text)),
          pod.getNode());
      finding
          .shows(kj::str("kubectl -n kube-system describe pod ", pod.getName()),
                 kj::str(pod.getReason(), ": ", pod.getMessage()))
          .mend(kj::str("kubectl -n kube-system logs ", pod.getName(),
                        "    # cluster.proxy.extraArgs"));
    }
    return;
  }
  if (runsOneOf(seen, {"cilium", "kube-router", "calico", "antrea", "proxy"})) return;
  if (!disabled) {
    // What keeps the manifests away is told; nor does who may not read a config know what it wants.
    if (!hasManifests(seen) || wantedCni(seen).size() == 0) return;
    report.certain(kj::str("kube-proxy is gone: somebody has deleted its DaemonSet"))
        .shows("kubectl -n kube-system get daemonsets", "no kube-proxy")
        .mend(kj::str(kCreateAgain));
    return;
  }
  report
      .likely(kj::str("there is no kube-proxy (cluster.proxy.disabled), and nothing in kube-system "
                      "looks like a replacement: services are not reachable"))
      .shows("kubectl -n kube-system get daemonsets", "no kube-proxy")
      .mend(kj::str("set cluster.proxy.disabled: false, or install what replaces it"));
}

void checkCoreDns(Seen seen, Report& report) {
  if (!isReadable(seen, "deployments")) return;
  KJ_IF_MAYBE (dns, workloadOf(seen, "kube-dns")) {
    if (dns->getDesired() == 0) {
      report.certain(kj::str("CoreDNS is scaled to 0 pods: names of the cluster are not resolved"))
          .shows(kj::str("kubectl -n kube-system get deployment ", dns->getName()), "0/0")
          .mend(
              kj::str("kubectl -n kube-system scale deployment ", dns->getName(), " --replicas=2"));
      return;
    }
    if (dns->getReady() >= dns->getDesired()) return;
    kj::StringPtr reason;
    bool starting = false, ill = false;
    for (auto pod : seen.getSurvey().getPods()) {
      if (pod.getApp() != "kube-dns" || !isIll(pod)) continue;
      if (pod.getReason().size() > 0) reason = pod.getMessage();
      (isStarting(seen, pod) ? starting : ill) = true;
    }
    bool taint = has(reason, "untolerated taint") || has(reason, "had taint");
    auto text = dns->getReady() == 0
                    ? kj::str("CoreDNS does not run: names of the cluster are not resolved")
                    : kj::str("CoreDNS runs ", dns->getReady(), " of ", dns->getDesired(), " pods");
    if (taint) text = kj::str(text, "; no node takes its pods, because of taints");
    auto& finding = starting && !ill ? report.likely(kj::mv(text)) : report.certain(kj::mv(text));
    showPods(seen, finding, "kube-dns");
    if (taint) {
      for (auto node : seen.getSurvey().getNodes()) {
        if (node.getTaints().size() == 0) continue;
        finding.shows(kj::str("kubectl get node ", node.getName()),
                      kj::str("taints: ", kj::strArray(node.getTaints(), ", ")));
      }
      finding.mend(kj::str(
          "kubectl taint node <node> <taint>-    # or machine.nodeTaints, or add a worker"));
    } else {
      finding.mend(kj::str("kubectl -n kube-system logs -l k8s-app=kube-dns"));
    }
  } else if (hasManifests(seen)) {
    report.certain(kj::str("CoreDNS is gone: somebody has deleted its Deployment"))
        .shows("kubectl -n kube-system get deployments", "no coredns")
        .mend(kj::str(kCreateAgain));
  }
}

// Those that no check before has spoken of.
void checkPods(Seen seen, Report& report) {
  for (auto pod : seen.getSurvey().getPods()) {
    auto app = pod.getApp();
    bool told = lacksImage(seen, pod) || app == "kube-dns" || app == "kube-proxy";
    if (!isIll(pod) || told) continue;
    auto why = pod.getReason().size() > 0 ? kj::str(pod.getReason()) : kj::str(pod.getPhase());
    // A static pod that runs again by now is told of late: its node knows better.
    auto text = kj::str("the pod ", nameOfPod(pod), " is not ready: ", why);
    auto& finding = about(seen,
                          isStarting(seen, pod) || pod.getMirror() ? report.likely(kj::mv(text))
                                                                   : report.certain(kj::mv(text)),
                          pod.getNode());
    auto source = kj::str("kubectl -n ", pod.getNamespace(), " describe pod ", pod.getName());
    finding.shows(source, kj::str(why, pod.getMessage().size() > 0 ? ": " : "", pod.getMessage()))
        .shows(source, warningOf(seen, pod))
        .mend(pod.getContainer().size() > 0
                  ? kj::str("kubectl -n ", pod.getNamespace(), " logs ", pod.getName(), " -c ",
                            pod.getContainer(), " --previous")
                  : kj::str("kubectl -n ", pod.getNamespace(), " describe pod ", pod.getName()));
  }
}

}  // namespace talos::talosctl
