// The kubelet, the static pods, the API server, and the endpoint that leads to it.
#include <string.h>

#include "talosctl/diagnose/observed.h"
#include "talosctl/diagnose/pull-failure.h"

namespace talos::talosctl {
namespace {

constexpr auto kMoment = 15 * kj::SECONDS;
constexpr auto kEndpointAgain = 2 * kj::MINUTES;  // the kubelet asks it several times a minute

bool isPartOf(kj::StringPtr id, kj::StringPtr part) {
  return id.endsWith(kj::str(":", part));
}

bool tellsContainers(SeenNode node) {
  if (!answers(node)) return false;
  for (auto one : node.getUnanswered()) {
    if (one.getQuestion() == Question::CONTAINERS) return false;
  }
  return true;
}

kj::StringPtr keyOfPart(kj::StringPtr part) {
  if (part == "kube-apiserver") return "apiServer";
  return part == "kube-scheduler" ? "scheduler" : "controllerManager";
}

}  // namespace

void checkKubelet(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    if (!answers(node)) continue;
    KJ_IF_MAYBE (waits, certificateWait(node)) {
      // That is said of the endpoint, or of its registration.
      if (seen.hasSurvey() || failureOf(waits->text) != DialFailure::kOther) continue;
    }
    KJ_IF_MAYBE (service, serviceOf(node, "kubelet")) {
      if (isUp(*service)) continue;
      auto told = tells(*service);
      bool waits = service->getState() == rpc::ServiceState::WAITING ||
                   service->getState() == rpc::ServiceState::PREPARING;
      bool stopped = has(told.text, "Service stopped");
      bool crashes =
          has(told.text, "exited with status") && !has(told.text, "exited with status 0");
      auto line = crashes && !stopped ? fatalLine(seen, node, "kubelet") : ""_kj;
      bool flag = hasAny(line, {"unknown flag", "invalid argument", "failed to parse"});
      auto text = stopped ? kj::str("the kubelet does not run: somebody has stopped it")
                  : flag  ? kj::str(
                               "the kubelet does not start: an argument of "
                                "machine.kubelet.extraArgs is wrong")
                  : crashes ? kj::str("the kubelet ends again and again")
                  : waits   ? kj::str("the kubelet does not run yet")
                            : kj::str("the kubelet is not healthy");
      auto& finding = crashes && !stopped ? report.certain(node, kj::mv(text))
                                          : report.likely(node, kj::mv(text));
      finding.shows(node, "service kubelet", told.text, told.time)
          .shows(node, "logs kubelet", line);
      if (stopped) {
        finding.mend(node, "service kubelet start");
        continue;
      }
      finding.mend(node, "logs kubelet    # and machine.kubelet of its config");
    }
  }
}

void checkStaticPodFiles(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    if (!answers(node) || !isControlPlane(node)) continue;
    if (!node.getSecretsReady()) {
      report.likely(node, kj::str("the certificates of Kubernetes are not there yet"))
          .shows(node, "get secretstatus", "READY false")
          .shows(node, "logs controller-runtime",
                 newestLine(node, "controller-runtime", {"controller failed: "}))
          .mend(node, "logs controller-runtime");
    } else if (node.getStaticPods().size() == 0 && node.hasStaticPods()) {
      report.likely(node, kj::str("the definitions of the static pods are not made"))
          .shows(node, "get staticpods", "none")
          .shows(node, "logs controller-runtime",
                 newestLine(node, "controller-runtime", {"controller failed: "}))
          .mend(node, "logs controller-runtime");
    }
  }
}

void checkControlPlanePods(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    if (!isControlPlane(node) || !tellsContainers(node)) continue;
    for (auto part : {"kube-apiserver"_kj, "kube-controller-manager"_kj, "kube-scheduler"_kj}) {
      kj::StringPtr id, status;
      bool runs = false;
      for (auto container : node.getContainers()) {
        if (!isPartOf(container.getId(), part)) continue;
        id = container.getId();
        status = container.getStatus();
        runs = runs || status == "CONTAINER_RUNNING";
      }
      auto line = id.size() > 0 ? fatalLine(seen, node, id) : ""_kj;
      auto what = kj::str("logs -k ", id);
      if (id.size() > 0 && !runs) {
        bool flag = hasAny(line, {"unknown flag", "invalid argument", "failed to parse"});
        auto text = flag              ? kj::str(part, " does not start: an argument of cluster.",
                                                keyOfPart(part), ".extraArgs is wrong")
                    : line.size() > 0 ? kj::str(part, " ends again and again")
                                      : kj::str(part, " has ended, or is being started anew");
        auto& finding = line.size() > 0 ? report.certain(node, kj::mv(text))
                                        : report.likely(node, kj::mv(text));
        finding.shows(node, "containers -k", kj::str(id, " ", status))
            .shows(node, what, line.size() > 0 ? line : lastLine(node, id))
            .mend(node, flag ? kj::str("edit machineconfig --mode=no-reboot    # cluster.",
                                       keyOfPart(part), ".extraArgs")
                             : kj::str(what));
      } else if (id.size() == 0) {
        report.likely(node, kj::str(part, " does not run: it has no container"))
            .shows(node, "containers -k", "no container of that name")
            .shows(node, "logs kubelet", newestLine(node, "kubelet", {part}))
            .mend(node, "logs kubelet");
      }
    }
  }
}

// What is left when none of the links before is broken.
void checkApiServer(Seen seen, Report& report) {
  if (seen.hasSurvey() || seen.getSurveyProblem().size() == 0) return;
  bool controlPlane = false;
  for (auto node : seen.getNodes()) controlPlane = controlPlane || isControlPlane(node);
  if (!controlPlane) return;
  report.likely(kj::str("no API server of Kubernetes answers"))
      .shows("talosctl get nodestatus", seen.getSurveyProblem())
      .mend(kj::str("talosctl containers -k, on the control-plane nodes"));
}

void checkVip(Seen seen, Report& report) {
  kj::Vector<kj::StringPtr> told;
  for (auto node : seen.getNodes()) {
    for (auto vip : node.getVips()) {
      auto address = vip.getAddress();
      bool before = false;
      for (auto& one : told) before = before || one == address;
      if (before) continue;
      told.add(address);
      unsigned holders = 0;
      bool all = true;
      if (!allControlPlanesAsked(seen)) continue;  // one of the others may hold it
      for (auto other : seen.getNodes()) {
        if (!answers(other) && (isControlPlane(other) || other.getReach() == Reach::SILENT))
          all = false;
        for (auto there : other.getVips()) {
          holders += there.getAddress() == address && there.getStatus().getState() == "holder";
        }
      }
      if (holders > 0) continue;
      auto& finding = all ? report.certain(kj::str("nobody holds the shared address ", address))
                          : report.likely(kj::str("none of the nodes that answer holds the shared "
                                                  "address ",
                                                  address));
      for (auto other : seen.getNodes()) {
        for (auto there : other.getVips()) {
          if (there.getAddress() != address) continue;
          auto status = there.getStatus();
          finding.shows(other, "get vipstatus",
                        kj::str(status.getState(), ": ", status.getReason()));
        }
      }
      finding.mend(node, "get vipstatus -w");
    }
  }
}

namespace {

// What the kubelet, or kubed for it, says of a connection to that host that fails; no text:
// nothing.
struct KubeletSays {
  kj::StringPtr source, text;
  uint64_t time = 0;
};
KubeletSays dialFailureAt(Seen seen, SeenNode node, kj::StringPtr host) {
  auto fails = [&](kj::StringPtr text) {
    return has(text, host) && failureOf(text) != DialFailure::kOther;
  };
  KJ_IF_MAYBE (waits, certificateWait(node)) {
    if (fails(waits->text)) return {"service kubelet", waits->text, waits->time};
    return {};
  }
  for (auto log : node.getLogs()) {
    if (log.getId() != "kubelet") continue;
    auto lines = log.getLines();
    for (size_t i = lines.size(); i-- > 0;) {
      if (fails(lines[i]) && isRecent(seen, node, lines[i], kEndpointAgain)) {
        return {"logs kubelet", lines[i]};
      }
    }
  }
  return {};
}

// What it says of being known there. One that waits for a moment only may know soon.
KubeletSays refusalOf(Seen seen, SeenNode node, bool& forLong) {
  forLong = true;
  KJ_IF_MAYBE (waits, certificateWait(node)) {
    auto now = node.getClock() != 0 ? node.getClock() : seen.getNow();
    forLong = now - static_cast<int64_t>(waits->time) >= kMoment / kj::NANOSECONDS;
    return {"service kubelet", waits->text, waits->time};
  }
  return {"logs kubelet",
          newestLine(node, "kubelet",
                     {"Unauthorized", "forbidden", "x509: ", "certificate signing request"})};
}

// The request in "the request node-csr-… is not approved yet".
kj::String howToAdmit(SeenNode node, kj::StringPtr text) {
  constexpr kj::StringPtr kBefore = "the request "_kj;
  if (text.startsWith(kBefore) && has(text, "is not approved")) {
    auto rest = text.slice(kBefore.size());
    KJ_IF_MAYBE (end, rest.findFirst(' ')) {
      return kj::str("kubectl certificate approve ", rest.slice(0, *end));
    }
  }
  return kj::str("kubectl get csr; talosctl -n ", node.getAddress(), " logs kubelet");
}

}  // namespace

// The API servers answer, but not where the config says.
void checkEndpoint(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    auto url = node.getFacts().getEndpoint();
    if (!answers(node) || url.size() == 0) continue;
    auto to = hostOf(url);
    auto target = kj::str(to.host, ":", to.port);
    bool registered = false;
    for (auto one : seen.getSurvey().getNodes()) {
      bool reports = one.getReady() || one.getReason() != "NodeStatusUnknown";
      registered = registered || (reports && one.getName() == node.getKubelet().getNodename());
    }
    if (registered) continue;  // its kubelet reaches it
    auto evidence = dialFailureAt(seen, node, to.host);
    if (evidence.text.size() == 0) continue;
    auto failure = failureOf(evidence.text);
    auto text = failure == DialFailure::kCertificate
                    ? kj::str("the control plane endpoint ", url,
                              " answers with another CA than "
                              "cluster.ca: it leads to another cluster, or the config is of one")
                    : kj::str("the control plane endpoint ", url,
                              " does not lead to an API server: ", wordsOf(failure));
    bool read = seen.hasSurvey() && seen.getSurvey().getProblems().size() == 0;
    bool sure = failure == DialFailure::kCertificate || read;
    auto& finding = sure ? report.certain(node, kj::mv(text)) : report.likely(node, kj::mv(text));
    finding.shows(node, evidence.source, evidence.text, evidence.time)
        .mend(setInConfig(node, "/cluster/controlPlane/endpoint", "\"https://<address>:6443\""));
  }
}

void checkRegistration(Seen seen, Report& report) {
  if (!seen.hasSurvey()) return;
  auto survey = seen.getSurvey();
  if (survey.getNodes().size() == 0 && survey.getProblems().size() > 0)
    return;  // could not be read
  for (auto node : seen.getNodes()) {
    auto name = node.getKubelet().getNodename();
    if (!answers(node) || name.size() == 0) continue;
    bool there = false;
    for (auto one : survey.getNodes()) there = there || one.getName() == name;
    if (there) continue;
    bool forLong = false;
    auto says = refusalOf(seen, node, forLong);
    bool token = hasAny(says.text, {"Unauthorized", "does not know the bootstrap token"});
    auto text = token ? kj::str(
                            "Kubernetes refuses the bootstrap token of the kubelet: its "
                            "cluster.token is not that of the control plane")
                      : kj::str("the kubelet has not registered the node ", name, " in Kubernetes");
    auto& finding =
        token && forLong ? report.certain(node, kj::mv(text)) : report.likely(node, kj::mv(text));
    finding.shows(kj::str("kubectl get node ", name), kj::str("nodes \"", name, "\" not found"))
        .shows(node, says.source, says.text, says.time)
        .mend(token ? setInConfig(node, "/cluster/token",
                                  "\"<cluster.token of a control-plane node>\"")
                    : howToAdmit(node, says.text));
  }
}

}  // namespace talos::talosctl
