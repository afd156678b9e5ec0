#include "common/health/health-checks.h"

#include <kj/map.h>

#include <algorithm>

#include "common/base/node-messages.h"
#include "common/health/service-state.h"
#include "common/text/texts.h"

namespace talos {
namespace {

constexpr auto kUsualLimit = 5 * kj::MINUTES, kUsualInterval = 5 * kj::SECONDS;
constexpr kj::StringPtr kComponents[] = {"kube-apiserver"_kj, "kube-controller-manager"_kj,
                                         "kube-scheduler"_kj};

// Causes for which a check does not pass; without a cause it passes.
class Reasons {
 public:
  void add(kj::String reason) { reasons.add(kj::mv(reason)); }
  CheckResult result(kj::StringPtr before = "") {
    if (reasons.empty()) return CheckResult::passed();
    return CheckResult::waiting(kj::str(before, kj::strArray(reasons, "; ")));
  }

 private:
  kj::Vector<kj::String> reasons;
};

kj::Maybe<rpc::Service::Reader> serviceOf(const NodeFacts& facts, kj::StringPtr id) {
  for (auto service : facts.services) {
    if (service.getId() == id) return service;
  }
  return nullptr;
}

// Returns why a service is not healthy; nullptr if it is.
kj::Maybe<kj::String> whyNotHealthy(const NodeFacts& facts, kj::StringPtr id) {
  KJ_IF_MAYBE (service, serviceOf(facts, id)) {
    auto state = service->getState();
    auto events = service->getEvents();
    auto health = service->getHealth();
    if (state != rpc::ServiceState::RUNNING) {
      auto last =
          events.size() > 0 ? kj::str(": ", events[events.size() - 1].getMessage()) : kj::String();
      return kj::str("service ", id, " is ", serviceStateName(state), last);
    }
    if (health.getHealthy()) return nullptr;
    if (health.getUnknown()) return kj::str("service ", id, " was not checked yet");
    return kj::str("service ", id, " is not healthy: ", health.getLastMessage());
  }
  return kj::str("service ", id, " is unknown");
}

// Collects `problemOf` of each node; no answer is a problem as well.
template <typename ProblemOf>
CheckResult judgeNodes(const HealthView& view, ProblemOf problemOf) {
  Reasons reasons;
  for (auto& facts : view.nodes) {
    KJ_IF_MAYBE (silence, facts.silence) {
      reasons.add(kj::str(facts.node, ": ", *silence));
      continue;
    }
    kj::Maybe<kj::String> problem = problemOf(facts);
    KJ_IF_MAYBE (text, problem) reasons.add(kj::str(facts.node, ": ", *text));
  }
  return reasons.result();
}

bool awaitsCluster(const NodeFacts& facts) {
  if (facts.silence != nullptr) return false;
  KJ_IF_MAYBE (etcd, serviceOf(facts, "etcd")) {
    auto events = etcd->getEvents();
    if (etcd->getState() != rpc::ServiceState::PREPARING || events.size() == 0) return false;
    kj::StringPtr last = events[events.size() - 1].getMessage();
    // The service's event begins with a capital letter.
    return last.size() > 0 && last.slice(1).startsWith(messages::kWaitingForCluster.slice(1));
  }
  return false;
}

CheckResult etcdIsHealthy(const HealthView& view) {
  KJ_IF_MAYBE (step, bootstrapNeeded(view.nodes)) return CheckResult::waiting(kj::mv(*step));
  return judgeNodes(view, [](const NodeFacts& facts) { return whyNotHealthy(facts, "etcd"); });
}

CheckResult bootkubeHasFinished(const HealthView& view) {
  return judgeNodes(view, [](const NodeFacts& facts) -> kj::Maybe<kj::String> {
    KJ_IF_MAYBE (service, serviceOf(facts, "bootkube")) {
      auto state = service->getState();
      if (state == rpc::ServiceState::FINISHED || state == rpc::ServiceState::SKIPPED) {
        return nullptr;
      }
      return kj::str("service bootkube is ", serviceStateName(state));
    }
    return nullptr;
  });
}

CheckResult apidIsReady(const HealthView& view) {
  return judgeNodes(view, [](const NodeFacts&) -> kj::Maybe<kj::String> { return nullptr; });
}

CheckResult kubeletIsHealthy(const HealthView& view) {
  return judgeNodes(view, [](const NodeFacts& facts) -> kj::Maybe<kj::String> {
    KJ_IF_MAYBE (cause, whyNotHealthy(facts, "kubelet")) return kj::mv(*cause);
    for (auto problem : facts.status.getProblems()) {
      if (problem.startsWith(messages::kNoNode)) return kj::str(problem);
    }
    return nullptr;
  });
}

CheckResult bootIsFinished(const HealthView& view) {
  return judgeNodes(view, [](const NodeFacts& facts) -> kj::Maybe<kj::String> {
    auto status = facts.status;
    auto because =
        status.getProblems().size() > 0 ? kj::str(": ", status.getProblems()[0]) : kj::String();
    switch (status.getStage()) {
      case rpc::Status::Stage::RUNNING:
        return nullptr;
      case rpc::Status::Stage::BOOTING:
        return kj::str("booting, phase ", status.getPhase(), because);
      case rpc::Status::Stage::FAILED:
        return kj::str("the boot has failed", because);
      case rpc::Status::Stage::REBOOTING:
        return kj::str("rebooting");
      case rpc::Status::Stage::SHUTTING_DOWN:
        return kj::str("shutting down");
      case rpc::Status::Stage::MAINTENANCE:
        return kj::str("in maintenance mode: it has no config");
      case rpc::Status::Stage::RESETTING:
        return kj::str("resetting");
    }
    return kj::str("in an unknown stage");
  });
}

// ["10.5.0.2" "10.5.0.3"]
template <typename Texts>
kj::String quotedList(const Texts& texts) {
  kj::Vector<kj::String> quoted;
  for (auto& text : texts) quoted.add(kj::str('"', text, '"'));
  return kj::str("[", kj::strArray(quoted, " "), "]");
}

bool isNode(rpc::Survey::Node::Reader node, kj::StringPtr expected) {
  if (node.getName() == expected) return true;
  for (auto address : node.getAddresses()) {
    if (address == expected) return true;
  }
  return false;
}

kj::StringPtr addressOf(rpc::Survey::Node::Reader node) {
  auto addresses = node.getAddresses();
  return addresses.size() > 0 ? kj::StringPtr(addresses[0]) : kj::StringPtr(node.getName());
}

kj::Vector<kj::String> sorted(kj::Vector<kj::String> texts) {
  std::sort(texts.begin(), texts.end());
  return texts;
}

// Matches each node of one list with one of the other; none may be left over, except for an
// expected node that is `unregistered`.
CheckResult judgeMembers(kj::StringPtr what, const kj::Vector<kj::String>& expected,
                         kj::ArrayPtr<const kj::String> unregistered,
                         kj::ArrayPtr<const rpc::Survey::Node::Reader> nodes) {
  size_t found = 0;
  kj::Vector<kj::String> wanted, there;
  for (auto& one : expected) {
    bool known = false;
    for (auto& node : nodes) known = known || isNode(node, one);
    if (known) ++found;
    if (known || !contains(unregistered, one)) wanted.add(kj::str(one));
  }
  if (found == wanted.size() && nodes.size() == wanted.size()) return CheckResult::passed();
  for (auto& node : nodes) there.add(kj::str(addressOf(node)));
  return CheckResult::waiting(kj::str("expected ", what, " ", quotedList(sorted(kj::mv(wanted))),
                                      ", Kubernetes has ", quotedList(sorted(kj::mv(there)))));
}

template <typename Judge>
CheckResult judgeKubernetes(const HealthView& view, Judge judge) {
  KJ_IF_MAYBE (survey, view.survey) {
    // Objects that could not be read may be unhealthy.
    for (auto problem : survey->getProblems()) return CheckResult::waiting(kj::str(problem));
    return judge(*survey);
  }
  return CheckResult::waiting(kj::str(view.surveyProblem));
}

// Returns an address that two nodes share. The first address of each node counts: discovery names
// the node by it, and other nodes call it there.
kj::Maybe<kj::String> sharedAddress(rpc::Survey::Reader survey) {
  kj::HashMap<kj::StringPtr, kj::StringPtr> owners;
  for (auto node : survey.getNodes()) {
    kj::StringPtr name = node.getName();
    auto address = addressOf(node);
    KJ_IF_MAYBE (owner, owners.find(address)) {
      return kj::str("Kubernetes has the address ", address, " twice, of the nodes ", *owner,
                     " and ", name, "; the earlier name of a renamed node is removed within ",
                     "minutes, any other one with kubectl delete node");
    }
    owners.insert(address, name);
  }
  return nullptr;
}

CheckResult allNodesReport(const HealthView& view) {
  return judgeKubernetes(view, [&](rpc::Survey::Reader survey) {
    KJ_IF_MAYBE (shared, sharedAddress(survey)) return CheckResult::waiting(kj::mv(*shared));
    kj::Vector<rpc::Survey::Node::Reader> nodes;
    for (auto node : survey.getNodes()) nodes.add(node);
    return judgeMembers("nodes", view.expected.all(), view.unregistered, nodes);
  });
}

CheckResult allNodesAreReady(const HealthView& view) {
  return judgeKubernetes(view, [](rpc::Survey::Reader survey) {
    Reasons reasons;
    for (auto node : survey.getNodes()) {
      if (node.getReady()) continue;
      auto reason =
          node.getReason().size() > 0 ? kj::str(" (", node.getReason(), ")") : kj::String();
      reasons.add(kj::str(node.getName(), reason, node.getMessage().size() > 0 ? ": " : "",
                          node.getMessage()));
    }
    return reasons.result("nodes are not ready: ");
  });
}

bool counts(rpc::Survey::Pod::Reader pod) {
  return pod.getNamespace() == "kube-system" && !pod.getDeleted() && !pod.getCheckpoint() &&
         pod.getPhase() != "Failed" && pod.getPhase() != "Succeeded";
}

kj::String unreadyText(rpc::Survey::Pod::Reader pod) {
  auto reason =
      pod.getReason().size() > 0 ? kj::StringPtr(pod.getReason()) : kj::StringPtr(pod.getPhase());
  return kj::str(pod.getName(), reason.size() > 0 ? ": " : "", reason,
                 pod.getMessage().size() > 0 ? ": " : "", pod.getMessage());
}

CheckResult controlPlaneIsReady(const HealthView& view) {
  return judgeKubernetes(view, [&](rpc::Survey::Reader survey) {
    kj::Vector<rpc::Survey::Node::Reader> nodes;
    for (auto node : survey.getNodes()) {
      if (node.getControlPlane()) nodes.add(node);
    }
    auto members =
        judgeMembers("control-plane nodes", view.expected.controlPlane, view.unregistered, nodes);
    if (members.state != CheckState::kPassed) return members;
    Reasons reasons;
    for (auto component : kComponents) {
      size_t pods = 0;
      for (auto workload : survey.getWorkloads()) {
        bool legacy = workload.getKind() == "DaemonSet" && workload.getName() == component;
        if (!legacy || workload.getReady() == workload.getDesired()) continue;
        reasons.add(kj::str("DaemonSet ", component, ": ", workload.getReady(), " of ",
                            workload.getDesired(), " pods are ready"));
      }
      for (auto pod : survey.getPods()) {
        if (!counts(pod) || (pod.getApp() != component && pod.getComponent() != component)) {
          continue;
        }
        ++pods;
        if (!pod.getReady()) reasons.add(unreadyText(pod));
      }
      size_t wanted = nodes.size();
      for (auto& node : view.nodes) {
        // An unregistered node is not among the registered ones that are counted.
        if (wanted > 0 && !node.unregistered && contains(node.disabled, component)) --wanted;
      }
      if (pods != wanted) {
        reasons.add(kj::str(component, ": expected ", wanted, " pods, there are ", pods));
      }
    }
    return reasons.result();
  });
}

// All pods of an app are ready, and it has some; skipped when nothing wants any.
CheckResult judgeApp(const HealthView& view, kj::StringPtr kind, kj::StringPtr app) {
  return judgeKubernetes(view, [&](rpc::Survey::Reader survey) {
    bool wanted = false;
    for (auto workload : survey.getWorkloads()) {
      if (workload.getKind() != kind || workload.getApp() != app) continue;
      wanted = wanted || workload.getDesired() > 0 || kind == "DaemonSet";
    }
    if (!wanted) return CheckResult::skipped();
    Reasons reasons;
    size_t pods = 0;
    for (auto pod : survey.getPods()) {
      if (!counts(pod) || pod.getApp() != app) continue;
      ++pods;
      if (!pod.getReady()) reasons.add(unreadyText(pod));
    }
    if (pods == 0) reasons.add(kj::str("there is no pod of ", app));
    return reasons.result();
  });
}

CheckResult proxyIsReady(const HealthView& view) {
  return judgeApp(view, "DaemonSet", "kube-proxy");
}

CheckResult dnsIsReady(const HealthView& view) {
  return judgeApp(view, "ReplicaSet", "kube-dns");
}

CheckResult allNodesAreSchedulable(const HealthView& view) {
  return judgeKubernetes(view, [](rpc::Survey::Reader survey) {
    kj::Vector<kj::String> names;
    for (auto node : survey.getNodes()) {
      if (node.getUnschedulable()) names.add(kj::str(node.getName()));
    }
    if (names.empty()) return CheckResult::passed();
    return CheckResult::waiting(kj::str("unschedulable: ", quotedList(names)));
  });
}

using About = HealthCheck::About;
constexpr HealthCheck kHealthChecks[] = {
    {"etcd to be healthy"_kj, kUsualLimit, kUsualInterval, About::kControlPlane, etcdIsHealthy},
    {"bootkube to finish"_kj, kUsualLimit, kUsualInterval, About::kControlPlane,
     bootkubeHasFinished},
    {"apid to be ready"_kj, kUsualLimit, kUsualInterval, About::kAllNodes, apidIsReady},
    {"kubelet to be healthy"_kj, kUsualLimit, kUsualInterval, About::kAllNodes, kubeletIsHealthy},
    {"all nodes to finish boot sequence"_kj, kUsualLimit, kUsualInterval, About::kAllNodes,
     bootIsFinished},
    {"all k8s nodes to report"_kj, kUsualLimit, 30 * kj::SECONDS, About::kKubernetes,
     allNodesReport},
    {"all k8s nodes to report ready"_kj, 10 * kj::MINUTES, kUsualInterval, About::kKubernetes,
     allNodesAreReady},
    {"all control plane components to be ready"_kj, kUsualLimit, kUsualInterval, About::kComponents,
     controlPlaneIsReady},
    {"kube-proxy to report ready"_kj, 3 * kj::MINUTES, kUsualInterval, About::kKubernetes,
     proxyIsReady},
    {"coredns to report ready"_kj, 3 * kj::MINUTES, kUsualInterval, About::kKubernetes, dnsIsReady},
    {"all k8s nodes to report schedulable"_kj, kUsualLimit, kUsualInterval, About::kKubernetes,
     allNodesAreSchedulable},
};

}  // namespace

kj::Vector<kj::String> ClusterNodes::all() const {
  kj::Vector<kj::String> nodes;
  for (auto& node : controlPlane) nodes.add(kj::str(node));
  for (auto& node : workers) nodes.add(kj::str(node));
  return nodes;
}

kj::Maybe<kj::String> bootstrapNeeded(kj::ArrayPtr<const NodeFacts> controlPlane) {
  if (controlPlane.size() == 0) return nullptr;
  for (auto& facts : controlPlane) {
    if (!awaitsCluster(facts)) return nullptr;
  }
  auto& first = controlPlane[0].node;
  return kj::str("etcd is not bootstrapped; run \"talosctl ",
                 first.size() > 0 ? kj::str("-n ", first, " ") : kj::String(),
                 "bootstrap\", once in the life of the cluster, on one control-plane node");
}

kj::ArrayPtr<const HealthCheck> healthChecks() {
  return kHealthChecks;
}

kj::StringPtr resultText(const CheckResult& result) {
  switch (result.state) {
    case CheckState::kPassed:
      return "OK";
    case CheckState::kSkipped:
      return "SKIP";
    case CheckState::kWaiting:
      return result.text.size() == 0 ? "..."_kj : kj::StringPtr(result.text);
  }
  return "";
}

ClusterNodes discoveredNodes(rpc::Survey::Reader survey) {
  ClusterNodes nodes;
  for (auto node : survey.getNodes()) {
    auto& list = node.getControlPlane() ? nodes.controlPlane : nodes.workers;
    list.add(kj::str(addressOf(node)));
  }
  return nodes;
}

kj::String discoveredLine(const ClusterNodes& nodes) {
  return kj::str("discovered nodes: control plane: ", quotedList(nodes.controlPlane),
                 ", worker: ", quotedList(nodes.workers));
}

}  // namespace talos
