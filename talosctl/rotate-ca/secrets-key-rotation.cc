// Rotates the key of Kubernetes' Secrets (secrets-key-plan.h, rotation-run.h).
//
// In each phase the API servers are restarted, one after the other, each when the previous one is
// ready. Before `drop`, the Secrets that etcd does not hold under the new key are written again
// until there are no such Secrets; etcd itself shows the progress, so nothing else records it.
#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/config/rules/encryption-keys.h"
#include "rpc/etcd.capnp.h"
#include "rpc/kubernetes.capnp.h"
#include "talosctl/rotate-ca/node-checks.h"
#include "talosctl/rotate-ca/rotations.h"
#include "talosctl/rotate-ca/secrets-key-plan.h"

namespace talos::talosctl {
namespace {

constexpr auto kNoProgress = 5 * kj::MINUTES;

class SecretsKeyRotation final : public RotationRun {
 public:
  SecretsKeyRotation(Invocation& call, RemoteRotation& cluster, const RotationOptions& options)
      : RotationRun(call, cluster, options, RotatedCa::kSecretsKey) {}

 private:
  kj::StringPtr owner() const override { return "Secrets in etcd"_kj; }
  kj::StringPtr thing() const override { return "key"_kj; }
  kj::String shownOld() const override;
  kj::String shownNew() const override;
  kj::StringPtr doneText(RotationPhase phase) const override;
  kj::StringPtr stateWhenStopped() const override { return "Secrets are read and written"_kj; }
  kj::Promise<void> begin(RotationPhase phase) override {
    if (phase != RotationPhase::kDrop) return kj::READY_NOW;
    return rewriteAll();
  }
  kj::Promise<Missing> served(const RotatedNode& node, RotationPhase phase) override {
    return apiServerError(cluster, node, [this, phase](const ComponentSecrets& secrets) {
      return secretsKeyError(rotation, phase, secrets.encryptionKeys);
    });
  }
  // Reads the Secrets once more: a snapshot restored meanwhile would have brought back old ones.
  kj::Promise<void> tryClients(RotationPhase phase) override { return begin(phase); }
  void finish() override {
    note("the key of Secrets is rotated; snapshots of etcd from before need the old one");
  }

  struct Stored {
    uint64_t total = 0, others = 0;
    kj::Array<kj::String> names;
  };
  kj::Promise<Stored> stored(const RotatedNode& node);
  kj::Promise<void> rewrite(const RotatedNode& node, kj::ArrayPtr<const kj::String> names);
  kj::Promise<void> rewriteAll();
};

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

kj::Promise<SecretsKeyRotation::Stored> SecretsKeyRotation::stored(const RotatedNode& node) {
  auto etcd = co_await cluster.etcd(node);
  auto request = etcd.secretsNotUnderRequest();
  request.setPrefix(newPrefix(rotation));
  auto got = co_await cluster.answer<rpc::Etcd::SecretsNotUnderResults>(request.send());
  co_return Stored{
      .total = got.getTotal(), .others = got.getOthers(), .names = textsOf(got.getNames())};
}

kj::Promise<void> SecretsKeyRotation::rewrite(const RotatedNode& node,
                                              kj::ArrayPtr<const kj::String> names) {
  auto kubernetes = co_await cluster.kubernetes(node);
  auto request = kubernetes.rewriteSecretsRequest();
  fillTexts(request.initNames(static_cast<unsigned>(names.size())), names);
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
    Stored now;
    auto failure = co_await failureOf([&]() -> kj::Promise<void> {
      now = co_await stored(node);
      for (size_t from = 0; from < now.names.size(); from += kSlice) {
        co_await rewrite(node, now.names.slice(from, kj::min(from + kSlice, now.names.size())));
      }
    });
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

kj::Own<RotationRun> secretsKeyRotation(Invocation& call, RemoteRotation& cluster,
                                        const RotationOptions& options) {
  return kj::heap<SecretsKeyRotation>(call, cluster, options);
}

}  // namespace talos::talosctl
