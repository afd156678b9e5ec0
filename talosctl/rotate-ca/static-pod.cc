#include "talosctl/rotate-ca/static-pod.h"

#include "rpc/kubernetes.capnp.h"

namespace talos::talosctl {

kj::Promise<kj::Maybe<kj::String>> staticPodError(RemoteRotation& cluster, const RotatedNode& node,
                                                  kj::StringPtr component, kj::StringPtr secrets) {
  auto reached = co_await cluster.reach(node.address);
  auto asked = reached.kubernetesRequest().send().getKubernetes();
  auto survey =
      co_await cluster.answer<rpc::Kubernetes::SurveyResults>(asked.surveyRequest().send());
  for (auto pod : survey.getSurvey().getPods()) {
    bool his = pod.getNamespace() == "kube-system" && pod.getApp() == component &&
               pod.getNode() == node.name && pod.getMirror();
    if (his && pod.getReady() && pod.getSecretsVersion() == secrets) co_return nullptr;
  }
  co_return kj::str(component, " is not started with its new secrets yet");
}

}  // namespace talos::talosctl
