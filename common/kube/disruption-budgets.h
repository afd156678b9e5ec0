// PodDisruptionBudgets and the pods that they select, from the view of a drain: only pods that a
// drain evicts count (drain-plan.h), so no static pods and no pods of a DaemonSet. Pure but for
// budgetsKind(). Objects are foreign, as in survey.h. Of a pod only its name and its node's name
// are kept, at most so many of each for a budget.
#pragma once

#include "common/kube/kube-client.h"
#include "rpc/kubernetes.capnp.h"

namespace talos::kube {

constexpr size_t kMostBudgets = 500, kMostPodsOfBudget = 200;

// Returns the kind that the server has: in policy/v1, before 1.21 in policy/v1beta1.
kj::Promise<Resource> budgetsKind(KubeClient& client);
// Returns true if the budget selects the pod. `version`: of the API from which the budget was read.
bool appliesTo(const Json& budget, kj::StringPtr version, const Json& pod);

class DisruptionBudgets {
 public:
  // Adds a budget; call it before pods are added. `version`: of the API from which the budget was
  // read; before v1 an empty selector selected no pod.
  void addBudget(const Json& budget, kj::StringPtr version);
  void addPod(const Json& pod);
  // Writes the budgets sorted by namespace and name.
  void fill(capnp::List<rpc::Survey::Budget>::Builder out) const;
  size_t size() const { return budgets.size(); }
  size_t leftOut() const { return tooMany; }  // number of budgets that were left out

 private:
  struct Pod {
    kj::String name, node;
  };
  struct Budget {
    kj::String nameSpace, name;
    Json selector;  // null if it selects no pod
    uint32_t allowed = 0;
    kj::Vector<Pod> pods;
    uint32_t more = 0;
  };
  kj::Vector<Budget> budgets;
  size_t tooMany = 0;
};

}  // namespace talos::kube
