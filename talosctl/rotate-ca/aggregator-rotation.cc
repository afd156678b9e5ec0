#include "talosctl/rotate-ca/aggregator-rotation.h"

#include "common/base/error.h"
#include "common/text/texts.h"
#include "common/tls/authorities.h"
#include "common/tls/pki.h"
#include "rpc/kubernetes.capnp.h"
#include "talosctl/rotate-ca/node-checks.h"

namespace talos::talosctl {
namespace {

// API servers publish their CAs when they start; aggregated APIs are checked every 30 s.
constexpr auto kPublished = 4 * kj::MINUTES, kApisAnswer = 1 * kj::MINUTES;

kj::StringPtr apiOf(kj::StringPtr line, kj::String& scratch) {
  scratch = kj::str(line.slice(0, line.findFirst(':').orDefault(line.size())));
  return scratch;
}

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
  requireNames();
  // An API server that an earlier run has restarted may not be ready yet.
  co_await repeat(
      [this]() -> kj::Promise<kj::Maybe<kj::String>> {
        auto present = co_await aggregation();
        brokenBefore = kj::mv(present.unavailable);
        co_return nullptr;
      },
      kApisAnswer, "cannot look at the aggregated APIs");
}

kj::Promise<AggregatorRotation::Aggregation> AggregatorRotation::aggregation() {
  auto reached = co_await cluster.reach(nodes[0].address);
  auto request = reached.kubernetesRequest().send().getKubernetes().aggregationRequest();
  auto got = co_await cluster.answer<rpc::Kubernetes::AggregationResults>(request.send());
  Aggregation result{.authorities = pemOf(got.getAuthorities()), .unavailable = {}};
  for (auto one : got.getUnavailable()) result.unavailable.add(kj::str(one));
  co_return kj::mv(result);
}

kj::Promise<kj::Maybe<kj::String>> AggregatorRotation::served(const RotatedNode& node,
                                                              RotationPhase phase) {
  auto server = co_await componentSecrets(cluster, node, kApiServer);
  KJ_IF_MAYBE (error, aggregatorError(rotation, phase, server.aggregatorCas)) {
    co_return kj::str(*error);
  }
  co_return co_await staticPodError(cluster, node, kApiServer, server.version);
}

kj::Promise<kj::Maybe<kj::String>> AggregatorRotation::publishedError() {
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

// Once all API servers have started without the old CA, none adds it again.
kj::Promise<kj::Maybe<kj::String>> AggregatorRotation::forgetOldCa() {
  auto reached = co_await cluster.reach(nodes[0].address);
  auto request = reached.kubernetesRequest().send().getKubernetes().forgetClientCaRequest();
  request.setAuthority(rotation.oldCa.asBytes());
  request.setAggregator(true);
  auto answer = co_await cluster.answer<rpc::Kubernetes::ForgetClientCaResults>(request.send());
  if (answer.getFound()) co_return kj::str("it is published still");
  co_return nullptr;
}

kj::Promise<void> AggregatorRotation::tryClients(RotationPhase phase) {
  co_await repeat([this] { return publishedError(); }, kPublished,
                  kj::str("stopped in the phase ", phaseName(phase), "; ", stateWhenStopped(),
                          "; start the command again to continue"));
  if (phase != RotationPhase::kDrop) co_return;
  co_await repeat([this] { return forgetOldCa(); }, kPublished,
                  "no API server has the old CA, but it is among those that Kubernetes publishes "
                  "for aggregated APIs in kube-system/extension-apiserver-authentication; remove "
                  "it there");
}

kj::Promise<void> AggregatorRotation::finish() {
  note("the CA of the aggregation layer is rotated");
  return kj::READY_NOW;
}

}  // namespace talos::talosctl
