#include "talosctl/rotate-ca/kubernetes-rotation.h"

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "common/tls/authorities.h"
#include "common/tls/public-key.h"
#include "talosctl/rotate-ca/node-checks.h"

namespace talos::talosctl {
namespace {

constexpr kj::StringPtr kClientName = "talosctl-rotate-ca"_kj, kMasters = "system:masters"_kj;
constexpr auto kTrialLifetime = 24 * kj::HOURS, kForgotten = 4 * kj::MINUTES;
// An API server reads the file of its CAs again within a minute, and then adds its CAs.
constexpr auto kReadAgain = 65 * kj::SECONDS;
constexpr kj::StringPtr kKubeletPair = "/var/lib/kubelet/pki/kubelet-client-current.pem"_kj,
                        kKubeletService = "kubelet"_kj;
// Static pods that read their certificates only when they start.
constexpr kj::StringPtr kRestarted[] = {kControllerManager, "kube-scheduler"_kj};

Credentials clientOf(kj::StringPtr authority, kj::StringPtr key) {
  auto made = pki::issue(authority, key,
                         {.commonName = kClientName,
                          .organizations = kj::arr(kj::str(kMasters)),
                          .server = false,
                          .lifetime = kTrialLifetime});
  return {kj::str(authority), kj::mv(made.certificate), kj::mv(made.key)};
}

kj::StringPtr serverName(bool kubelet) {
  return kubelet ? "the kubelet"_kj : "the API server"_kj;
}

}  // namespace

kj::Promise<void> forgetPublished(kj::Timer& timer, kj::Duration needed, kj::Duration pause,
                                  kj::Function<kj::Promise<bool>()> forget) {
  kj::Maybe<kj::TimePoint> absentSince;
  for (auto start = timer.now();;) {
    auto problem = kj::str("it is published still");
    try {
      if (co_await forget()) {
        absentSince = nullptr;
      } else {
        auto since = absentSince.orDefault(timer.now());
        if (timer.now() - since >= needed) co_return;
        absentSince = since;
        problem = kj::str("API servers add it again");
      }
    } catch (const kj::Exception& e) {
      problem = messageOf(e);
    }
    if (timer.now() - start > kForgotten) {
      fail(ErrorKind::kDeadlineExceeded,
           kj::str("no API server accepts the old CA, but it is among those that Kubernetes "
                   "publishes in kube-system/extension-apiserver-authentication; remove it there: ",
                   problem));
    }
    co_await timer.afterDelay(pause);
  }
}

kj::Promise<void> KubernetesRotation::prepare() {
  requireNames();
  newClient = clientOf(rotation.newCa, rotation.newKey);
  if (kj::StringPtr(rotation.oldKey).size() > 0) {
    oldClient = clientOf(rotation.oldCa, rotation.oldKey);
  }
  return kj::READY_NOW;
}

// Returns the node through which `node` is tried: for a worker, the first control-plane node.
const RotatedNode& KubernetesRotation::askedFor(const RotatedNode& node) const {
  return node.controlPlane ? node : nodes[0];
}

kj::Promise<rpc::Kubernetes::Client> KubernetesRotation::kubernetes(const RotatedNode& node) {
  auto reached = co_await cluster.reach(node.address);
  co_return reached.kubernetesRequest().send().getKubernetes();
}

kj::Promise<KubernetesRotation::Trial> KubernetesRotation::tryAt(const RotatedNode& node,
                                                                 bool kubelet,
                                                                 kj::StringPtr authorities,
                                                                 const Credentials& client) {
  auto asked = co_await kubernetes(askedFor(node));
  auto request = asked.tryClientRequest();
  request.setAddress(node.ip);
  request.setKubelet(kubelet);
  request.setAuthority(authorities.asBytes());
  request.setCertificate(client.certificate.asBytes());
  request.setKey(client.key.bytes());
  auto tried = co_await cluster.answer<rpc::Kubernetes::TryClientResults>(request.send());
  Trial trial{.server = pemOf(tried.getServer()), .refused = nullptr};
  if (tried.getRefused().size() > 0) trial.refused = kj::str(tried.getRefused());
  co_return kj::mv(trial);
}

// Clients of the new CA are served from `accept` on, clients of the old CA until `drop`.
kj::Promise<kj::Maybe<kj::String>> KubernetesRotation::clientError(const RotatedNode& node,
                                                                   bool kubelet,
                                                                   RotationPhase phase) {
  bool drop = phase == RotationPhase::kDrop;
  auto both = kj::str(rotation.newCa, rotation.oldCa);
  auto server = serverName(kubelet);
  auto tried =
      co_await tryAt(node, kubelet, kubelet ? both : rotation.newCa, KJ_ASSERT_NONNULL(newClient));
  KJ_IF_MAYBE (e, tried.refused) {
    co_return kj::str(server, " does not serve clients of the new CA yet: ", *e);
  }
  if (!kubelet && phase != RotationPhase::kAccept &&
      !pki::isSignedBy(tried.server, rotation.newCa)) {
    co_return kj::str("the certificate of the API server is not of the new CA yet");
  }
  KJ_IF_MAYBE (old, oldClient) {
    // Before `drop`, the client trusts only the old CA, as such clients exist. In `drop`, it trusts
    // the new CA, so that only its own certificate can be the reason for a refusal.
    auto trusted = kubelet ? both.asPtr() : drop ? rotation.newCa.asPtr() : rotation.oldCa.asPtr();
    auto before = co_await tryAt(node, kubelet, trusted, *old);
    if (drop && before.refused == nullptr) {
      co_return kj::str(server, " serves clients of the old CA still");
    }
    KJ_IF_MAYBE (e, before.refused) {
      if (!drop) co_return kj::str(server, " does not serve clients of the old CA: ", *e);
    }
  }
  co_return nullptr;
}

kj::Promise<kj::Maybe<kj::String>> KubernetesRotation::kubeletError(const RotatedNode& node) {
  auto text = co_await readSmallFile(cluster, node, kKubeletPair);
  KJ_DEFER(zeroize(text));
  auto shown = pki::certificatesIn(text);
  if (shown.empty() || !pki::isSignedBy(shown[0], rotation.newCa)) {
    co_return kj::str("the certificate of its kubelet is not of the new CA yet");
  }
  if (co_await isHealthy(cluster, node, kKubeletService)) co_return nullptr;
  co_return kj::str("its kubelet is not healthy yet");
}

kj::Promise<kj::Maybe<kj::String>> KubernetesRotation::podsError(const RotatedNode& node) {
  for (auto component : kRestarted) {
    auto wanted = co_await componentSecrets(cluster, node, component);
    auto error = co_await staticPodError(cluster, node, component, wanted.version);
    if (error != nullptr) co_return kj::mv(error);
  }
  co_return nullptr;
}

kj::Promise<kj::Maybe<kj::String>> KubernetesRotation::served(const RotatedNode& node,
                                                              RotationPhase phase) {
  if (phase != RotationPhase::kAccept) {
    auto error = co_await kubeletError(node);
    if (error != nullptr) co_return kj::mv(error);
  }
  if (node.controlPlane) {
    auto error = co_await clientError(node, false, phase);
    if (error != nullptr) co_return kj::mv(error);
  }
  auto error = co_await clientError(node, true, phase);
  if (error != nullptr || !node.controlPlane || phase == RotationPhase::kAccept) {
    co_return kj::mv(error);
  }
  co_return co_await podsError(node);
}

kj::Promise<void> KubernetesRotation::tryClients(RotationPhase phase) {
  note(kj::str(phaseName(phase), ": tried: every API server and kubelet serves clients of ",
               phase != RotationPhase::kDrop ? "both CAs"_kj
               : oldClient != nullptr        ? "the new CA only"_kj
                                             : "the new CA; none of the old one could be made"_kj));
  if (phase != RotationPhase::kDrop) co_return;
  co_await forgetOldCa();
}

kj::Promise<bool> KubernetesRotation::forgetOnce() {
  auto asked = co_await kubernetes(nodes[0]);
  auto request = asked.forgetClientCaRequest();
  request.setAuthority(rotation.oldCa.asBytes());
  auto answer = co_await cluster.answer<rpc::Kubernetes::ForgetClientCaResults>(request.send());
  co_return answer.getFound();
}

kj::Promise<void> KubernetesRotation::forgetOldCa() {
  // Without a client of the old CA, no trial has shown that all API servers refuse it.
  auto needed = oldClient != nullptr ? 0 * kj::SECONDS : kReadAgain;
  if (needed > 0 * kj::SECONDS) {
    note("drop: waiting for a minute, in which each API server reads its CAs again");
  }
  co_await forgetPublished(call.deps.timer, needed, pause(), [this]() { return forgetOnce(); });
}

kj::Promise<void> KubernetesRotation::finish() {
  note("the CA of Kubernetes is rotated; get new kubeconfigs with talosctl kubeconfig");
  note(
      "programs in pods that have run since before trust the old CA until they are restarted; "
      "restart them before the next rotation");
  return kj::READY_NOW;
}

}  // namespace talos::talosctl
