// The checks of `talosctl health`, in their order. Pure: each turns observations into passed,
// skipped, or the text of what it waits for.
#pragma once

#include <kj/time.h>

#include "common/health/node-facts.h"
#include "rpc/kubernetes.capnp.h"

namespace talos {

enum class CheckState { kPassed, kSkipped, kWaiting };
struct CheckResult {
  CheckState state;
  kj::String text;  // what is waited for, or why it is skipped; may be empty otherwise

  static CheckResult passed() { return {CheckState::kPassed, kj::String()}; }
  static CheckResult skipped(kj::String why = {}) { return {CheckState::kSkipped, kj::mv(why)}; }
  static CheckResult waiting(kj::String text) { return {CheckState::kWaiting, kj::mv(text)}; }
};
// The text after "waiting for etcd to be healthy: ": OK, SKIP, "..." or what is waited for.
kj::StringPtr resultText(const CheckResult& result);

// The nodes that a cluster should have, as they are addressed.
struct ClusterNodes {
  kj::Vector<kj::String> controlPlane, workers;
  kj::Vector<kj::String> all() const;  // in this order
};

struct HealthView {
  const ClusterNodes& expected;
  // Of the nodes that the check is about, in the order of `expected`.
  kj::ArrayPtr<const NodeFacts> nodes = nullptr;
  // Of Kubernetes; none: why.
  kj::Maybe<rpc::Survey::Reader> survey = nullptr;
  kj::StringPtr surveyProblem = "";
};

struct HealthCheck {
  enum class About { kControlPlane, kAllNodes, kKubernetes };
  kj::StringPtr name;  // follows "waiting for "
  kj::Duration limit, interval;
  About about;
  CheckResult (*judge)(const HealthView& view);
};
kj::ArrayPtr<const HealthCheck> healthChecks();

// The next step where nobody has made the cluster yet: the etcd of each of these control-plane
// nodes waits for that. None: it is not so.
kj::Maybe<kj::String> bootstrapNeeded(kj::ArrayPtr<const NodeFacts> controlPlane);

// The nodes that Kubernetes knows, by their first addresses: the control plane by its label.
ClusterNodes discoveredNodes(rpc::Survey::Reader survey);
// `discovered nodes: control plane: ["10.5.0.2"], worker: ["10.5.0.3" "10.5.0.4"]`
kj::String discoveredLine(const ClusterNodes& nodes);

}  // namespace talos
