// PodDisruptionBudgets and the pods that they are about, as a drain meets them: only pods that a
// drain evicts count (drain-plan.h), so none of a static pod or of a DaemonSet. Pure but for
// budgetsKind(). Objects are foreign, as in survey.h; of a pod nothing is kept but the names of it
// and of its node, and of those at most so many for a budget.
#pragma once

#include "common/kube/kube-client.h"
#include "rpc/kubernetes.capnp.h"

namespace talos::kube {

constexpr size_t kMostBudgets = 500, kMostPodsOfBudget = 200;

// Where the server has them: in policy/v1, before 1.21 in policy/v1beta1.
kj::Promise<Resource> budgetsKind(KubeClient& client);
// `version`: of the API that the budget was read from.
bool isAbout(const Json& budget, kj::StringPtr version, const Json& pod);

class DisruptionBudgets {
 public:
  // Before pods are added. `version`: of the API that it was read from; before v1 an empty selector
  // was that of no pod.
  void addBudget(const Json& budget, kj::StringPtr version);
  void addPod(const Json& pod);
  // Sorted by namespace and name.
  void fill(capnp::List<rpc::Survey::Budget>::Builder out) const;
  size_t size() const { return budgets.size(); }
  size_t leftOut() const { return tooMany; }  // budgets

 private:
  struct Pod {
    kj::String name, node;
  };
  struct Budget {
    kj::String nameSpace, name;
    Json selector;  // null: of no pod
    uint32_t allowed = 0;
    kj::Vector<Pod> pods;
    uint32_t more = 0;
  };
  kj::Vector<Budget> budgets;
  size_t tooMany = 0;
};

}  // namespace talos::kube
