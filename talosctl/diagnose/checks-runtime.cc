// Checks containerd, the services of the node, their crashes, and images that cannot be pulled.
#include "common/base/node-messages.h"
#include "talosctl/diagnose/pull-failure.h"

namespace talos::talosctl {
namespace {

void checkContainerd(ObservedCluster cluster, ObservedNode node, Findings& findings) {
  KJ_IF_MAYBE (service, downService(node, "cri")) {
    bool stopped = isStopped(*service);
    bool starts =
        service->getState() == rpc::ServiceState::RUNNING && service->getHealth().getUnknown();
    auto& finding =
        findings.add(stopped ? Illness::kContainerdStopped : Illness::kContainerdDown, node)
            .certainIf(!starts)
            .with(statementOf(*service))
            .with("line", stopped ? ""_kj
                                  : newestLine(cluster, node, "cri",
                                               {.parts = {"level=fatal", "containerd: "}}));
    if (stopped) finding.isItsOwnCause();
  }
}

void checkCrashes(ObservedNode node, Findings& findings) {
  for (auto service : node.getServices()) {
    KJ_IF_MAYBE (crash, recentCrash(service)) {
      findings.add(Illness::kServiceCrashed, node)
          .with("service", service.getId())
          .with("report", crash->report)
          .with(crash->statement);
    }
  }
}

bool hasCheckOfItsOwn(ObservedNode node, kj::StringPtr service) {
  return service == "cri" || service == "etcd" || service == "kubelet" ||
         (service == "apid" && node.getReach() == Reach::UNVERIFIED);
}

Illness serviceIllness(rpc::Service::Reader service) {
  using State = rpc::ServiceState;
  auto state = service.getState();
  if (state == State::FAILED) return Illness::kServiceFailed;
  // The time client is healthy only after the clock is set, which time-sync reports.
  bool waits =
      state == State::WAITING || state == State::PREPARING || service.getHealth().getUnknown();
  return waits ? Illness::kServiceWaiting : Illness::kServiceUnhealthy;
}

void checkServices(ObservedNode node, Findings& findings) {
  using State = rpc::ServiceState;
  for (auto service : node.getServices()) {
    auto state = service.getState();
    if (isUp(service) || hasCheckOfItsOwn(node, service.getId())) continue;
    bool stopped = isStopped(service);
    if (!stopped && (state == State::FINISHED || state == State::SKIPPED)) continue;
    auto& finding = findings.add(stopped ? Illness::kServiceStopped : serviceIllness(service), node)
                        .with("service", service.getId())
                        .with(statementOf(service));
    if (stopped) finding.isItsOwnCause();
    if (recentCrash(service) == nullptr) finding.notBecause({"service-crash"});
  }
}

Finding& addPull(Findings& findings, Illness illness, ObservedNode node, const PullFailure& pull,
                 kj::StringPtr key) {
  auto& finding = findings.add(illness, node)
                      .with(pull.statement)
                      .with("image", pull.image)
                      .with("registry", pull.host)
                      .with("failure", pull.description())
                      .with("key", key)
                      .useRemedy(pull.remedy(key));
  for (auto& answer : pull.mirrors) {
    finding.shows(kj::str("talosctl -n ", node.getAddress(), " ", answer.source), answer.text);
  }
  return finding;
}

void checkServiceImage(ObservedNode node, kj::StringPtr id, Illness illness, kj::StringPtr key,
                       Findings& findings) {
  KJ_IF_MAYBE (service, downService(node, id)) {
    KJ_IF_MAYBE (pull, pullFailureOf(node, statementOf(*service))) {
      addPull(findings, illness, node, *pull, key).with("part", id);
    }
  }
}

// Reports failed pulls of the control plane's images. Without an API server, only the kubelet's log
// has them.
void checkControlPlaneImages(ObservedNode node, kj::ArrayPtr<const PullFailure> pulls,
                             Findings& findings) {
  struct Part {
    kj::StringPtr name, key;
  };
  constexpr Part kParts[] = {{"kube-apiserver"_kj, "/cluster/apiServer/image"_kj},
                             {"kube-controller-manager"_kj, "/cluster/controllerManager/image"_kj},
                             {"kube-scheduler"_kj, "/cluster/scheduler/image"_kj}};
  for (auto& part : kParts) {
    for (auto& pull : pulls) {
      if (pull.container != part.name || !node.getControlPlane()) continue;
      addPull(findings, Illness::kControlPlaneImage, node, pull, part.key).with("part", part.name);
    }
  }
}

// Adds one finding for each registry, for any number of images.
void checkRegistries(ObservedCluster cluster, ObservedNode node,
                     kj::ArrayPtr<const PullFailure> pulls, Findings& findings) {
  kj::Vector<kj::String> known;
  auto check = [&](const PullFailure& pull) {
    auto key = kj::str(pull.host, " ", pull.description());
    if (!pull.isOfRegistry() || !isFirst(known, key)) return;
    // Only Kubernetes knows if the pod of a line still exists.
    addPull(findings, Illness::kRegistryFails, node, pull, "")
        .certainIf(pull.container.size() == 0 || cluster.hasSurvey());
  };
  for (auto& complaint : complaintsOf(node)) {
    if (!complaint.source.startsWith("service ")) continue;
    KJ_IF_MAYBE (pull, pullFailureOf(node, kj::mv(complaint))) check(*pull);
  }
  for (auto& pull : pulls) check(pull);
}

}  // namespace

void checkRuntimes(ObservedCluster cluster, Findings& findings) {
  for (auto node : cluster.getNodes()) {
    checkContainerd(cluster, node, findings);
    checkCrashes(node, findings);
    checkServices(node, findings);
    checkServiceImage(node, "kubelet", Illness::kKubeletImage, "/machine/kubelet/image", findings);
    checkServiceImage(node, "etcd", Illness::kEtcdImage, kEtcdImageKey, findings);
    auto pulls = podPullFailures(cluster, node);
    checkControlPlaneImages(node, pulls, findings);
    checkRegistries(cluster, node, pulls, findings);
  }
}

}  // namespace talos::talosctl
