// Serves the requests of a rotation of the CA of Kubernetes (rpc/kubernetes.capnp), and surveys:
// tests whether API servers and kubelets serve a client, and makes a CA forgotten. For a rotation
// of the key of Secrets it has the Secrets written again; for the key of service accounts it looks
// for tokens (token-survey.h); for the aggregator's CA it checks what aggregated APIs are given and
// do.
//
// A cluster may be large, so its survey and the state of its aggregation layer are read one at a
// time, however many callers there are (common/base/shared-reading.h).
//
// A client is tried at addresses of the nodes that Kubernetes has, over new connections each time;
// the trial reads, and changes nothing. Each answer is bounded to kTrial. The client's key is kept
// only for the trial.
#pragma once

#include <capnp/message.h>

#include "common/base/shared-reading.h"
#include "common/kube/kube-client.h"
#include "kubed/manifests/kubernetes-store-adapter.h"
#include "rpc/kubernetes.capnp.h"

namespace talos::kubed {

constexpr auto kTrial = 10 * kj::SECONDS, kAggregation = 30 * kj::SECONDS;
constexpr uint16_t kKubeletPort = 10250;
constexpr size_t kMostRewritten = 100;  // Secrets per call

// Text without certificates for the key of this CA, whoever signed them, and whether it had such a
// certificate. Pure.
struct ForgottenCa {
  kj::String left;
  bool found = false;
};
ForgottenCa withoutCa(kj::StringPtr bundle, kj::StringPtr authority);

// Returns the certificates, PEM, that a server sends to a client without a certificate, its own
// first. The handshake proves that the server has the key of the first.
kj::Promise<kj::Vector<kj::String>> chainAt(DialDependencies deps, kj::String host, uint16_t port);

// A client to try at an API server or a kubelet. `authority` verifies the server; a kubelet may
// also be verified by the certificates that it sends itself.
struct Trial {
  kj::String host;
  uint16_t port = 0;
  bool kubelet = false;
  kj::String authority, certificate;  // PEM
  pki::Pem key;
};
struct Tried {
  kj::String server, refused;  // as rpc/kubernetes.capnp has them
};
kj::Promise<Tried> tryClient(DialDependencies deps, SharedKube::Make& make, Trial trial);

// Returns "v1beta1.metrics.k8s.io: MissingEndpoints" for an APIService that another server serves
// and that is not available. Pure.
kj::Maybe<kj::String> unavailableApi(const kube::Json& apiService);

// The aggregation layer, as in rpc/kubernetes.capnp.
struct Aggregation {
  kj::String authorities;
  kj::Vector<kj::String> unavailable;
};

class ClientServer final : public rpc::Kubernetes::Server {
 public:
  using Message = kj::Own<capnp::MallocMessageBuilder>;
  // `read` makes a survey: the root of its message. All arguments must outlive this object.
  ClientServer(DialDependencies dialing, SharedKube::Make& make, StoreClient& store,
               KubernetesStoreAdapter& adapter, kj::Function<kj::Promise<Message>()> read,
               const kj::Clock& clock = kj::systemPreciseCalendarClock());

  kj::Promise<void> survey(SurveyContext context) override;
  kj::Promise<void> tryClient(TryClientContext context) override;
  kj::Promise<void> forgetClientCa(ForgetClientCaContext context) override;
  kj::Promise<void> rewriteSecrets(RewriteSecretsContext context) override;
  kj::Promise<void> aggregation(AggregationContext context) override;
  kj::Promise<void> tokensOfOtherKeys(TokensOfOtherKeysContext context) override;

 private:
  DialDependencies dialing;
  SharedKube::Make& make;
  KubernetesStoreAdapter& adapter;
  const kj::Clock& clock;
  Watched<rpc::MemberSpec> members;
  SharedReading<Message> surveys;
  SharedReading<Aggregation> aggregations{[this]() { return readAggregation(); }};

  bool isNode(kj::StringPtr address) const;
  kj::Own<SharedKube> ownServer();  // throws Unavailable
  kj::Promise<Aggregation> readAggregation();
  kj::Promise<Aggregation> aggregationNow();
};

}  // namespace talos::kubed
