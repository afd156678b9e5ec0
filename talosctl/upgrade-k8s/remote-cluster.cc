#include "talosctl/upgrade-k8s/remote-cluster.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/kube/bootstrap-token.h"
#include "common/memory/zeroize.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "talosctl/client/long-calls.h"
#include "talosctl/rollout/attempts.h"
#include "talosctl/rollout/rollout-flags.h"
#include "talosctl/upgrade-k8s/kube-objects.h"

namespace talos::talosctl {
namespace {

constexpr auto kPullTimeout = 21 * kj::MINUTES;  // the node's own limit is 20 minutes
constexpr auto kSilence = 5 * kj::SECONDS;  // silence of an API server that may not be reachable
constexpr auto kSurveyAnswer = 35 * kj::SECONDS;  // the survey may take 30 s (kubernetes.capnp)
constexpr kj::StringPtr kSystem = "kube-system"_kj, kProxySet = "kube-proxy"_kj,
                        kFieldManager = "talos"_kj, kMetrics = "/metrics"_kj;

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

kj::Vector<Patch> patchesOf(const NodeState& node, kj::ArrayPtr<const ImageChange* const> changes) {
  kj::Vector<Patch> patches;
  for (auto change : changes) {
    bool inDocument = node.inDocuments.contains(change->part);
    auto where = inDocument ? imageDocument(change->part) : imageKey(change->part);
    patches.add(Patch{kj::str("the patch of ", where),
                      imagePatch(change->part, change->image, inDocument)});
  }
  return patches;
}

// Fails when `count` has not grown for kSilence: metrics of a large cluster take a while.
kj::Promise<void> untilSilent(kj::Timer& timer, const size_t& count) {
  for (size_t seen = 0;; seen = count) {
    co_await timer.afterDelay(kSilence);
    if (count == seen) fail(ErrorKind::kDeadlineExceeded, kj::str("no answer within ", kSilence));
  }
}

}  // namespace

kube::KubeClient& RemoteCluster::kubernetes() {
  return *KJ_ASSERT_NONNULL(connection, "read() comes first");
}

kj::Promise<void> RemoteCluster::refuseSelfHosted() {
  auto selfHosted = co_await calls.selfHosted(first);
  KJ_IF_MAYBE (is, selfHosted) {
    if (!*is) co_return;
    fail(
        ErrorKind::kFailedPrecondition,
        kj::str(first,
                ": the control plane is self-hosted, as Talos 0.8 made it; only one of static pods "
                "can be upgraded: convert it first, with \"talosctl convert-k8s\""));
  }
  fail(ErrorKind::kFailedPrecondition,
       kj::str(first, " has no bootstrapped control plane; use a control-plane node"));
}

kj::Promise<void> RemoteCluster::readNodeState(NodeState& node, bool kubelet) {
  if (node.controlPlane) {
    // A node whose config disables the part has no definition of it.
    auto imageIfRun = [&](KubernetesPart part) -> kj::Promise<kj::String> {
      auto found = co_await ifFound(definition(node, part));
      KJ_IF_MAYBE (one, found) co_return kj::mv(one->image);
      co_return kj::String();
    };
    node.apiServer = (co_await definition(node, KubernetesPart::kApiServer)).image;
    node.controllerManager = co_await imageIfRun(KubernetesPart::kControllerManager);
    node.scheduler = co_await imageIfRun(KubernetesPart::kScheduler);
    node.proxy = (co_await definition(node, KubernetesPart::kProxy)).image;
  }
  if (kubelet) {
    auto answer = co_await calls.get<rpc::KubeletSpecSpec>(node.address, "kubelet");
    node.kubelet = kj::str(resourceIn<rpc::KubeletSpecSpec>(answer).getImage());
  }
  if (!node.controlPlane && !kubelet) co_return;
  auto running = co_await calls.config(node.address);
  KJ_DEFER(zeroize(running.document));
  auto read = config::parse(running.document, "the node's config");
  node.persists = read.get().getPersist();
  for (auto part : {KubernetesPart::kApiServer, KubernetesPart::kControllerManager,
                    KubernetesPart::kScheduler, KubernetesPart::kProxy, KubernetesPart::kKubelet}) {
    for (auto kind : read.get().getDocuments()) {
      if (kind == imageDocument(part)) node.inDocuments.insert(part);
    }
  }
}

kj::Promise<kj::Maybe<kj::String>> RemoteCluster::proxyImage() {
  auto set = co_await ifFound(
      kubernetes().get(kube::appsResource("daemonsets", "DaemonSet"), kSystem, kProxySet));
  co_return set.map([](kube::Json& found) { return proxyImageOf(found); });
}

kj::Promise<ClusterState> RemoteCluster::read(bool workers) {
  co_await refuseSelfHosted();
  connection =
      co_await connectKubernetes(calls.client, first, kubernetesRoute(server), calls.deadline);
  ClusterState state;
  auto listed = co_await kubernetes().list(kube::coreResource("nodes", "Node", false));
  for (auto& node : listed.items) state.nodes.add(readNode(node));
  kj::Vector<kj::Promise<void>> waits;
  for (auto& node : state.nodes) waits.add(readNodeState(node, workers));
  co_await kj::joinPromises(waits.releaseAsArray());
  state.proxyImage = co_await proxyImage();
  co_return kj::mv(state);
}

kj::Promise<bool> RemoteCluster::askMetrics(const NodeState& node, UpgradeHazards& found) {
  auto failure = co_await failureOf([&]() -> kj::Promise<void> {
    auto one =
        co_await connectKubernetes(calls.client, first, {.server = node.address}, calls.deadline);
    size_t lines = 0;
    auto asked = one->visitLines(kMetrics, [&](kj::StringPtr line) {
      ++lines;
      addRequested(found.apis, line, node.address);
    });
    co_await asked.exclusiveJoin(untilSilent(calls.client.deps.timer, lines));
  });
  KJ_IF_MAYBE (e, failure) {
    found.notes.add(
        kj::str("the API server of ", node.address,
                " was not asked by itself for the API versions that are in use: ", messageOf(*e)));
  }
  co_return failure == nullptr;
}

// Calls all API servers, because each counts its own requests. This host may not reach all of them.
kj::Promise<void> RemoteCluster::findDeprecated(const ClusterState& state, UpgradeHazards& found) {
  kj::Vector<kj::Promise<bool>> asked;
  for (auto& node : state.nodes) {
    if (node.controlPlane) asked.add(askMetrics(node, found));
  }
  auto answered = co_await kj::joinPromises(asked.releaseAsArray());
  if (std::find(answered.begin(), answered.end(), true) != answered.end()) co_return;
  auto take = [&](kj::StringPtr line) { addRequested(found.apis, line, kubernetes().server()); };
  co_await orUnknown(
      kubernetes().visitLines(kMetrics, take),
      "no API server says which API versions are in use; have one answer /metrics"_kj, found);
}

kj::Promise<void> RemoteCluster::findWritten(DeprecatedApi& api) {
  kube::Resource resource{kj::str(api.groupVersion.group), kj::str(api.groupVersion.version),
                          kj::str(api.resource), kj::String(), false};
  KJ_IF_MAYBE (slash, api.resource.findFirst('/')) {
    resource.plural = kj::heapString(api.resource.slice(0, *slash));
  }
  size_t more = 0;
  auto take = [&](const kube::Json& object) {
    auto writers = writersOf(object, api.groupVersion);
    if (writers.empty()) return;
    if (api.objects.size() >= kMostNamedObjects) return void(++more);
    api.objects.add(kj::str(kube::nameOf(object), " by ", kj::strArray(writers, ", ")));
  };
  auto failure = co_await failureOf(
      [&]() -> kj::Promise<void> { co_await kubernetes().visit(resource, "", {}, take); });
  // Some resources cannot be listed: reviews of tokens and of access.
  KJ_IF_MAYBE (e, failure) {
    if (kindOf(*e) == ErrorKind::kUnavailable) kj::throwFatalException(kj::mv(*e));
  }
  if (more > 0) api.objects.add(kj::str(more, " more"));
}

kj::Promise<void> RemoteCluster::findSilent(UpgradeHazards& found) {
  auto system =
      co_await kubernetes().get(kube::coreResource("namespaces", "Namespace", false), "", kSystem);
  kube::Json none = kube::Json::object();
  auto& labels = kube::find(system, {"metadata", "labels"}).orDefault(none);
  for (auto plural : {"validatingwebhookconfigurations", "mutatingwebhookconfigurations"}) {
    kube::Resource resource{kj::str("admissionregistration.k8s.io"), kj::str("v1"), kj::str(plural),
                            kj::String(), false};
    auto listed = co_await kubernetes().list(resource);
    for (auto& configuration : listed.items) {
      for (auto& webhook : neededWebhooks(configuration, labels)) {
        auto endpoints = co_await ifFound(kubernetes().get(
            kube::coreResource("endpoints", "Endpoints"), webhook.nameSpace, webhook.service));
        if (!endpoints.map(hasReadyEndpoint).orDefault(false)) {
          found.webhooks.add(kj::mv(webhook));
        }
      }
    }
  }
}

// A failed check refuses the upgrade, so that only --force continues.
kj::Promise<void> RemoteCluster::orUnknown(kj::Promise<void> look, kj::StringPtr lacking,
                                           UpgradeHazards& found) {
  auto failure = co_await failureOf([&] { return kj::mv(look); });
  KJ_IF_MAYBE (e, failure) found.unknown.add(kj::str(lacking, " (", messageOf(*e), ")"));
}

kj::Promise<UpgradeHazards> RemoteCluster::hazards(const ClusterState& state,
                                                   KubernetesVersion to) {
  UpgradeHazards found;
  co_await orUnknown(findSilent(found), "it is not known whether admission webhooks can answer"_kj,
                     found);
  co_await findDeprecated(state, found);
  KubernetesVersion minor{to.major, to.minor, 0};
  for (auto& api : found.apis) {
    if (api.removedIn <= minor) co_await findWritten(api);
  }
  co_return kj::mv(found);
}

kj::Promise<void> RemoteCluster::pull(const NodeState& node, kj::StringPtr image) {
  auto& timer = calls.client.deps.timer;
  auto reached = co_await calls.reach(node.address);
  auto request = reached.containersRequest().send().getContainers().pullRequest();
  request.setImage(image);
  kj::Promise<void> answer = request.send().ignoreResult();
  co_await within(timer, kPullTimeout, whileAnswering(timer, reached, kj::mv(answer)));
}

kj::Promise<void> RemoteCluster::setImages(const NodeState& node,
                                           kj::ArrayPtr<const ImageChange* const> changes,
                                           bool rehearsal) {
  return calls.patchConfig(node.address, patchesOf(node, changes), rehearsal);
}

kj::Promise<PodDefinition> RemoteCluster::definition(const NodeState& node, KubernetesPart part) {
  auto answer =
      co_await calls.get<rpc::ControlPlaneConfigSpec>(node.address, definitionId(part), true);
  auto config = resourceIn<rpc::ControlPlaneConfigSpec>(answer);
  co_return PodDefinition{imageOf(config), config.version()};
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
  auto reached = co_await calls.reach(node.address);
  auto asked = reached.kubernetesRequest().send().getKubernetes();
  kj::Promise<Answer> answer = asked.surveyRequest().send();
  auto survey = co_await calls.answer(node.address, kj::mv(answer), kSurveyAnswer);
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

kj::Promise<kj::Maybe<kj::Vector<kube::ManifestObject>>> RemoteCluster::manifests(
    const NodeState& node, kj::ArrayPtr<const ImageChange* const> changes) {
  auto texts = co_await calls.manifests(node.address, patchesOf(node, changes));
  if (texts.empty()) co_return nullptr;
  kj::Vector<kube::ManifestText> manifests;
  for (auto& one : texts) manifests.add(kube::ManifestText{one.id, one.objects});
  // The bootstrap token is left out: it expires, and kubed renews it.
  kj::Vector<kube::ManifestObject> objects;
  for (auto& one : kube::objectsOf(kj::mv(manifests), kube::kHiddenTokenSecret)) {
    if (kube::textAt(one.object, {"type"}) != kube::kTokenType) objects.add(kj::mv(one));
  }
  co_return kj::mv(objects);
}

kj::Promise<ObjectChange> RemoteCluster::changeObject(const kube::ManifestObject& object,
                                                      bool rehearsal) {
  return talosctl::changeObject(kubernetes(), object, rehearsal);
}

kj::Promise<kj::String> RemoteCluster::rollout(const kube::ManifestObject& object) {
  auto resource = co_await kubernetes().resource(object.apiVersion(), object.kind());
  co_return missingOfRollout(
      co_await kubernetes().get(resource, object.nameSpace(), object.name()));
}

}  // namespace talos::talosctl
