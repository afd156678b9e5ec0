#include "talosctl/rotate-ca/secrets-key-rotation.h"

#include "common/base/error.h"
#include "common/config/encryption-keys.h"
#include "rpc/etcd.capnp.h"
#include "rpc/kubernetes.capnp.h"
#include "talosctl/rotate-ca/node-checks.h"
#include "talosctl/rotate-ca/secrets-key-plan.h"

namespace talos::talosctl {
namespace {

constexpr auto kNoProgress = 5 * kj::MINUTES;

}  // namespace

kj::String SecretsKeyRotation::shownOld() const {
  // Prefers a node that still has the old key.
  for (auto& node : nodes) {
    if (!node.controlPlane) continue;
    if (kj::StringPtr(node.secretbox) != kj::StringPtr(rotation.newKey)) return writingKey(node);
  }
  return kj::str("(replaced)");
}

kj::String SecretsKeyRotation::shownNew() const {
  return config::ownKeyName(kj::StringPtr(rotation.newKey));
}

kj::StringPtr SecretsKeyRotation::doneText(RotationPhase phase) const {
  switch (phase) {
    case RotationPhase::kAccept:
      return "reads Secrets of the new key beside its own"_kj;
    case RotationPhase::kIssue:
      return "writes Secrets with the new key, and reads those of the old one"_kj;
    case RotationPhase::kDrop:
      return "has the new key only"_kj;
  }
  KJ_UNREACHABLE;
}

kj::Promise<void> SecretsKeyRotation::prepare() {
  requireNames();
  return kj::READY_NOW;
}

kj::Promise<void> SecretsKeyRotation::begin(RotationPhase phase) {
  if (phase == RotationPhase::kDrop) co_await rewriteAll();
}

kj::Promise<SecretsKeyRotation::Stored> SecretsKeyRotation::stored(const RotatedNode& node) {
  auto reached = co_await cluster.reach(node.address);
  auto request = reached.etcdRequest().send().getEtcd().secretsNotUnderRequest();
  request.setPrefix(newPrefix(rotation));
  auto got = co_await cluster.answer<rpc::Etcd::SecretsNotUnderResults>(request.send());
  Stored result{.total = got.getTotal(), .others = got.getOthers(), .names = {}};
  for (auto name : got.getNames()) result.names.add(kj::str(name));
  co_return kj::mv(result);
}

kj::Promise<void> SecretsKeyRotation::rewrite(const RotatedNode& node,
                                              kj::ArrayPtr<const kj::String> names) {
  auto reached = co_await cluster.reach(node.address);
  auto request = reached.kubernetesRequest().send().getKubernetes().rewriteSecretsRequest();
  auto list = request.initNames(static_cast<unsigned>(names.size()));
  for (auto i : kj::indices(names)) list.set(static_cast<unsigned>(i), names[i]);
  co_await cluster.answer<rpc::Kubernetes::RewriteSecretsResults>(request.send());
}

kj::Promise<void> SecretsKeyRotation::rewriteAll() {
  // Secrets per call, so that each call takes much less than the limit of an answer.
  constexpr size_t kSlice = 25;
  auto& timer = call.deps.timer;
  auto moved = timer.now();
  kj::Maybe<uint64_t> least;
  for (size_t turn = 0;;) {
    auto& node = nodes[turn % nodes.size()];
    kj::Maybe<kj::Exception> failure;
    Stored now;
    try {
      now = co_await stored(node);
      for (size_t from = 0; from < now.names.size(); from += kSlice) {
        co_await rewrite(node, now.names.slice(from, kj::min(from + kSlice, now.names.size())));
      }
    } catch (const kj::Exception& e) {
      failure = kj::cp(e);
    }
    kj::String problem = kj::str(now.others, " Secrets are left");
    KJ_IF_MAYBE (e, failure) {
      ++turn;
      problem = messageOf(*e);
    } else {
      if (now.others == 0) {
        note(kj::str("all ", now.total, " Secrets in etcd are of the new key"));
        co_return;
      }
      if (now.others < least.orDefault(now.others + 1)) {
        note(kj::str("writing Secrets again: ", now.others, " of ", now.total, " left"));
        least = now.others;
        moved = timer.now();
        continue;
      }
    }
    if (timer.now() - moved > kNoProgress) {
      fail(ErrorKind::kDeadlineExceeded,
           kj::str("stopped before the phase drop: not all Secrets could be written with the new "
                   "key: ",
                   problem, "; start the command again to continue"));
    }
    co_await timer.afterDelay(pause());
  }
}

kj::Promise<kj::Maybe<kj::String>> SecretsKeyRotation::served(const RotatedNode& node,
                                                              RotationPhase phase) {
  auto secrets = co_await componentSecrets(cluster, node, kApiServer);
  KJ_IF_MAYBE (error, secretsKeyError(rotation, phase, secrets.encryptionKeys)) {
    co_return kj::str(*error);
  }
  co_return co_await staticPodError(cluster, node, kApiServer, secrets.version);
}

// Reads the Secrets once more: a snapshot restored meanwhile would have brought back old ones.
kj::Promise<void> SecretsKeyRotation::tryClients(RotationPhase phase) {
  if (phase != RotationPhase::kDrop) return kj::READY_NOW;
  return rewriteAll();
}

kj::Promise<void> SecretsKeyRotation::finish() {
  note("the key of Secrets is rotated; snapshots of etcd from before need the old one");
  return kj::READY_NOW;
}

}  // namespace talos::talosctl
