#include "talosctl/rotate-ca/service-account-rotation.h"

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/tls/public-key.h"
#include "rpc/kubernetes.capnp.h"
#include "talosctl/rotate-ca/node-checks.h"
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

}  // namespace

kj::String ServiceAccountRotation::shownOld() const {
  return rotation.oldCa.size() > 0 ? shownKeyId(rotation.oldCa) : kj::str("(replaced)");
}

kj::String ServiceAccountRotation::shownNew() const {
  return shownKeyId(rotation.newCa);
}

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

kj::Promise<void> ServiceAccountRotation::prepare() {
  requireNames();
  return kj::READY_NOW;
}

bool ServiceAccountRotation::isDropped() const {
  return rotation.begun && rotation.phase == RotationPhase::kDrop;
}

// Returns the text of the refusal; nullptr if no token is left.
kj::Promise<kj::Maybe<kj::String>> ServiceAccountRotation::tokensOfOldKey() {
  auto reached = co_await cluster.reach(nodes[0].address);
  auto request = reached.kubernetesRequest().send().getKubernetes().tokensOfOtherKeysRequest();
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

// If one node has dropped the old key, some API servers already refuse its tokens.
kj::Promise<void> ServiceAccountRotation::begin(RotationPhase phase) {
  if (phase != RotationPhase::kDrop || isDropped()) co_return;
  kj::Maybe<kj::String> found;
  co_await repeat(
      [&]() -> kj::Promise<kj::Maybe<kj::String>> {
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

kj::Promise<kj::Maybe<kj::String>> ServiceAccountRotation::served(const RotatedNode& node,
                                                                  RotationPhase phase) {
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

kj::Promise<void> ServiceAccountRotation::finish() {
  note("the key of service accounts is rotated");
  note(
      "tokens that programs have requested themselves (kubectl create token) are refused now if "
      "the old key signed them");
  return kj::READY_NOW;
}

}  // namespace talos::talosctl
