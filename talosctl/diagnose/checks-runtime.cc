// containerd, the services of the node, and images that cannot be pulled.
#include <string.h>

#include "talosctl/diagnose/observed.h"
#include "talosctl/diagnose/pull-failure.h"

namespace talos::talosctl {

void checkContainerd(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    KJ_IF_MAYBE (service, serviceOf(node, "cri")) {
      if (isUp(*service)) continue;
      auto told = tells(*service);
      report.certain(node, kj::str("containerd does not run"))
          .shows(node, "service cri", told.text, told.time)
          .shows(node, "logs cri", newestLine(node, "cri", {"level=fatal", "containerd: "}))
          .mend(node, "service cri restart");
    }
  }
}

// Those that have no check of their own.
void checkServices(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    for (auto service : node.getServices()) {
      auto id = service.getId();
      bool own = false;
      for (auto other : {"cri"_kj, "etcd"_kj, "kubelet"_kj}) own = own || id == other;
      if (id == "apid" && node.getReach() == Reach::UNVERIFIED) own = true;
      auto state = service.getState();
      bool over = state == rpc::ServiceState::FINISHED || state == rpc::ServiceState::SKIPPED;
      if (own || isUp(service) || over) continue;
      auto told = tells(service);
      // The time client is up as soon as the clock is set: it is said there.
      bool waits = state == rpc::ServiceState::WAITING || state == rpc::ServiceState::PREPARING ||
                   service.getHealth().getUnknown();
      auto text = kj::str("the service ", id, waits ? " is not up yet" : " is not healthy");
      auto& finding =
          waits ? report.likely(node, kj::mv(text)) : report.certain(node, kj::mv(text));
      auto what = kj::str("service ", id);
      finding.shows(node, what, told.text, told.time).mend(node, kj::str("logs ", id));
    }
  }
}

namespace {

// What a user does about it.
void mendPull(Finding& finding, SeenNode node, const PullFailure& pull, kj::StringPtr key) {
  switch (pull.reason) {
    case PullFailure::Reason::kNoSuchImage:
    case PullFailure::Reason::kReference:
    case PullFailure::Reason::kMirrors:
      if (key.size() > 0) {
        finding.mend(setInConfig(node, key, "\"<an image that is there>\""));
      } else {
        finding.mend(node, kj::str("image pull ", pull.image));
      }
      return;
    case PullFailure::Reason::kCredentials:
      finding.mend(node, "edit machineconfig    # machine.registries.config.<host>.auth");
      return;
    case PullFailure::Reason::kCertificate:
      finding.mend(node, "edit machineconfig    # machine.registries.config.<host>.tls.ca");
      return;
    default:
      finding.mend(node, kj::str("image pull ", pull.image));
  }
}

void checkServiceImage(Seen seen, Report& report, kj::StringPtr id, kj::StringPtr key) {
  for (auto node : seen.getNodes()) {
    KJ_IF_MAYBE (service, serviceOf(node, id)) {
      if (isUp(*service)) continue;
      auto told = tells(*service);
      KJ_IF_MAYBE (pull, readPullFailure(told.text)) {
        blameMirrors(node, *pull);
        auto& finding =
            report.certain(node, kj::str("the image of ", id, " cannot be pulled: ", pull->image,
                                         ": ", wordsOf(pull->reason)));
        finding.shows(node, kj::str("service ", id), told.text, told.time);
        mendPull(finding, node, *pull, key);
      }
    }
  }
}

// Failed pulls that the node tells of: of services, and of pods in the kubelet's log.
kj::Vector<PullFailure> pullsOf(Seen seen, SeenNode node) {
  kj::Vector<PullFailure> all;
  for (auto& complaint : complaintsOf(node)) {
    if (!complaint.source.startsWith("service ")) continue;
    KJ_IF_MAYBE (pull, readPullFailure(complaint.text)) {
      pull->source = kj::mv(complaint.source);
      pull->time = complaint.time;
      blameMirrors(node, *pull);
      all.add(kj::mv(*pull));
    }
  }
  for (auto& pull : podPullsOf(seen, node)) all.add(kj::mv(pull));
  return all;
}

}  // namespace

// One for each registry of a node, however many images wait for it.
void checkRegistries(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    kj::Vector<kj::String> told;
    for (auto& pull : pullsOf(seen, node)) {
      if (!isOfRegistry(pull.reason)) continue;
      auto key = kj::str(pull.host, " ", wordsOf(pull.reason));
      bool before = false;
      for (auto& one : told) before = before || one == key;
      if (before) continue;
      told.add(kj::mv(key));
      // Without Kubernetes' word the pod of a line may be gone.
      bool sure = pull.container.size() == 0 || seen.hasSurvey();
      auto text = kj::str("the registry ", pull.host, " gives no images: ", wordsOf(pull.reason));
      auto& finding = sure ? report.certain(node, kj::mv(text)) : report.likely(node, kj::mv(text));
      finding.shows(node, pull.source, pull.text, pull.time);
      mendPull(finding, node, pull, "");
    }
  }
}

void checkKubeletImage(Seen seen, Report& report) {
  checkServiceImage(seen, report, "kubelet", "/machine/kubelet/image");
}

void checkEtcdImage(Seen seen, Report& report) {
  checkServiceImage(seen, report, "etcd", "/cluster/etcd/image");
}

// Without an API server the kubelet's log is all that tells of them.
void checkControlPlaneImages(Seen seen, Report& report) {
  struct Part {
    kj::StringPtr name, key;
  };
  constexpr Part kParts[] = {{"kube-apiserver"_kj, "/cluster/apiServer/image"_kj},
                             {"kube-controller-manager"_kj, "/cluster/controllerManager/image"_kj},
                             {"kube-scheduler"_kj, "/cluster/scheduler/image"_kj}};
  for (auto node : seen.getNodes()) {
    if (!isControlPlane(node)) continue;
    auto pulls = podPullsOf(seen, node);
    for (auto& part : kParts) {
      for (auto& pull : pulls) {
        if (pull.container != part.name) continue;
        auto& finding = report.certain(
            node, kj::str("the image of ", part.name, " cannot be pulled: ", pull.image, ": ",
                          wordsOf(pull.reason)));
        finding.shows(node, pull.source, pull.text, pull.time);
        mendPull(finding, node, pull, part.key);
        break;
      }
    }
  }
}

}  // namespace talos::talosctl
