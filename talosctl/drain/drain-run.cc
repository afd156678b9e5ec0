#include "talosctl/drain/drain-run.h"

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/kube/disruption-budgets.h"
#include "common/net/ip.h"
#include "common/text/texts.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/rollout/attempts.h"

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
  co_await failureOf([&]() -> kj::Promise<void> {
    auto kind = co_await kube::budgetsKind(kubernetes);
    budgets.version = kj::str(kind.version);
    budgets.all = (co_await kubernetes.list(kind)).items;
  });
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

// The pods that leave a node in a drain: the state of each, the PodDisruptionBudgets that apply to
// it, and the time of its first refusal. Prints each change.
class PodsThatLeave final : public kube::EvictionListener {
 public:
  // All arguments must outlive the object. `pods`: the plan's pods; `deletes` as in
  // EvictionOptions.
  PodsThatLeave(const kj::Clock& clock, DrainLines& lines, kj::StringPtr node,
                kj::ArrayPtr<const kube::LeavingPod> pods, bool deletes);
  KJ_DISALLOW_COPY_AND_MOVE(PodsThatLeave);

  // Sets the "namespace/name" of the budgets that apply to the pod at this index of the plan.
  void setBudgets(size_t index, kj::Vector<kj::String> names);

  // Describes the pods that have not left, with reasons; empty if all have left.
  kj::String remaining() const;
  bool anyFailed() const;

  void requested(const kube::LeavingPod& pod) override;
  void refused(const kube::LeavingPod& pod, kj::StringPtr message) override;
  void ending(const kube::LeavingPod& pod) override;
  void gone(const kube::LeavingPod& pod) override;
  void failed(const kube::LeavingPod& pod, kj::StringPtr error) override;

 private:
  enum class State { kWaiting, kRefused, kEnding, kGone, kFailed };
  struct Pod {
    State state = State::kWaiting;
    kj::Vector<kj::String> budgets;
    kj::Maybe<kj::Date> since = nullptr;  // time of the first refusal
    kj::String message;                   // newest message of the server
  };
  const kj::Clock& clock;
  DrainLines& lines;
  kj::StringPtr node;
  kj::ArrayPtr<const kube::LeavingPod> plan;
  bool deletes;
  kj::Array<Pod> pods;  // in the order of the plan

  Pod& at(const kube::LeavingPod& pod);
  kj::String refusalOf(const Pod& pod) const;
  kj::String stateOf(size_t index) const;
  void showProgress();
};

PodsThatLeave::PodsThatLeave(const kj::Clock& clock, DrainLines& lines, kj::StringPtr node,
                             kj::ArrayPtr<const kube::LeavingPod> pods, bool deletes)
    : clock(clock),
      lines(lines),
      node(node),
      plan(pods),
      deletes(deletes),
      pods(kj::heapArray<Pod>(pods.size())) {}

void PodsThatLeave::setBudgets(size_t index, kj::Vector<kj::String> names) {
  pods[index].budgets = kj::mv(names);
}

PodsThatLeave::Pod& PodsThatLeave::at(const kube::LeavingPod& pod) {
  return pods[&pod - plan.begin()];
}

// Returns "PodDisruptionBudget a/web, refused since 2026-11-20T12:07:35Z (35s)".
kj::String PodsThatLeave::refusalOf(const Pod& pod) const {
  kj::String times;
  KJ_IF_MAYBE (since, pod.since) {
    times = kj::str("refused since ", dateText(*since), " (",
                    age(nanoseconds(*since), nanoseconds(clock.now())), ")");
  }
  if (pod.budgets.empty()) return times;
  auto kind = pod.budgets.size() == 1 ? "PodDisruptionBudget "_kj : "PodDisruptionBudgets "_kj;
  return kj::str(kind, kj::strArray(pod.budgets, ", "), ", ", times);
}

kj::String PodsThatLeave::stateOf(size_t index) const {
  auto& pod = pods[index];
  switch (pod.state) {
    case State::kRefused:
      return kj::str(plan[index].id(), " (", refusalOf(pod), ")");
    case State::kEnding:
      return kj::str(plan[index].id(), " (terminating)");
    case State::kFailed:
      return kj::str(plan[index].id(), " (", pod.message, ")");
    default:
      return plan[index].id();
  }
}

kj::String PodsThatLeave::remaining() const {
  kj::Vector<kj::String> parts;
  for (auto i : kj::indices(pods)) {
    if (pods[i].state != State::kGone) parts.add(stateOf(i));
  }
  return kj::strArray(parts, ", ");
}

bool PodsThatLeave::anyFailed() const {
  for (auto& pod : pods) {
    if (pod.state == State::kFailed) return true;
  }
  return false;
}

void PodsThatLeave::showProgress() {
  size_t left = 0;
  for (auto& pod : pods) left += pod.state == State::kGone;
  auto rest = remaining();
  lines.progress(node, kj::str(left, " of ", pods.size(), " pods have left",
                               rest.size() > 0 ? "; waiting for " : "", rest));
}

void PodsThatLeave::requested(const kube::LeavingPod& pod) {
  auto id = pod.id();
  lines.pod(node, id, deletes ? "deleting"_kj : "evicting"_kj,
            kj::str(deletes ? "deleting pod " : "evicting pod ", id));
  showProgress();
}

void PodsThatLeave::refused(const kube::LeavingPod& pod, kj::StringPtr message) {
  auto& state = at(pod);
  bool fresh = state.state != State::kRefused || state.message != message;
  state.state = State::kRefused;
  state.message = kj::str(message);
  if (state.since == nullptr) state.since = clock.now();
  if (fresh) {
    auto budgets = kube::Json::array();
    for (auto& budget : state.budgets) budgets.push_back(budget.cStr());
    kube::Json more{{"message", message.cStr()},
                    {"since", dateText(KJ_ASSERT_NONNULL(state.since)).cStr()},
                    {"budgets", kj::mv(budgets)}};
    lines.pod(node, pod.id(), "refused",
              kj::str("error when evicting pods/\"", pod.name, "\" -n \"", pod.nameSpace,
                      "\" (will retry after ", kube::kEvictionPause / kj::SECONDS, "s): ", message,
                      "; ", refusalOf(state)),
              kj::mv(more));
  }
  showProgress();
}

void PodsThatLeave::ending(const kube::LeavingPod& pod) {
  at(pod).state = State::kEnding;
  lines.pod(node, pod.id(), "terminating",
            pod.ending ? kj::str("pod ", pod.id(), " is terminating") : kj::String());
  showProgress();
}

void PodsThatLeave::gone(const kube::LeavingPod& pod) {
  at(pod).state = State::kGone;
  auto result = deletes ? "deleted"_kj : "evicted"_kj;
  lines.pod(node, pod.id(), result, kj::str("pod/", pod.name, " ", result));
  showProgress();
}

void PodsThatLeave::failed(const kube::LeavingPod& pod, kj::StringPtr error) {
  auto& state = at(pod);
  state.state = State::kFailed;
  state.message = kj::str(error);
  lines.pod(node, pod.id(), "failed", kj::String(), {{"message", error.cStr()}});
  showProgress();
}

}  // namespace

void DrainLines::event(kj::StringPtr kind, kj::StringPtr node, kube::Json more) {
  kube::Json out{{"event", kind.cStr()}, {"node", node.cStr()}};
  if (dryRun) out["dryRun"] = true;
  out.update(more);
  RolloutLines::event(out);
}

void DrainLines::node(kj::StringPtr node, kj::StringPtr result) {
  event("node", node, {{"result", result.cStr()}});
  line(kj::str("node/", node, " ", result, dryRun ? " (dry run)" : ""));
}

void DrainLines::failed(kj::StringPtr node, kj::StringPtr error) {
  event("node", node, {{"result", "failed"}, {"message", error.cStr()}});
  note(kj::str("error: unable to drain node \"", node, "\": ", error));
}

void DrainLines::warning(kj::StringPtr node, kj::StringPtr text,
                         kj::ArrayPtr<const kj::String> pods) {
  auto list = kube::Json::array();
  for (auto& pod : pods) list.push_back(pod.cStr());
  event("warning", node, {{"message", text.cStr()}, {"pods", kj::mv(list)}});
  note(kj::str("Warning: ", text, ": ", kj::strArray(pods, ", ")));
}

void DrainLines::pod(kj::StringPtr node, kj::StringPtr pod, kj::StringPtr result,
                     kj::StringPtr line, kube::Json more) {
  kube::Json out{{"pod", pod.cStr()}, {"result", result.cStr()}};
  out.update(more);
  event("pod", node, kj::mv(out));
  if (line.size() > 0 && !console.drawsOnErr()) {
    note(kj::str(line, dryRun ? " (dry run)" : ""));
  }
}

void DrainLines::progress(kj::StringPtr node, kj::StringPtr text) {
  if (!console.drawsOnErr()) return;
  if (names.size() == 0 || names[0] != node) {
    names = kj::arr(kj::str(node));
    live = kj::heap<Progress>(console, names);
  }
  KJ_ASSERT_NONNULL(live)->set(0, text);
}

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
  for (auto& one : named) addOnce(names, nodeNamed(listed.items, one));
  co_return kj::mv(names);
}

// Returns false if there was nothing to change.
kj::Promise<bool> DrainRun::change(kj::StringPtr node, Plan plan) {
  for (unsigned conflicts = 0;;) {
    auto object = co_await kubernetes.get(nodeResource(), "", node);
    auto planned = plan(object);
    KJ_IF_MAYBE (patch, planned) {
      if (dryRun) co_return true;
      auto wrong = co_await failureOf([&]() -> kj::Promise<void> {
        co_await kubernetes.patch(kube::Patch::kMerge, nodeResource(), "", node, *patch, kManager);
      });
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
  auto late = co_await failureOf([&] {
    return talos::within(timer, options.timeout,
                         kube::evictPods(timer, kubernetes, plan.leave, how, pods),
                         kj::str("not all pods have left within ", durationText(options.timeout)));
  });
  KJ_IF_MAYBE (e, late) fail(kindOf(*e), kj::str(messageOf(*e), ": ", pods.remaining()));
  if (pods.anyFailed()) fail(ErrorKind::kFailedPrecondition, pods.remaining());
}

kj::Promise<bool> DrainRun::drain(kj::StringPtr node, const DrainOptions& options) {
  auto wrong = co_await failureOf([&] { return drainNode(node, options); });
  KJ_IF_MAYBE (e, wrong) {
    lines.failed(node, messageOf(*e));
    co_return false;
  }
  lines.node(node, "drained");
  co_return true;
}

kj::Promise<kj::Own<NodeRemoval>> NodeRemoval::find(kube::KubeClient& kubernetes,
                                                    kj::ArrayPtr<const kj::String> nodes) {
  auto removal = kj::heap<NodeRemoval>(kubernetes, nodes.size());
  auto listed = co_await kubernetes.list(nodeResource());
  for (auto& node : nodes) {
    auto name = nodeNamed(listed.items, node);
    for (auto& object : listed.items) {
      if (textAt(object, {"metadata", "name"}) != name) continue;
      removal->found.add(Found{kj::mv(name), kj::str(textAt(object, {"metadata", "uid"}))});
      break;
    }
  }
  co_return kj::mv(removal);
}

kj::Promise<void> NodeRemoval::remove(size_t index) {
  auto& node = found[index];
  auto wrong = co_await failureOf([&]() -> kj::Promise<void> {
    co_await kubernetes.remove(nodeResource(), "", node.name, kube::Version{node.uid, ""});
  });
  KJ_IF_MAYBE (e, wrong) {
    // The object is gone, and another one has its name.
    if (kindOf(*e) == ErrorKind::kConflict) co_return;
    fail(kindOf(*e), kj::str("the node is reset, but its object in Kubernetes was not removed: ",
                             messageOf(*e), "; kubectl delete node ", node.name));
  }
}

}  // namespace talos::talosctl
