#include "talosctl/upgrade-k8s/remote-cluster.h"

#include "common/base/error.h"
#include "common/base/resource.h"
#include "common/config/config.h"
#include "common/memory/zeroize.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "talosctl/client/node-config.h"
#include "talosctl/config/patches.h"
#include "talosctl/kube/connect-kubernetes.h"
#include "talosctl/upgrade-k8s/kube-objects.h"

namespace talos::talosctl {
namespace {

constexpr auto kPullTimeout = 21 * kj::MINUTES;   // the node's own limit is 20
constexpr auto kSurveyAnswer = 35 * kj::SECONDS;  // it may take 30 (kubernetes.capnp)
constexpr kj::StringPtr kSystem = "kube-system"_kj, kProxySet = "kube-proxy"_kj,
                        kFieldManager = "talos"_kj;

using GetAnswer = capnp::Response<rpc::Resources::GetResults>;

// The answer of a node, or its error with its address in front.
template <typename T>
kj::Promise<T> ofNode(Client& client, const NodeState& node, kj::Duration deadline,
                      kj::Promise<T> answer) {
  return within(client.deps.timer, deadline, kj::mv(answer))
      .catch_([address = kj::str(node.address)](kj::Exception&& e) -> kj::Promise<T> {
        return error(kindOf(e), kj::str(address, ": ", messageOf(e)));
      });
}

rpc::Resources::Client resourcesOf(rpc::Node::Client node, bool sensitive) {
  if (sensitive) return node.sensitiveResourcesRequest().send().getResources();
  return node.resourcesRequest().send().getResources();
}

template <typename Spec>
kj::Promise<GetAnswer> get(Client& client, const NodeState& node, kj::StringPtr id, bool sensitive,
                           kj::Duration deadline) {
  co_await client.connect(deadline);
  auto request = resourcesOf(client.node(node.address), sensitive).getRequest();
  request.initKind().setType(typeName<Spec>());
  request.setId(id);
  kj::Promise<GetAnswer> answer = request.send();
  co_return co_await ofNode(client, node, deadline, kj::mv(answer));
}

kj::Promise<RunningConfig> configOf(Client& client, const NodeState& node, kj::Duration deadline) {
  co_await client.connect(deadline);
  co_return co_await ofNode(client, node, deadline, runningConfig(client.node(node.address)));
}

kj::String imageOf(rpc::ControlPlaneConfigSpec::Reader spec) {
  switch (spec.which()) {
    case rpc::ControlPlaneConfigSpec::API_SERVER:
      return kj::str(spec.getApiServer().getImage());
    case rpc::ControlPlaneConfigSpec::CONTROLLER_MANAGER:
      return kj::str(spec.getControllerManager().getImage());
    case rpc::ControlPlaneConfigSpec::SCHEDULER:
      return kj::str(spec.getScheduler().getImage());
    case rpc::ControlPlaneConfigSpec::SYSTEM_MANIFESTS: {
      auto manifests = spec.getSystemManifests();
      return manifests.getProxyEnabled() ? kj::str(manifests.getProxyImage()) : kj::String();
    }
    default:
      return kj::String();
  }
}

kj::StringPtr definitionId(KubernetesPart part) {
  return part == KubernetesPart::kProxy ? "system-manifests"_kj : config::nameOf(part);
}

}  // namespace

kube::KubeClient& RemoteCluster::kubernetes() {
  return *KJ_ASSERT_NONNULL(connection, "read() comes first");
}

kj::Promise<void> RemoteCluster::refuseSelfHosted() {
  NodeState node;
  node.address = kj::str(first);
  auto answer =
      co_await get<rpc::BootstrapStatusSpec>(client, node, "control-plane", false, deadline)
          .then([](GetAnswer&& answer) -> kj::Maybe<GetAnswer> { return kj::mv(answer); },
                [](kj::Exception&& e) -> kj::Maybe<GetAnswer> {
                  if (kindOf(e) == ErrorKind::kNotFound) return nullptr;
                  kj::throwFatalException(kj::mv(e));
                });
  KJ_IF_MAYBE (found, answer) {
    auto spec = found->getResource().getSpec().getAs<rpc::BootstrapStatusSpec>();
    if (!spec.getSelfHostedControlPlane()) co_return;
    fail(
        ErrorKind::kFailedPrecondition,
        kj::str(first,
                ": the control plane is self-hosted, as Talos 0.8 made it; only a control plane of "
                "static pods can be upgraded"));
  }
  fail(ErrorKind::kFailedPrecondition,
       kj::str(first, " has no bootstrapped control plane; use a control-plane node"));
}

kj::Promise<void> RemoteCluster::readNodeState(NodeState& node, bool kubelet) {
  if (node.controlPlane) {
    node.apiServer = (co_await definition(node, KubernetesPart::kApiServer)).image;
    node.controllerManager = (co_await definition(node, KubernetesPart::kControllerManager)).image;
    node.scheduler = (co_await definition(node, KubernetesPart::kScheduler)).image;
    node.proxy = (co_await definition(node, KubernetesPart::kProxy)).image;
  }
  if (kubelet) {
    auto answer = co_await get<rpc::KubeletSpecSpec>(client, node, "kubelet", false, deadline);
    auto spec = answer.getResource().getSpec().getAs<rpc::KubeletSpecSpec>();
    node.kubelet = kj::str(spec.getImage());
  }
  if (!node.controlPlane && !kubelet) co_return;
  auto running = co_await configOf(client, node, deadline);
  KJ_DEFER(zeroize(running.document));
  node.persists = config::parse(running.document, "the node's config").get().getPersist();
}

kj::Promise<kj::Maybe<kj::String>> RemoteCluster::proxyImage() {
  try {
    auto set = co_await kubernetes().get(kube::appsResource("daemonsets", "DaemonSet"), kSystem,
                                         kProxySet);
    co_return proxyImageOf(set);
  } catch (...) {
    auto e = kj::getCaughtExceptionAsKj();
    if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
    co_return nullptr;
  }
}

kj::Promise<ClusterState> RemoteCluster::read(bool workers) {
  co_await refuseSelfHosted();
  connection = co_await connectKubernetes(
      client, first, {.server = server, .orEndpoint = server.size() == 0}, deadline);
  ClusterState state;
  auto listed = co_await kubernetes().list(kube::coreResource("nodes", "Node", false));
  for (auto& node : listed.items) state.nodes.add(readNode(node));
  kj::Vector<kj::Promise<void>> waits;
  for (auto& node : state.nodes) waits.add(readNodeState(node, workers));
  co_await kj::joinPromises(waits.releaseAsArray());
  state.proxyImage = co_await proxyImage();
  co_return kj::mv(state);
}

kj::Promise<void> RemoteCluster::pull(const NodeState& node, kj::StringPtr image) {
  co_await client.connect(deadline);
  auto containers = client.node(node.address).containersRequest().send().getContainers();
  auto request = containers.pullRequest();
  request.setImage(image);
  kj::Promise<void> answer = request.send().ignoreResult();
  co_await within(client.deps.timer, kPullTimeout, kj::mv(answer));
}

kj::Promise<void> RemoteCluster::setImages(const NodeState& node,
                                           kj::ArrayPtr<const ImageChange* const> changes,
                                           bool rehearsal) {
  auto running = co_await configOf(client, node, deadline);
  kj::Vector<Patch> patches;
  for (auto change : changes) {
    patches.add(Patch{kj::str("the patch of ", imageKey(change->part)),
                      imagePatch(change->part, change->image)});
  }
  kj::String patched;
  KJ_DEFER({
    zeroize(running.document);
    zeroize(patched);
  });
  patched = applyPatches(running.document, kj::str("the config of ", node.address), patches);
  if (patched == running.document) co_return;
  auto call = applyCall(client.node(node.address), patched, running.version,
                        rpc::ApplyMode::NO_REBOOT, rehearsal);
  kj::Promise<void> answer = call.send().ignoreResult();
  co_await ofNode(client, node, deadline, kj::mv(answer));
}

kj::Promise<PodDefinition> RemoteCluster::definition(const NodeState& node, KubernetesPart part) {
  auto answer =
      co_await get<rpc::ControlPlaneConfigSpec>(client, node, definitionId(part), true, deadline);
  auto resource = answer.getResource();
  co_return PodDefinition{imageOf(resource.getSpec().getAs<rpc::ControlPlaneConfigSpec>()),
                          resource.getMetadata().getVersion()};
}

kj::Promise<kj::Maybe<PodState>> RemoteCluster::pod(const NodeState& node, KubernetesPart part) {
  auto labels = kj::str("k8s-app=", config::nameOf(part));
  auto fields = kj::str("spec.nodeName=", node.name);
  auto listed = co_await kubernetes().list(kube::coreResource("pods", "Pod"), kSystem,
                                           {.labels = labels, .fields = fields});
  if (listed.items.empty()) co_return nullptr;
  co_return readPod(listed.items[0]);
}

kj::Promise<kj::String> RemoteCluster::apiServerRelease(const NodeState& node) {
  using Answer = capnp::Response<rpc::Kubernetes::SurveyResults>;
  co_await client.connect(deadline);
  auto asked = client.node(node.address).kubernetesRequest().send().getKubernetes();
  kj::Promise<Answer> answer = asked.surveyRequest().send();
  auto survey = co_await ofNode(client, node, kSurveyAnswer, kj::mv(answer));
  co_return kj::str(survey.getSurvey().getVersion());
}

kj::Promise<KubeletState> RemoteCluster::kubelet(const NodeState& node) {
  co_return readKubelet(
      co_await kubernetes().get(kube::coreResource("nodes", "Node", false), "", node.name));
}

kj::Promise<void> RemoteCluster::setDaemonSetImage(kj::StringPtr image) {
  co_await kubernetes()
      .patch(kube::Patch::kStrategic, kube::appsResource("daemonsets", "DaemonSet"), kSystem,
             kProxySet, proxyImagePatch(image), kFieldManager)
      .ignoreResult();
}

kj::Promise<DaemonSetState> RemoteCluster::daemonSet() {
  co_return readDaemonSet(
      co_await kubernetes().get(kube::appsResource("daemonsets", "DaemonSet"), kSystem, kProxySet));
}

}  // namespace talos::talosctl
