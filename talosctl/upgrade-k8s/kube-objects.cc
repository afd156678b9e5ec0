#include "talosctl/upgrade-k8s/kube-objects.h"

#include "common/base/error.h"
#include "common/kube/node-object.h"

namespace talos::talosctl {
namespace {

using kube::Json, kube::textAt, kube::itemsAt, kube::numberAt;

constexpr kj::StringPtr kProxyContainer = "kube-proxy"_kj;

}  // namespace

bool isReady(const Json& object) {
  for (auto condition : itemsAt(object, {"status", "conditions"})) {
    if (textAt(*condition, {"type"}) == "Ready") return textAt(*condition, {"status"}) == "True";
  }
  return false;
}

NodeState readNode(const Json& node) {
  NodeState state;
  state.name = kj::str(textAt(node, {"metadata", "name"}));
  for (auto& address : kube::internalAddressesOf(node, 1)) state.address = kj::mv(address);
  if (state.address.size() == 0) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("node ", state.name, " has no InternalIP in Kubernetes, so it cannot be reached"));
  }
  state.controlPlane = kube::isControlPlane(node);
  state.kubeletVersion = kj::str(textAt(node, {"status", "nodeInfo", "kubeletVersion"}));
  return state;
}

KubeletState readKubelet(const Json& node) {
  return {kj::str(textAt(node, {"status", "nodeInfo", "kubeletVersion"})), isReady(node)};
}

PodState readPod(const Json& pod) {
  PodState state{kj::str(textAt(pod, {"metadata", "annotations", "talos.dev/config-version"})),
                 isReady(pod), kj::String()};
  for (auto container : itemsAt(pod, {"status", "containerStatuses"})) {
    auto reason = textAt(*container, {"state", "waiting", "reason"});
    auto message = textAt(*container, {"state", "waiting", "message"});
    if (reason.size() == 0) continue;
    state.problem = kj::str(reason, message.size() > 0 ? ": " : "", message);
  }
  return state;
}

DaemonSetState readDaemonSet(const Json& set) {
  auto count = [&](kj::StringPtr key) {
    return static_cast<uint64_t>(kj::max(numberAt(set, {"status", key}), int64_t(0)));
  };
  return {.observed = numberAt(set, {"status", "observedGeneration"}) >=
                      numberAt(set, {"metadata", "generation"}),
          .desired = count("desiredNumberScheduled"),
          .updated = count("updatedNumberScheduled"),
          .available = count("numberAvailable"),
          .pods = count("currentNumberScheduled")};
}

kj::String proxyImageOf(const Json& set) {
  for (auto container : itemsAt(set, {"spec", "template", "spec", "containers"})) {
    if (textAt(*container, {"name"}) == kProxyContainer)
      return kj::str(textAt(*container, {"image"}));
  }
  fail(ErrorKind::kFailedPrecondition,
       kj::str("the DaemonSet kube-proxy has no container ", kProxyContainer));
}

Json proxyImagePatch(kj::StringPtr image) {
  Json container{{"name", kProxyContainer.cStr()}, {"image", image.cStr()}};
  return {{"spec", {{"template", {{"spec", {{"containers", Json::array({kj::mv(container)})}}}}}}}};
}

}  // namespace talos::talosctl
