#include "talosctl/drain/drain-run.h"

#include "common/base/error.h"
#include "common/kube/disruption-budgets.h"
#include "common/net/ip.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/drain/pods-that-leave.h"

namespace talos::talosctl {
namespace {

using kube::Choice, kube::CordonBy, kube::Json, kube::PodKind, kube::textAt;

constexpr kj::StringPtr kManager = "talosctl"_kj;
constexpr unsigned kMostConflicts = 5;  // the kubelet also writes to its node
constexpr size_t kMostNamed = 20;

kube::Resource nodeResource() {
  return kube::coreResource("nodes", "Node", false);
}

bool hasAddress(const Json& node, kj::StringPtr named) {
  for (auto address : kube::itemsAt(node, {"status", "addresses"})) {
    if (isSameHost(textAt(*address, {"address"}), named)) return true;
  }
  return false;
}

// kubectl's texts for pods that prevent a drain, and for pods that a drain leaves or deletes with a
// flag.
struct KindText {
  PodKind kind;
  kj::StringPtr refusal, warning;
};
constexpr KindText kKinds[] = {
    {PodKind::kDaemonSet,
     "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"_kj,
     "ignoring DaemonSet-managed Pods"_kj},
    {PodKind::kLocalData,
     "cannot delete Pods with local storage (use --delete-emptydir-data to override)"_kj,
     "deleting Pods with local storage"_kj},
    {PodKind::kUnmanaged,
     "cannot delete Pods that declare no controller (use --force to override)"_kj,
     "deleting Pods that declare no controller"_kj}};

kj::String refusalOf(const kube::DrainPlan& plan) {
  kj::Vector<kj::String> parts;
  for (auto& kind : kKinds) {
    kj::Vector<kj::String> pods;
    for (auto& pod : plan.refused) {
      if (pod.kind == kind.kind) pods.add(kj::str(pod.id));
    }
    if (!pods.empty()) parts.add(kj::str(kind.refusal, ": ", kj::strArray(pods, ", ")));
  }
  return kj::strArray(parts, "; ");
}

kj::Maybe<Json> userCordon(const Json& node) {
  return kube::planCordon(node, CordonBy::kUser);
}
kj::Maybe<Json> userUncordon(const Json& node) {
  return kube::planUncordon(node, CordonBy::kUser);
}

// The budgets of the cluster. A cluster that does not show them is drained all the same: the API
// server enforces them.
struct Budgets {
  kj::Vector<Json> all;
  kj::String version;
};
kj::Promise<Budgets> readBudgets(kube::KubeClient& kubernetes) {
  Budgets budgets;
  try {
    auto kind = co_await kube::budgetsKind(kubernetes);
    budgets.version = kj::str(kind.version);
    budgets.all = (co_await kubernetes.list(kind)).items;
  } catch (...) {
    (void)kj::getCaughtExceptionAsKj();
  }
  co_return kj::mv(budgets);
}

kj::Vector<kj::String> budgetsOf(const Budgets& budgets, kj::ArrayPtr<const Json> pods,
                                 kj::StringPtr uid) {
  kj::Vector<kj::String> names;
  for (auto& pod : pods) {
    if (textAt(pod, {"metadata", "uid"}) != uid) continue;
    for (auto& budget : budgets.all) {
      if (kube::appliesTo(budget, budgets.version, pod)) names.add(kube::nameOf(budget));
    }
  }
  return names;
}

}  // namespace

kj::String nodeNamed(kj::ArrayPtr<const Json> nodes, kj::StringPtr named) {
  kj::Vector<kj::String> found, all;
  for (auto& node : nodes) {
    auto name = kj::str(textAt(node, {"metadata", "name"}));
    if (name == named) return name;
    if (hasAddress(node, named)) found.add(kj::str(name));
    if (all.size() < kMostNamed) all.add(kj::mv(name));
  }
  if (found.size() == 1) return kj::mv(found[0]);
  if (found.size() > 1) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("several nodes of Kubernetes have the address ", named, ": ",
                 kj::strArray(found, ", "), "; use a name"));
  }
  fail(ErrorKind::kNotFound,
       kj::str("no node of Kubernetes has the name or address ", named, "; there are ",
               kj::strArray(all, ", "), nodes.size() > all.size() ? ", …" : ""));
}

kj::Promise<kj::Vector<kj::String>> DrainRun::resolve(kj::ArrayPtr<const kj::String> named) {
  auto listed = co_await kubernetes.list(nodeResource());
  kj::Vector<kj::String> names;
  for (auto& one : named) {
    auto name = nodeNamed(listed.items, one);
    bool twice = false;
    for (auto& earlier : names) twice = twice || earlier == name;
    if (!twice) names.add(kj::mv(name));
  }
  co_return kj::mv(names);
}

// Returns false if there was nothing to change.
kj::Promise<bool> DrainRun::change(kj::StringPtr node, Plan plan) {
  for (unsigned conflicts = 0;;) {
    auto object = co_await kubernetes.get(nodeResource(), "", node);
    auto planned = plan(object);
    KJ_IF_MAYBE (patch, planned) {
      if (dryRun) co_return true;
      kj::Maybe<kj::Exception> wrong;
      co_await kubernetes.patch(kube::Patch::kMerge, nodeResource(), "", node, *patch, kManager)
          .then([](Json) {}, [&](kj::Exception&& e) { wrong = kj::mv(e); });
      KJ_IF_MAYBE (e, wrong) {
        if (kindOf(*e) != ErrorKind::kConflict || ++conflicts == kMostConflicts) {
          kj::throwFatalException(kj::mv(*e));
        }
        continue;
      }
      co_return true;
    }
    co_return false;
  }
}

kj::Promise<void> DrainRun::cordon(kj::StringPtr node) {
  lines.node(node, co_await change(node, userCordon) ? "cordoned" : "already cordoned");
}

kj::Promise<void> DrainRun::uncordon(kj::StringPtr node) {
  lines.node(node, co_await change(node, userUncordon) ? "uncordoned" : "already uncordoned");
}

kj::Promise<kube::DrainPolicy> DrainRun::policyOf(const DrainOptions& options) {
  kube::DrainPolicy policy{
      .daemonSets = options.ignoreDaemonSets ? Choice::kStay : Choice::kRefuse,
      .unmanaged = options.force ? Choice::kLeave : Choice::kRefuse,
      .localData = options.deleteEmptyDirData ? Choice::kLeave : Choice::kRefuse,
      .finishedLeave = true};
  kj::Vector<kj::String> there;
  co_await kubernetes
      .visit(kube::appsResource("daemonsets", "DaemonSet"), "", {},
             [&](const Json& set) { there.add(kube::nameOf(set)); })
      .ignoreResult();
  policy.daemonSetsThere = there.releaseAsArray();
  co_return kj::mv(policy);
}

void DrainRun::warnOf(kj::StringPtr node, const kube::DrainPlan& plan) {
  for (auto& kind : kKinds) {
    kj::Vector<kj::String> pods;
    for (auto& pod : plan.stay) {
      if (pod.kind == kind.kind) pods.add(kj::str(pod.id));
    }
    for (auto& pod : plan.leave) {
      if (pod.kind == kind.kind) pods.add(pod.id());
    }
    if (!pods.empty()) lines.warning(node, kind.warning, pods);
  }
}

kj::Promise<void> DrainRun::drainNode(kj::StringPtr node, const DrainOptions& options) {
  auto field = kj::str("spec.nodeName=", node);
  auto listed = co_await kubernetes.list(kube::coreResource("pods", "Pod"), "",
                                         {.labels = options.podSelector, .fields = field});
  auto policy = co_await policyOf(options);
  auto plan = kube::planDrain(listed.items, policy);
  if (!plan.refused.empty()) fail(ErrorKind::kFailedPrecondition, refusalOf(plan));
  warnOf(node, plan);
  PodsThatLeave pods(clock, lines, node, plan.leave, options.disableEviction);
  if (dryRun) {
    for (auto& pod : plan.leave) {
      pods.requested(pod);
      pods.gone(pod);
    }
    co_return;
  }
  if (!options.disableEviction) {
    auto budgets = co_await readBudgets(kubernetes);
    for (auto i : kj::indices(plan.leave)) {
      pods.setBudgets(i, budgetsOf(budgets, listed.items, plan.leave[i].uid));
    }
  }
  kube::EvictionOptions how{.grace = options.grace, .deletes = options.disableEviction};
  kj::Maybe<kj::Exception> late;
  co_await talos::within(timer, options.timeout,
                         kube::evictPods(timer, kubernetes, plan.leave, how, pods),
                         kj::str("not all pods have left within ", durationText(options.timeout)))
      .catch_([&](kj::Exception&& e) { late = kj::mv(e); });
  KJ_IF_MAYBE (e, late) fail(kindOf(*e), kj::str(messageOf(*e), ": ", pods.remaining()));
  if (pods.anyFailed()) fail(ErrorKind::kFailedPrecondition, pods.remaining());
}

kj::Promise<bool> DrainRun::drain(kj::StringPtr node, const DrainOptions& options) {
  kj::Maybe<kj::Exception> wrong;
  co_await kj::evalNow([&] { return drainNode(node, options); }).catch_([&](kj::Exception&& e) {
    wrong = kj::mv(e);
  });
  KJ_IF_MAYBE (e, wrong) {
    lines.failed(node, messageOf(*e));
    co_return false;
  }
  lines.node(node, "drained");
  co_return true;
}

}  // namespace talos::talosctl
