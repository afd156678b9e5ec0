#include "talosctl/drain/pods-that-leave.h"

#include "common/base/date.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {

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

}  // namespace talos::talosctl
