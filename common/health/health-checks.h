// Checks of `talosctl health`, in their order. Pure: each turns observations into passed, skipped,
// or the text of what it waits for.
#pragma once

#include <kj/time.h>

#include "common/health/node-facts.h"
#include "rpc/kubernetes.capnp.h"

namespace talos {

enum class CheckState { kPassed, kSkipped, kWaiting };
struct CheckResult {
  CheckState state;
  kj::String text;  // what the check waits for, or why it is skipped; may be empty otherwise

  static CheckResult passed() { return {CheckState::kPassed, kj::String()}; }
  static CheckResult skipped(kj::String why = {}) { return {CheckState::kSkipped, kj::mv(why)}; }
  static CheckResult waiting(kj::String text) { return {CheckState::kWaiting, kj::mv(text)}; }
};
// Returns the text after "waiting for etcd to be healthy: ": OK, SKIP, "..." or what the check
// waits for.
kj::StringPtr resultText(const CheckResult& result);

// Nodes that a cluster should have, by their addresses.
struct ClusterNodes {
  kj::Vector<kj::String> controlPlane, workers;
  kj::Vector<kj::String> all() const;  // control-plane nodes first
};

struct HealthView {
  const ClusterNodes& expected;
  // Facts about the nodes that the check is about, in the order of `expected`.
  kj::ArrayPtr<const NodeFacts> nodes = nullptr;
  // Expected nodes that need not be in Kubernetes, because their config keeps them out of it.
  kj::ArrayPtr<const kj::String> unregistered = nullptr;
  // Survey of Kubernetes; if it is nullptr, the next field has the cause.
  kj::Maybe<rpc::Survey::Reader> survey = nullptr;
  kj::StringPtr surveyProblem = "";
};

struct HealthCheck {
  // kComponents: about Kubernetes, and about control-plane nodes if Kubernetes is not enough.
  enum class About { kControlPlane, kAllNodes, kKubernetes, kComponents };
  kj::StringPtr name;  // follows "waiting for "
  kj::Duration limit, interval;
  About about;
  CheckResult (*judge)(const HealthView& view);
};
kj::ArrayPtr<const HealthCheck> healthChecks();

// Returns the next step if the cluster was not bootstrapped yet: the etcd of each of these
// control-plane nodes waits for the bootstrap. nullptr otherwise.
kj::Maybe<kj::String> bootstrapNeeded(kj::ArrayPtr<const NodeFacts> controlPlane);

// Returns the nodes that Kubernetes knows, by their first addresses: the control plane by its
// label.
ClusterNodes discoveredNodes(rpc::Survey::Reader survey);
// Returns `discovered nodes: control plane: ["10.5.0.2"], worker: ["10.5.0.3" "10.5.0.4"]`.
kj::String discoveredLine(const ClusterNodes& nodes);

}  // namespace talos
