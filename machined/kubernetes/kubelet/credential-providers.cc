#include "machined/kubernetes/kubelet/credential-providers.h"

#include "common/memory/zeroize.h"
#include "common/yaml/yaml-codec.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kConfigGroup = "kubelet.config.k8s.io/"_kj,
                        kRequestGroup = "credentialprovider.kubelet.k8s.io/"_kj;

bool isAsked(config::Kubelet::Reader kubelet, KubernetesVersion version) {
  return kubelet.getCredentialProviderConfig().getProviders().size() > 0 &&
         config::hasCredentialProviders(version);
}

}  // namespace

kj::Vector<kj::String> credentialProviders(config::Kubelet::Reader kubelet,
                                           KubernetesVersion version) {
  kj::Vector<kj::String> names;
  if (!isAsked(kubelet, version)) return names;
  for (auto provider : kubelet.getCredentialProviderConfig().getProviders()) {
    names.add(kj::str(provider.getName()));
  }
  return names;
}

kj::String credentialProviderYaml(config::Kubelet::Reader kubelet, KubernetesVersion version) {
  if (!isAsked(kubelet, version)) return kj::String();
  auto api = has(version, KubeFact::kCredentialProvidersV1) ? "v1"_kj : "v1beta1"_kj;
  SecretMessage message;
  message.setRoot(kubelet.getCredentialProviderConfig());
  auto out = message.getRoot<config::CredentialProviderConfig>();
  if (out.getApiVersion().size() == 0) out.setApiVersion(kj::str(kConfigGroup, api));
  out.setKind("CredentialProviderConfig");
  for (auto provider : out.getProviders()) {
    if (provider.getApiVersion().size() == 0) provider.setApiVersion(kj::str(kRequestGroup, api));
  }
  return codec::writeYaml(out.asReader(), {.empties = codec::Empties::kOmit});
}

}  // namespace talos::machined
