// Rotates the CA of Kubernetes' aggregation layer (rotation-run.h). With certificates of this CA,
// API servers are clients of aggregated API servers (front proxy).
//
// In each phase the API servers are restarted, one after the other. Aggregated API servers learn
// the CAs from kube-system/extension-apiserver-authentication, to which API servers add their CAs:
// the new CA is added before any API server has a certificate of it, and the old CA is removed at
// the end. An aggregated API that is available when the run begins must be available at the end of
// each phase.
#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/text/texts.h"
#include "common/tls/authorities.h"
#include "common/tls/pki.h"
#include "rpc/kubernetes.capnp.h"
#include "talosctl/rotate-ca/node-checks.h"
#include "talosctl/rotate-ca/rotations.h"

namespace talos::talosctl {
namespace {

// API servers publish their CAs when they start; aggregated APIs are checked every 30 s.
constexpr auto kPublished = 4 * kj::MINUTES, kApisAnswer = 1 * kj::MINUTES;

kj::StringPtr apiOf(kj::StringPtr line, kj::String& scratch) {
  scratch = kj::str(line.slice(0, line.findFirst(':').orDefault(line.size())));
  return scratch;
}

class AggregatorRotation final : public RotationRun {
 public:
  AggregatorRotation(Invocation& call, RemoteRotation& cluster, const RotationOptions& options)
      : RotationRun(call, cluster, options, RotatedCa::kAggregator) {}

 private:
  kj::Array<kj::String> brokenBefore;  // unavailable aggregated APIs

  kj::StringPtr owner() const override { return "the aggregation layer"_kj; }
  kj::StringPtr stateWhenStopped() const override {
    return "aggregated APIs accept the API servers"_kj;
  }
  kj::Promise<void> prepare() override;
  kj::Promise<Missing> served(const RotatedNode& node, RotationPhase phase) override {
    return apiServerError(cluster, node, [this, phase](const ComponentSecrets& secrets) {
      return aggregatorError(rotation, phase, secrets.aggregatorCas);
    });
  }
  kj::Promise<void> tryClients(RotationPhase phase) override;
  void finish() override { note("the CA of the aggregation layer is rotated"); }

  struct Aggregation {
    kj::String authorities;
    kj::Array<kj::String> unavailable;
  };
  kj::Promise<Aggregation> aggregation();
  kj::Promise<Missing> publishedError();
};

}  // namespace

kj::Maybe<kj::StringPtr> aggregatorError(const Rotation& rotation, RotationPhase phase,
                                         kj::ArrayPtr<const kj::String> authorities) {
  auto fresh = pki::authorityHash(rotation.newCa), old = pki::authorityHash(rotation.oldCa);
  if (!contains(authorities, fresh)) return "its API server has not been given the new CA yet"_kj;
  if (phase != RotationPhase::kAccept && authorities[0] != fresh) {
    return "its API server has no certificate of the new CA yet"_kj;
  }
  bool accepts = contains(authorities, old);
  if (phase == RotationPhase::kDrop) {
    if (accepts) return "its API server accepts the old CA still"_kj;
    return nullptr;
  }
  if (!accepts) return "its API server does not accept the old CA"_kj;
  return nullptr;
}

kj::Vector<kj::StringPtr> newlyUnavailable(kj::ArrayPtr<const kj::String> before,
                                           kj::ArrayPtr<const kj::String> now) {
  kj::Vector<kj::StringPtr> lines;
  for (auto& line : now) {
    kj::String own, other;
    bool known = false;
    for (auto& earlier : before) known = known || apiOf(earlier, other) == apiOf(line, own);
    if (!known) lines.add(line);
  }
  return lines;
}

kj::Promise<void> AggregatorRotation::prepare() {
  co_await RotationRun::prepare();
  // An API server that an earlier run has restarted may not be ready yet.
  co_await repeat(
      [this]() -> kj::Promise<Missing> {
        brokenBefore = (co_await aggregation()).unavailable;
        co_return nullptr;
      },
      kApisAnswer, "cannot look at the aggregated APIs");
}

kj::Promise<AggregatorRotation::Aggregation> AggregatorRotation::aggregation() {
  auto kubernetes = co_await cluster.kubernetes(nodes[0]);
  auto got = co_await cluster.answer<rpc::Kubernetes::AggregationResults>(
      kubernetes.aggregationRequest().send());
  co_return Aggregation{.authorities = pemOf(got.getAuthorities()),
                        .unavailable = textsOf(got.getUnavailable())};
}

kj::Promise<Missing> AggregatorRotation::publishedError() {
  auto present = co_await aggregation();
  auto fresh = pki::authorityHash(rotation.newCa);
  bool published = false;
  for (auto& one : pki::certificatesIn(present.authorities)) {
    published = published || pki::authorityHash(one) == fresh;
  }
  if (!published) co_return kj::str("the new CA is not published for aggregated APIs yet");
  auto broken = newlyUnavailable(brokenBefore, present.unavailable);
  if (!broken.empty()) {
    co_return kj::str("an aggregated API is not available any more: ", kj::strArray(broken, ", "));
  }
  co_return nullptr;
}

kj::Promise<void> AggregatorRotation::tryClients(RotationPhase phase) {
  co_await repeat([this] { return publishedError(); }, kPublished,
                  kj::str("stopped in the phase ", phaseName(phase), "; ", stateWhenStopped(),
                          "; start the command again to continue"));
  if (phase != RotationPhase::kDrop) co_return;
  // Once all API servers have started without the old CA, none adds it again.
  auto forget = [this]() -> kj::Promise<Missing> {
    if (co_await forgetOldCa(true)) co_return kj::str("it is published still");
    co_return nullptr;
  };
  co_await repeat(forget, kPublished,
                  "no API server has the old CA, but it is among those that Kubernetes publishes "
                  "for aggregated APIs in kube-system/extension-apiserver-authentication; remove "
                  "it there");
}

kj::Own<RotationRun> aggregatorRotation(Invocation& call, RemoteRotation& cluster,
                                        const RotationOptions& options) {
  return kj::heap<AggregatorRotation>(call, cluster, options);
}

}  // namespace talos::talosctl
