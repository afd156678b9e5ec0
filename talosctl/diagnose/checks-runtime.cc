// Checks containerd, the services of the node, their crashes, and images that cannot be pulled.
#include <string.h>

#include "common/base/node-messages.h"
#include "talosctl/diagnose/pull-failure.h"

namespace talos::talosctl {
namespace {

void checkContainerd(ObservedCluster cluster, ObservedNode node, Findings& findings) {
  KJ_IF_MAYBE (service, downService(node, "cri")) {
    findings.add(Illness::kContainerdDown, node)
        .with(statementOf(*service))
        .with("line", newestLine(cluster, node, "cri", {.parts = {"level=fatal", "containerd: "}}));
  }
}

// Reports the newest crash of each service if it is recent by the node's monotonic clock.
void checkCrashes(ObservedNode node, Findings& findings) {
  constexpr uint64_t kRecent = 3'600'000'000'000;  // ns
  for (auto service : node.getServices()) {
    auto events = service.getEvents();
    for (unsigned i = events.size(); i > 0; --i) {
      auto event = events[i - 1];
      kj::StringPtr message = event.getMessage();
      auto at = strstr(message.cStr(), messages::kCrashReport.cStr());
      if (at == nullptr) continue;
      bool recent = event.getUptime() > 0 && service.getUptime() < event.getUptime() + kRecent;
      if (!recent) break;
      auto report = kj::StringPtr(at + messages::kCrashReport.size());
      auto end = report.findFirst(';').orDefault(report.size());
      findings.add(Illness::kServiceCrashed, node)
          .with("service", service.getId())
          .with("report", kj::heapString(report.slice(0, end)))
          .with("statement", message, event.getTime());
      break;
    }
  }
}

bool hasCheckOfItsOwn(ObservedNode node, kj::StringPtr service) {
  return service == "cri" || service == "etcd" || service == "kubelet" ||
         (service == "apid" && node.getReach() == Reach::UNVERIFIED);
}

void checkServices(ObservedNode node, Findings& findings) {
  using State = rpc::ServiceState;
  for (auto service : node.getServices()) {
    auto state = service.getState();
    bool ended = state == State::FINISHED || state == State::SKIPPED;
    if (isUp(service) || ended || hasCheckOfItsOwn(node, service.getId())) continue;
    // The time client is healthy only after the clock is set, which time-sync reports.
    bool waits =
        state == State::WAITING || state == State::PREPARING || service.getHealth().getUnknown();
    findings.add(waits ? Illness::kServiceWaiting : Illness::kServiceUnhealthy, node)
        .with("service", service.getId())
        .with(statementOf(service));
  }
}

Finding& addPull(Findings& findings, Illness illness, ObservedNode node, const PullFailure& pull,
                 kj::StringPtr key) {
  return findings.add(illness, node)
      .with(pull.statement)
      .with("image", pull.image)
      .with("registry", pull.host)
      .with("failure", describe(pull.failure))
      .with("key", key)
      .useRemedy(pull.remedy(key));
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
    auto key = kj::str(pull.host, " ", describe(pull.failure));
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
    checkServiceImage(node, "etcd", Illness::kEtcdImage, "/cluster/etcd/image", findings);
    auto pulls = podPullFailures(cluster, node);
    checkControlPlaneImages(node, pulls, findings);
    checkRegistries(cluster, node, pulls, findings);
  }
}

}  // namespace talos::talosctl
