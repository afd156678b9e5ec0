#include "common/kube/disruption-budgets.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/kube/drain-plan.h"

namespace talos::kube {
namespace {

constexpr size_t kMostName = 253;  // of an object

kj::String shortName(kj::StringPtr text) {
  return text.size() <= kMostName ? kj::str(text) : kj::str(text.slice(0, kMostName), "…");
}

kj::Maybe<kj::StringPtr> labelOf(const Json& pod, kj::StringPtr key) {
  KJ_IF_MAYBE (value, find(pod, {"metadata", "labels", key})) {
    if (value->is_string()) return toPtr(value->get_ref<const std::string&>());
  }
  return nullptr;
}

bool holds(const Json& expression, const Json& pod) {
  auto label = labelOf(pod, textAt(expression, {"key"}));
  auto how = textAt(expression, {"operator"});
  if (how == "Exists") return label != nullptr;
  if (how == "DoesNotExist") return label == nullptr;
  bool listed = false;
  KJ_IF_MAYBE (value, label) {
    for (auto item : itemsAt(expression, {"values"})) {
      listed = listed || (item->is_string() && textAt(*item, {}) == *value);
    }
  }
  return how == "In" ? listed : how == "NotIn" && !listed;
}

bool selects(const Json& selector, const Json& pod) {
  if (!selector.is_object()) return false;
  KJ_IF_MAYBE (labels, find(selector, {"matchLabels"})) {
    if (labels->is_object()) {
      for (auto& [key, value] : labels->items()) {
        auto label = labelOf(pod, toPtr(key));
        if (label.orDefault(nullptr) != textAt(value, {}) || label == nullptr) return false;
      }
    }
  }
  for (auto expression : itemsAt(selector, {"matchExpressions"})) {
    if (!holds(*expression, pod)) return false;
  }
  return true;
}

// Returns nullptr if the budget selects no pod.
kj::Maybe<const Json&> selectorOf(const Json& budget, kj::StringPtr version) {
  KJ_IF_MAYBE (selector, find(budget, {"spec", "selector"})) {
    if (!selector->empty() || version == "v1") return *selector;
  }
  return nullptr;
}

}  // namespace

kj::Promise<Resource> budgetsKind(KubeClient& client) {
  constexpr kj::StringPtr kBudget = "PodDisruptionBudget"_kj;
  try {
    co_return co_await client.resource("policy/v1", kBudget);
  } catch (...) {
    auto e = kj::getCaughtExceptionAsKj();
    if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
  }
  co_return co_await client.resource("policy/v1beta1", kBudget);
}

bool appliesTo(const Json& budget, kj::StringPtr version, const Json& pod) {
  if (textAt(budget, {"metadata", "namespace"}) != textAt(pod, {"metadata", "namespace"})) {
    return false;
  }
  KJ_IF_MAYBE (selector, selectorOf(budget, version)) return selects(*selector, pod);
  return false;
}

void DisruptionBudgets::addBudget(const Json& object, kj::StringPtr version) {
  if (budgets.size() == kMostBudgets) {
    ++tooMany;
    return;
  }
  auto& budget = budgets.add();
  budget.nameSpace = shortName(textAt(object, {"metadata", "namespace"}));
  budget.name = shortName(textAt(object, {"metadata", "name"}));
  auto allowed = numberAt(object, {"status", "disruptionsAllowed"});
  budget.allowed =
      static_cast<uint32_t>(kj::max(int64_t(0), kj::min(allowed, int64_t(UINT32_MAX))));
  KJ_IF_MAYBE (selector, selectorOf(object, version)) budget.selector = *selector;
}

void DisruptionBudgets::addPod(const Json& pod) {
  auto node = textAt(pod, {"spec", "nodeName"});
  if (node.size() == 0 || !isEvicted(pod)) return;
  auto space = textAt(pod, {"metadata", "namespace"});
  for (auto& budget : budgets) {
    if (budget.nameSpace != space || !selects(budget.selector, pod)) continue;
    if (budget.pods.size() == kMostPodsOfBudget) {
      ++budget.more;
      continue;
    }
    budget.pods.add(Pod{shortName(textAt(pod, {"metadata", "name"})), shortName(node)});
  }
}

void DisruptionBudgets::fill(capnp::List<rpc::Survey::Budget>::Builder out) const {
  kj::Vector<const Budget*> sorted;
  for (auto& budget : budgets) sorted.add(&budget);
  std::sort(sorted.begin(), sorted.end(), [](auto a, auto b) {
    return a->nameSpace == b->nameSpace ? a->name < b->name : a->nameSpace < b->nameSpace;
  });
  for (auto i : kj::indices(sorted)) {
    auto& budget = *sorted[i];
    out[i].setNamespace(budget.nameSpace);
    out[i].setName(budget.name);
    out[i].setAllowed(budget.allowed);
    out[i].setMore(budget.more);
    auto pods = out[i].initPods(budget.pods.size());
    for (auto p : kj::indices(budget.pods)) {
      pods[p].setName(budget.pods[p].name);
      pods[p].setNode(budget.pods[p].node);
    }
  }
}

}  // namespace talos::kube
