// For tests: the Kubernetes of a model node: the answers of kubed, and its control plane's
// components.
#pragma once

#include "common/base/error.h"
#include "common/base/resource.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/node.capnp.h"

namespace talos::talosctl {

struct FakeKubernetes {
  kj::String release;  // release of its components, "1.34.4"; empty: no components
  kj::Maybe<rpc::Survey::Reader> survey;  // answer of kubed
};

class FakeKubernetesServer final : public rpc::Kubernetes::Server {
 public:
  explicit FakeKubernetesServer(FakeKubernetes& node) : node(node) {}

  kj::Promise<void> survey(SurveyContext context) override {
    KJ_IF_MAYBE (known, node.survey) {
      context.getResults().setSurvey(*known);
      return kj::READY_NOW;
    }
    fail(ErrorKind::kFailedPrecondition, "this node is a worker");
  }

 private:
  FakeKubernetes& node;
};

// Fills in the resource from which the node creates this component. Returns false if the requested
// resource is of another type.
inline bool fillPart(const FakeKubernetes& node, rpc::Resources::GetParams::Reader asked,
                     rpc::Resources::GetResults::Builder answer) {
  if (node.release.size() == 0) return false;
  auto type = asked.getKind().getType();
  auto id = asked.getId();
  auto resource = answer.initResource();
  resource.initMetadata().setVersion(1);
  auto image = [&](kj::StringPtr name) {
    return kj::str("registry.k8s.io/", name, ":v", node.release);
  };
  if (type == typeName<rpc::BootstrapStatusSpec>()) {
    resource.getSpec().initAs<rpc::BootstrapStatusSpec>();
  } else if (type == typeName<rpc::KubeletSpecSpec>()) {
    resource.getSpec().initAs<rpc::KubeletSpecSpec>().setImage(image("kubelet"));
  } else if (type == typeName<rpc::ControlPlaneConfigSpec>()) {
    auto spec = resource.getSpec().initAs<rpc::ControlPlaneConfigSpec>();
    if (id == "kube-apiserver") spec.initApiServer().setImage(image(id));
    if (id == "kube-controller-manager") spec.initControllerManager().setImage(image(id));
    if (id == "kube-scheduler") spec.initScheduler().setImage(image(id));
    if (id == "system-manifests") {
      spec.initSystemManifests().setProxyEnabled(true);
      spec.getSystemManifests().setProxyImage(image("kube-proxy"));
    }
  } else {
    return false;
  }
  return true;
}

}  // namespace talos::talosctl
