// Rotates the key that signs service account tokens (service-account-plan.h, rotation-run.h).
//
// In each phase the API servers are restarted, one after the other, and in `issue` the controller
// managers with them. Before `drop`, Kubernetes lists the tokens that the old key may have signed:
// tokens in Secrets, which only an operator can replace, and tokens of pods, which kubelets renew.
// While such tokens exist, the run ends with their names, and the next run continues; the old key
// is accepted until then.
#include "common/base/date.h"
#include "common/base/error.h"
#include "common/tls/public-key.h"
#include "rpc/kubernetes.capnp.h"
#include "talosctl/rotate-ca/node-checks.h"
#include "talosctl/rotate-ca/rotations.h"
#include "talosctl/rotate-ca/service-account-plan.h"

namespace talos::talosctl {
namespace {

// Long, because an API server has just been restarted.
constexpr auto kTokensAnswer = 1 * kj::MINUTES;

// Shortens the key id that tokens have.
kj::String shownKeyId(kj::StringPtr publicKey) {
  constexpr size_t kShown = 12;
  return kj::str(pki::tokenKeyId(publicKey).slice(0, kShown));
}

kj::String listed(capnp::List<capnp::Text>::Reader names, uint32_t more) {
  kj::Vector<kj::String> all;
  for (auto name : names) all.add(kj::str("\n  ", name));
  if (more > 0) all.add(kj::str("\n  and ", more, " more"));
  return kj::strArray(all, "");
}

class ServiceAccountRotation final : public RotationRun {
 public:
  ServiceAccountRotation(Invocation& call, RemoteRotation& cluster, const RotationOptions& options)
      : RotationRun(call, cluster, options, RotatedCa::kServiceAccountKey) {}

 private:
  kj::StringPtr owner() const override { return "service accounts"_kj; }
  kj::StringPtr thing() const override { return "key"_kj; }
  kj::String shownOld() const override {
    return rotation.oldCa.size() > 0 ? shownKeyId(rotation.oldCa) : kj::str("(replaced)");
  }
  kj::String shownNew() const override { return shownKeyId(rotation.newCa); }
  kj::StringPtr doneText(RotationPhase phase) const override;
  kj::StringPtr stateWhenStopped() const override {
    return "tokens of the old key are accepted"_kj;
  }
  kj::Promise<void> begin(RotationPhase phase) override;
  kj::Promise<Missing> served(const RotatedNode& node, RotationPhase phase) override;
  void finish() override;

  kj::Promise<Missing> tokensOfOldKey();
};

}  // namespace

kj::StringPtr ServiceAccountRotation::doneText(RotationPhase phase) const {
  switch (phase) {
    case RotationPhase::kAccept:
      return "accepts tokens of the new key beside those of its own"_kj;
    case RotationPhase::kIssue:
      return "signs tokens with the new key, and accepts those of the old one"_kj;
    case RotationPhase::kDrop:
      return "accepts tokens of the new key only"_kj;
  }
  KJ_UNREACHABLE;
}

// Returns the text of the refusal; nullptr if no token is left.
kj::Promise<Missing> ServiceAccountRotation::tokensOfOldKey() {
  auto kubernetes = co_await cluster.kubernetes(nodes[0]);
  auto request = kubernetes.tokensOfOtherKeysRequest();
  request.setKey(pki::tokenKeyId(rotation.newCa));
  auto got = co_await cluster.answer<rpc::Kubernetes::TokensOfOtherKeysResults>(request.send());
  kj::Vector<kj::String> parts;
  if (got.getSecrets().size() > 0) {
    parts.add(kj::str(
        "\nSecrets with a token of the old key; the controller manager writes another token when "
        "this one is removed (kubectl patch secret NAME --type=json "
        "-p='[{\"op\": \"remove\", \"path\": \"/data/token\"}]'), or delete the Secret:",
        listed(got.getSecrets(), got.getOtherSecrets())));
  }
  if (got.getPods().size() > 0) {
    auto until = kj::UNIX_EPOCH + got.getUntil() * kj::SECONDS;
    parts.add(kj::str("\npods whose tokens kubelets renew until ", dateText(until),
                      "; wait, or restart them (kubectl rollout restart):",
                      listed(got.getPods(), got.getOtherPods())));
  }
  if (parts.empty()) co_return nullptr;
  co_return kj::strArray(parts, "");
}

kj::Promise<void> ServiceAccountRotation::begin(RotationPhase phase) {
  // If one node has dropped the old key, some API servers already refuse its tokens.
  bool isDropped = rotation.begun && rotation.phase == RotationPhase::kDrop;
  if (phase != RotationPhase::kDrop || isDropped) co_return;
  Missing found;
  co_await repeat(
      [&]() -> kj::Promise<Missing> {
        found = co_await tokensOfOldKey();
        co_return nullptr;
      },
      kTokensAnswer, "cannot look for tokens of the old key");
  KJ_IF_MAYBE (left, found) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("stopped before the phase drop: the old key is accepted as long as its tokens may "
                 "be in use; start the command again to continue when they are not:",
                 *left));
  }
}

kj::Promise<Missing> ServiceAccountRotation::served(const RotatedNode& node, RotationPhase phase) {
  auto server = co_await componentSecrets(cluster, node, kApiServer);
  auto manager = co_await componentSecrets(cluster, node, kControllerManager);
  KJ_IF_MAYBE (error, serviceAccountError(rotation, phase, server.serviceAccountKeys,
                                          manager.serviceAccountKeys)) {
    co_return kj::str(*error);
  }
  auto error = co_await staticPodError(cluster, node, kApiServer, server.version);
  if (error != nullptr) co_return kj::mv(error);
  co_return co_await staticPodError(cluster, node, kControllerManager, manager.version);
}

void ServiceAccountRotation::finish() {
  note("the key of service accounts is rotated");
  note(
      "tokens that programs have requested themselves (kubectl create token) are refused now if "
      "the old key signed them");
}

kj::Own<RotationRun> serviceAccountRotation(Invocation& call, RemoteRotation& cluster,
                                            const RotationOptions& options) {
  return kj::heap<ServiceAccountRotation>(call, cluster, options);
}

}  // namespace talos::talosctl
