// The pods that leave a node in a drain: the state of each, the PodDisruptionBudgets that apply to
// it, and the time of its first refusal. Prints each change.
#pragma once

#include "common/kube/pod-evictor.h"
#include "talosctl/drain/drain-lines.h"

namespace talos::talosctl {

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

}  // namespace talos::talosctl
