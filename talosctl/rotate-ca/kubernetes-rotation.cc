// Rotates the CA of Kubernetes (rotation-run.h).
//
// Each node serves clients of both CAs: kube-apiserver and the kubelet read their client CAs again
// when the files change. An API server reads the CAs by which it verifies kubelets only when it
// starts, so it is restarted in `accept` and `drop`, one after the other. In `issue` the kubelet of
// each node is restarted once, and the controller manager and the scheduler of each control-plane
// node. A kubelet that is restarted before the last controller manager may get a serving
// certificate of the old CA; then it is restarted in `drop` as well.
//
// A client that trusts only one of the CAs verifies an API server with this CA alone, because the
// server presents its own CA as signed by the other one. So no client has to learn the new CA
// before the old one is dropped, and programs in pods continue to work afterwards.
//
// Clients of both CAs are tried at every API server and every kubelet through a control-plane node,
// so this host need not reach them. Their certificates are issued here, valid for a day, and kept
// in memory. A run that is continued in `drop` has no client of the old CA, whose key no longer
// exists.
#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "common/tls/authorities.h"
#include "common/tls/public-key.h"
#include "talosctl/rotate-ca/node-checks.h"
#include "talosctl/rotate-ca/rotations.h"

namespace talos::talosctl {
namespace {

constexpr kj::StringPtr kClientName = "talosctl-rotate-ca"_kj, kMasters = "system:masters"_kj;
constexpr auto kTrialLifetime = 24 * kj::HOURS, kForgotten = 4 * kj::MINUTES;
// An API server reads the file of its CAs again within a minute, and then adds its CAs.
constexpr auto kReadAgain = 65 * kj::SECONDS;
constexpr kj::StringPtr kKubeletPair = "/var/lib/kubelet/pki/kubelet-client-current.pem"_kj,
                        kKubeletService = "kubelet"_kj;
// Static pods that read certificates of the CA only when they start.
constexpr kj::StringPtr kRestarted[] = {kApiServer, kControllerManager, "kube-scheduler"_kj};

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

class KubernetesRotation final : public RotationRun {
 public:
  KubernetesRotation(Invocation& call, RemoteRotation& cluster, const RotationOptions& options)
      : RotationRun(call, cluster, options, RotatedCa::kKubernetes) {}

 private:
  kj::Maybe<Credentials> newClient, oldClient;

  kj::StringPtr owner() const override { return "Kubernetes"_kj; }
  kj::Promise<void> prepare() override;
  kj::Promise<Missing> served(const RotatedNode& node, RotationPhase phase) override;
  kj::Promise<void> tryClients(RotationPhase phase) override;
  void finish() override;

  struct Trial {
    kj::String server;  // certificates that the server presented, PEM
    kj::Maybe<kj::String> refused;
  };
  kj::Promise<Trial> tryAt(const RotatedNode& node, bool kubelet, kj::StringPtr authorities,
                           const Credentials& client);
  kj::Promise<Missing> clientError(const RotatedNode& node, bool kubelet, RotationPhase phase);
  kj::Promise<Missing> kubeletError(const RotatedNode& node);
  kj::Promise<Missing> podsError(const RotatedNode& node);
};

}  // namespace

kj::Promise<void> forgetPublished(kj::Timer& timer, kj::Duration needed, kj::Duration pause,
                                  kj::Function<kj::Promise<bool>()> forget) {
  RetryOptions options{
      .limit = kForgotten, .pause = pause, .late = [](kj::StringPtr reason) {
        return error(
            ErrorKind::kDeadlineExceeded,
            kj::str(
                "no API server accepts the old CA, but it is among those that Kubernetes "
                "publishes in kube-system/extension-apiserver-authentication; remove it there: ",
                reason));
      }};
  kj::Maybe<kj::TimePoint> absentSince;
  auto attempt = [&]() -> kj::Promise<Missing> {
    try {
      if (co_await forget()) {
        absentSince = nullptr;
        co_return kj::str("it is published still");
      }
    } catch (const kj::Exception& e) {
      co_return messageOf(e);
    }
    auto since = absentSince.orDefault(timer.now());
    absentSince = since;
    if (timer.now() - since >= needed) co_return nullptr;
    co_return kj::str("API servers add it again");
  };
  co_await retryUntilReached(timer, kj::mv(options), attempt);
}

kj::Promise<void> KubernetesRotation::prepare() {
  co_await RotationRun::prepare();
  newClient = clientOf(rotation.newCa, rotation.newKey);
  if (kj::StringPtr(rotation.oldKey).size() > 0) {
    oldClient = clientOf(rotation.oldCa, rotation.oldKey);
  }
}

kj::Promise<KubernetesRotation::Trial> KubernetesRotation::tryAt(const RotatedNode& node,
                                                                 bool kubelet,
                                                                 kj::StringPtr authorities,
                                                                 const Credentials& client) {
  // A worker is tried through the first control-plane node.
  auto asked = co_await cluster.kubernetes(node.controlPlane ? node : nodes[0]);
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
kj::Promise<Missing> KubernetesRotation::clientError(const RotatedNode& node, bool kubelet,
                                                     RotationPhase phase) {
  bool drop = phase == RotationPhase::kDrop;
  auto both = kj::str(rotation.newCa, rotation.oldCa);
  auto server = serverName(kubelet);
  auto tried =
      co_await tryAt(node, kubelet, kubelet ? both : rotation.newCa, KJ_ASSERT_NONNULL(newClient));
  KJ_IF_MAYBE (e, tried.refused) {
    co_return kj::str(server, " does not serve clients of the new CA yet: ", *e);
  }
  if (kubelet && drop && pki::isSignedBy(tried.server, rotation.oldCa)) {
    co_return kj::str("the serving certificate of the kubelet is of the old CA still");
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

kj::Promise<Missing> KubernetesRotation::kubeletError(const RotatedNode& node) {
  auto text = co_await readSmallFile(cluster, node, kKubeletPair);
  KJ_DEFER(zeroize(text));
  auto shown = pki::certificatesIn(text);
  if (shown.empty() || !pki::isSignedBy(shown[0], rotation.newCa)) {
    co_return kj::str("the certificate of its kubelet is not of the new CA yet");
  }
  if (co_await isHealthy(cluster, node, kKubeletService)) co_return nullptr;
  co_return kj::str("its kubelet is not healthy yet");
}

kj::Promise<Missing> KubernetesRotation::podsError(const RotatedNode& node) {
  for (auto component : kRestarted) {
    auto wanted = co_await componentSecrets(cluster, node, component);
    auto error = co_await staticPodError(cluster, node, component, wanted.version);
    if (error != nullptr) co_return kj::mv(error);
  }
  co_return nullptr;
}

kj::Promise<Missing> KubernetesRotation::served(const RotatedNode& node, RotationPhase phase) {
  if (phase != RotationPhase::kAccept) {
    auto error = co_await kubeletError(node);
    if (error != nullptr) co_return kj::mv(error);
  }
  if (node.controlPlane) {
    auto error = co_await clientError(node, false, phase);
    if (error != nullptr) co_return kj::mv(error);
  }
  auto error = co_await clientError(node, true, phase);
  if (error != nullptr || !node.controlPlane) co_return kj::mv(error);
  co_return co_await podsError(node);
}

kj::Promise<void> KubernetesRotation::tryClients(RotationPhase phase) {
  note(kj::str(phaseName(phase), ": tried: every API server and kubelet serves clients of ",
               phase != RotationPhase::kDrop ? "both CAs"_kj
               : oldClient != nullptr        ? "the new CA only"_kj
                                             : "the new CA; none of the old one could be made"_kj));
  if (phase != RotationPhase::kDrop) co_return;
  // Without a client of the old CA, no trial has shown that all API servers refuse it.
  auto needed = oldClient != nullptr ? 0 * kj::SECONDS : kReadAgain;
  if (needed > 0 * kj::SECONDS) {
    note("drop: waiting for a minute, in which each API server reads its CAs again");
  }
  co_await forgetPublished(call.deps.timer, needed, pause(), [this] { return forgetOldCa(false); });
}

void KubernetesRotation::finish() {
  note("the CA of Kubernetes is rotated; get new kubeconfigs with talosctl kubeconfig");
  note(
      "programs in pods that have run since before trust the old CA until they are restarted; "
      "restart them before the next rotation");
}

kj::Own<RotationRun> kubernetesRotation(Invocation& call, RemoteRotation& cluster,
                                        const RotationOptions& options) {
  return kj::heap<KubernetesRotation>(call, cluster, options);
}

}  // namespace talos::talosctl
