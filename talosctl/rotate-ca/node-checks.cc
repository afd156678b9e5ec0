#include "talosctl/rotate-ca/node-checks.h"

#include "common/base/fill-list.h"
#include "common/base/resource.h"
#include "common/memory/zeroize.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/kubernetes.capnp.h"
#include "rpc/machine.capnp.h"
#include "talosctl/client/received-bytes.h"

namespace talos::talosctl {
namespace {

constexpr size_t kMostFile = 64u << 10;

// Every node of this version has a config of its API server.
kj::Promise<bool> isDisabled(RemoteRotation& cluster, const RotatedNode& node,
                             kj::StringPtr component) {
  auto own = co_await componentSecrets(cluster, node, component);
  if (own.configVersion > 0 || component == kApiServer) co_return false;
  auto server = co_await componentSecrets(cluster, node, kApiServer);
  co_return server.configVersion > 0;
}

}  // namespace

kj::Promise<ComponentSecrets> componentSecrets(RemoteRotation& cluster, const RotatedNode& node,
                                               kj::StringPtr component) {
  auto got = co_await cluster.answer(
      getResource<rpc::SecretStatusSpec>(co_await cluster.reach(node.address), component));
  auto status = resourceIn<rpc::SecretStatusSpec>(got);
  co_return ComponentSecrets{.version = kj::str(status.getVersion()),
                             .encryptionKeys = textsOf(status.getEncryptionKeys()),
                             .serviceAccountKeys = textsOf(status.getServiceAccountKeys()),
                             .aggregatorCas = textsOf(status.getAggregatorCAs()),
                             .etcdCas = textsOf(status.getEtcdCAs()),
                             .configVersion = status.getConfigVersion()};
}

kj::Promise<Missing> staticPodError(RemoteRotation& cluster, const RotatedNode& node,
                                    kj::StringPtr component, kj::StringPtr secrets) {
  if (co_await isDisabled(cluster, node, component)) co_return nullptr;
  auto kubernetes = co_await cluster.kubernetes(node);
  auto survey =
      co_await cluster.answer<rpc::Kubernetes::SurveyResults>(kubernetes.surveyRequest().send());
  for (auto pod : survey.getSurvey().getPods()) {
    bool his = pod.getNamespace() == "kube-system" && pod.getApp() == component &&
               pod.getNode() == node.name && pod.getMirror();
    if (his && pod.getReady() && pod.getSecretsVersion() == secrets) co_return nullptr;
  }
  co_return kj::str(component, " is not started with its new secrets yet");
}

kj::Promise<Missing> apiServerError(RemoteRotation& cluster, const RotatedNode& node,
                                    JudgeSecrets judge) {
  auto secrets = co_await componentSecrets(cluster, node, kApiServer);
  KJ_IF_MAYBE (error, judge(secrets)) co_return kj::str(*error);
  co_return co_await staticPodError(cluster, node, kApiServer, secrets.version);
}

kj::Promise<bool> isHealthy(RemoteRotation& cluster, const RotatedNode& node,
                            kj::StringPtr service) {
  auto reached = co_await cluster.reach(node.address);
  auto list = reached.servicesRequest().send().getServices().listRequest();
  auto services = co_await cluster.answer<rpc::Services::ListResults>(list.send());
  for (auto one : services.getServices()) {
    if (one.getId() != service) continue;
    co_return one.getState() == rpc::ServiceState::RUNNING&& one.getHealth().getHealthy();
  }
  co_return false;
}

kj::Promise<kj::String> readSmallFile(RemoteRotation& cluster, const RotatedNode& node,
                                      kj::StringPtr path) {
  auto reached = co_await cluster.reach(node.address);
  kj::Vector<char> content;
  KJ_DEFER(zeroize(kj::arrayPtr(content.begin(), content.size())));
  content.reserve(kMostFile);
  auto read = reached.filesRequest().send().getFiles().readRequest();
  read.setPath(path);
  ReceivedBytes received([&](kj::ArrayPtr<const kj::byte> bytes) {
    if (content.size() + bytes.size() <= kMostFile) content.addAll(bytes.asChars());
  });
  read.setSink(received.sink());
  co_await cluster.answer<rpc::Files::ReadResults>(read.send());
  co_return kj::heapString(content.begin(), content.size());
}

}  // namespace talos::talosctl
