// Checks the kubelet, the static pods, the API server, and the endpoint that leads to it.
#include "common/base/node-messages.h"
#include "common/text/texts.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

constexpr auto kMayBeApproved = 15 * kj::SECONDS;  // time for the approval of a certificate request
constexpr auto kDialledWithin = 2 * kj::MINUTES;   // the kubelet dials several times a minute

Illness kubeletIllness(rpc::Service::Reader service, kj::StringPtr text, kj::StringPtr line) {
  auto state = service.getState();
  if (isStopped(service)) return Illness::kKubeletStopped;
  if (line.size() > 0 && isArgumentError(line)) return Illness::kKubeletArgument;
  if (exitedWithError(text)) return Illness::kKubeletExits;
  bool waits = state == rpc::ServiceState::WAITING || state == rpc::ServiceState::PREPARING;
  return waits ? Illness::kKubeletWaiting : Illness::kKubeletUnhealthy;
}

void checkKubelet(ObservedCluster cluster, ObservedNode node, Findings& findings) {
  if (!answers(node)) return;
  KJ_IF_MAYBE (wait, certificateWait(node)) {
    // The checks of the endpoint or of the registration explain this wait.
    if (cluster.hasSurvey() || failureOf(wait->text) != FailureKind::kOther) return;
  }
  KJ_IF_MAYBE (service, downService(node, "kubelet")) {
    auto statement = statementOf(*service);
    auto line = exitedWithError(statement.text) ? fatalLine(cluster, node, "kubelet") : ""_kj;
    auto illness = kubeletIllness(*service, statement.text, line);
    auto& finding = findings.add(illness, node).with(statement).with("line", line);
    if (illness == Illness::kKubeletStopped) finding.isItsOwnCause();
  }
}

void checkStaticPodFiles(ObservedCluster cluster, ObservedNode node, Findings& findings) {
  // Other pods are of machine.pods.
  bool noPods = node.hasStaticPods();
  for (auto pod : node.getStaticPods()) noPods = noPods && pod != "kube-apiserver";
  bool noSecrets = !node.getSecretsReady();
  if (!answers(node) || !node.getControlPlane() || (!noSecrets && !noPods)) return;
  findings.add(noSecrets ? Illness::kCertificatesMissing : Illness::kStaticPodsMissing, node)
      .with("command", noSecrets ? "get secretstatus" : "get staticpods")
      .with("state", noSecrets ? "READY false" : "none")
      // Other controllers fail as a consequence: they wait for the API server, which is one of the
      // pods.
      .with("line",
            newestLine(cluster, node, "controller-runtime",
                       {.parts = {messages::kControllerFailed},
                        .without = {"k8s.ManifestApplyController", "k8s.NodeApplyController",
                                    "error refreshing pod status"}}));
}

bool hasContainers(ObservedNode node) {
  for (auto one : node.getUnanswered()) {
    if (one.getQuestion() == Question::CONTAINERS) return false;
  }
  return answers(node);
}

// Returns false if the node's config disables the part: then other parts have definitions.
bool isDefined(ObservedNode node, kj::StringPtr part) {
  auto pods = node.getStaticPods();
  return pods.size() == 0 || contains(pods, part);
}

struct Part {
  kj::StringPtr name, key;  // name in the pod's name, and key below `cluster` in the machine config
};
void checkPart(ObservedCluster cluster, ObservedNode node, const Part& part, Findings& findings) {
  kj::StringPtr id, status;
  for (auto container : node.getContainers()) {
    if (!container.getId().endsWith(kj::str(":", part.name))) continue;
    id = container.getId();
    status = container.getStatus();
    if (status == "CONTAINER_RUNNING") return;
  }
  bool missing = id.size() == 0;
  auto fatal = missing ? ""_kj : fatalLine(cluster, node, id);
  auto line = missing             ? newestLine(cluster, node, "kubelet", {.parts = {part.name}})
              : fatal.size() == 0 ? lastLine(node, id)
                                  : fatal;
  auto illness = missing                  ? Illness::kPartMissing
                 : isArgumentError(fatal) ? Illness::kPartArgument
                 : fatal.size() > 0       ? Illness::kPartExits
                                          : Illness::kPartExited;
  auto& finding = findings.add(illness, node);
  if (illness != Illness::kPartArgument) finding.alsoBecause({"api-server"});
  finding.with("part", part.name)
      .with("key", part.key)
      .with("state", missing ? kj::str("no container of that name") : kj::str(id, " ", status))
      .with("log", missing ? kj::str("logs kubelet") : kj::str("logs -k ", id))
      .with("line", line);
}

bool isSilence(kj::StringPtr error) {
  return failureOf(error) == FailureKind::kSilent || has(error, " in time");
}

// Returns true if the API server of a node runs and does not answer. The controller manager and the
// scheduler of the node may exit for that: they cannot renew their leases. The status keeps the
// first error since the server was ready, so one that has hung since its start shows only in the
// survey.
bool checkHanging(ObservedCluster cluster, ObservedNode node, Findings& findings) {
  auto status = node.getApiServer();
  bool own = isSilence(status.getMessage());
  auto message = own ? status.getMessage() : cluster.getSurveyProblem();
  bool silent = own || (!cluster.hasSurvey() && isSilence(message));
  if (!answers(node) || status.getReady() || !silent) return false;
  for (auto container : node.getContainers()) {
    if (!container.getId().endsWith(":kube-apiserver")) continue;
    if (container.getStatus() != "CONTAINER_RUNNING") continue;
    findings.add(Illness::kApiServerHangs, node)
        .precedes("control-plane-pod")
        .alsoBecause({"etcd-certificate", "etcd-member", "etcd-join"})
        .notBecause(
            {"node-down", "containerd", "image-control-plane", "kubelet", "static-pod-files"})
        .with("source", own ? "get localapistatus"_kj : "get nodestatus"_kj)
        .with("message", message)
        .with("container", container.getId())
        .with("state", container.getStatus());
    return true;
  }
  return false;
}

// Reports API servers without an answer. That none answers is a cause only if no earlier check has
// found one.
void checkApiServers(ObservedCluster cluster, Findings& findings) {
  bool controlPlane = false, hangs = false;
  for (auto node : cluster.getNodes()) {
    controlPlane = controlPlane || node.getControlPlane();
    hangs = checkHanging(cluster, node, findings) || hangs;
  }
  if (!controlPlane || hangs || cluster.hasSurvey()) return;
  if (cluster.getSurveyProblem().size() == 0) return;
  findings.add(Illness::kNoApiServer).with("problem", cluster.getSurveyProblem());
}

// Ignores addresses that a node which was not called may hold.
void checkVips(ObservedCluster cluster, Findings& findings) {
  struct Vip {
    kj::StringPtr address, reporter;
    bool held = false;
    kj::Vector<Statement> states = {};
  };
  kj::Vector<Vip> vips;
  bool silent = false;
  for (auto node : cluster.getNodes()) {
    silent = silent || mayBeSilentControlPlane(node);
    for (auto one : node.getVips()) {
      Vip* vip = nullptr;
      for (auto& known : vips) {
        if (known.address == one.getAddress()) vip = &known;
      }
      if (vip == nullptr) vip = &vips.add(Vip{one.getAddress(), node.getAddress()});
      auto status = one.getStatus();
      vip->held = vip->held || status.getState() == "holder";
      vip->states.add(Statement{kj::str("talosctl -n ", node.getAddress(), " get vipstatus"),
                                kj::str(status.getState(), ": ", status.getReason())});
    }
  }
  for (auto& vip : vips) {
    if (vip.held || !allControlPlanesAsked(cluster)) continue;
    auto& finding = findings.add(silent ? Illness::kVipNotHeldByAnswering : Illness::kVipNotHeld)
                        .with("address", vip.address)
                        .with("reporter", vip.reporter);
    for (auto& state : vip.states) finding.shows(state.source, state.text);
  }
}

// Returns the report of the kubelet, or of kubed for it, that a connection to this host failed; an
// empty text if there is no such report.
Statement failedDial(ObservedCluster cluster, ObservedNode node, kj::StringPtr host) {
  auto fails = [&](kj::StringPtr text) {
    return has(text, host) && failureOf(text) != FailureKind::kOther;
  };
  KJ_IF_MAYBE (wait, certificateWait(node)) {
    return fails(wait->text) ? kj::mv(*wait) : Statement();
  }
  auto lines = linesOfLog(node, "kubelet");
  for (size_t i = lines.size(); i-- > 0;) {
    if (fails(lines[i]) && isRecent(cluster, node, lines[i], kDialledWithin)) {
      return Statement{kj::str("logs kubelet"), kj::str(lines[i])};
    }
  }
  return {};
}

bool isReporting(ObservedCluster cluster, ObservedNode node) {
  for (auto one : cluster.getSurvey().getNodes()) {
    bool reports = one.getReady() || one.getReason() != "NodeStatusUnknown";
    if (reports && one.getName() == node.getKubelet().getNodename()) return true;
  }
  return false;
}

// Reports that the API servers answer, but not at the endpoint in the config.
void checkEndpoint(ObservedCluster cluster, ObservedNode node, Findings& findings) {
  auto url = node.getFacts().getEndpoint();
  if (!answers(node) || url.size() == 0 || isReporting(cluster, node)) return;
  auto statement = failedDial(cluster, node, hostOf(url).host);
  if (statement.text.size() == 0) return;
  auto failure = failureOf(statement.text);
  bool otherCa = failure == FailureKind::kCertificate;
  bool name = isNameFailure(failure);
  bool surveyed = cluster.hasSurvey() && cluster.getSurvey().getProblems().size() == 0;
  findings
      .add(otherCa ? Illness::kEndpointOtherCa
           : name  ? Illness::kEndpointNameUnknown
                   : Illness::kEndpointDead,
           node)
      .certainIf(otherCa || surveyed)
      .with("url", url)
      .with("failure", describe(failure))
      .with(statement);
}

// Returns the name in "the request node-csr-… is not approved yet"; empty for any other text.
kj::String requestToApprove(kj::StringPtr text) {
  if (!text.startsWith(messages::kTheRequest) || !text.endsWith(messages::kNotApproved)) {
    return kj::String();
  }
  auto rest = text.slice(messages::kTheRequest.size());
  return kj::heapString(rest.slice(0, rest.findFirst(' ').orDefault(rest.size())));
}

// Returns true if the config keeps the node out of Kubernetes: its kubelet has no kubeconfig. False
// if the arguments of the kubelet are unknown.
bool isUnregistered(ObservedNode node) {
  auto arguments = node.getKubelet().getArguments();
  for (auto argument : arguments) {
    if (argument.startsWith("--kubeconfig=")) return false;
  }
  return arguments.size() > 0;
}

void checkRegistration(ObservedCluster cluster, ObservedNode node, Findings& findings) {
  auto name = node.getKubelet().getNodename();
  if (!answers(node) || name.size() == 0 || isUnregistered(node)) return;
  for (auto one : cluster.getSurvey().getNodes()) {
    if (one.getName() == name) return;
  }
  bool settled = true;  // a wait that has only started may end soon
  Statement statement{.source = kj::str("logs kubelet"), .text = {}};
  KJ_IF_MAYBE (wait, certificateWait(node)) {
    settled =
        nowOn(cluster, node) - static_cast<int64_t>(wait->time) >= kMayBeApproved / kj::NANOSECONDS;
    statement = kj::mv(*wait);
  } else {
    statement.text = kj::str(newestLine(
        cluster, node, "kubelet",
        {.parts = {"Unauthorized", "forbidden", "x509: ", "certificate signing request"}}));
  }
  bool token = hasAny(statement.text, {"Unauthorized", messages::kUnknownBootstrapToken});
  auto request = requestToApprove(statement.text);
  findings
      .add(token                ? Illness::kBootstrapTokenRefused
           : request.size() > 0 ? Illness::kNotApproved
                                : Illness::kNotRegistered,
           node)
      .certainIf(token && settled)
      .with("name", name)
      .with("request", request)
      .with(statement);
}

}  // namespace

void checkControlPlane(ObservedCluster cluster, Findings& findings) {
  static constexpr Part kParts[] = {{"kube-apiserver"_kj, "apiServer"_kj},
                                    {"kube-controller-manager"_kj, "controllerManager"_kj},
                                    {"kube-scheduler"_kj, "scheduler"_kj}};
  auto survey = cluster.getSurvey();
  bool nodesRead = survey.getNodes().size() > 0 || survey.getProblems().size() == 0;
  for (auto node : cluster.getNodes()) {
    checkKubelet(cluster, node, findings);
    checkStaticPodFiles(cluster, node, findings);
    for (auto& part : kParts) {
      if (!node.getControlPlane() || !isDefined(node, part.name)) continue;
      if (hasContainers(node)) checkPart(cluster, node, part, findings);
    }
    checkEndpoint(cluster, node, findings);
    if (cluster.hasSurvey() && nodesRead) checkRegistration(cluster, node, findings);
  }
  checkApiServers(cluster, findings);
  checkVips(cluster, findings);
}

}  // namespace talos::talosctl
