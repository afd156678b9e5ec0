// Serves what a rotation of the CA of Kubernetes asks for (rpc/kubernetes.capnp), and surveys:
// whether API servers and kubelets serve a client, and that a CA is forgotten. For one of the key
// of Secrets it has them written again, for one of the key of service accounts it looks for tokens
// (token-survey.h), for one of the aggregator's CA at what aggregated APIs are given and do.
//
// A client is tried at addresses of the nodes that Kubernetes has, by new connections each time; it
// reads, and changes nothing. Each answer is bounded to kTrial. Its key is kept for the trial only.
#pragma once

#include "common/kube/kube-client.h"
#include "kubed/manifests/kubernetes-store-adapter.h"
#include "kubed/nodes/survey-server.h"

namespace talos::kubed {

constexpr auto kTrial = 10 * kj::SECONDS;
constexpr uint16_t kKubeletPort = 10250;
constexpr size_t kMostRewritten = 100;  // Secrets, by one call

// The text without certificates for the key of this CA, whoever signed them, and whether it had
// one. Pure.
struct ForgottenCa {
  kj::String left;
  bool found = false;
};
ForgottenCa withoutCa(kj::StringPtr bundle, kj::StringPtr authority);

// The certificates of a kubelet vouch for themselves, as for API servers: what it shows, and
// `authority` if that signed it.
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
kj::Promise<Tried> tryClient(kube::DialDependencies deps, SharedKube::Make& make, Trial trial);

// "v1beta1.metrics.k8s.io: MissingEndpoints" of an APIService that another server serves and that
// is not available. Pure.
kj::Maybe<kj::String> unavailableApi(const kube::Json& apiService);

class ClientServer final : public SurveyServer {
 public:
  // All outlive it.
  ClientServer(kube::DialDependencies dialing, SharedKube::Make& make, StoreClient& store,
               KubernetesStoreAdapter& adapter, kj::Function<kj::Promise<Message>()> read,
               const kj::Clock& clock = kj::systemPreciseCalendarClock());

  kj::Promise<void> tryClient(TryClientContext context) override;
  kj::Promise<void> forgetClientCa(ForgetClientCaContext context) override;
  kj::Promise<void> rewriteSecrets(RewriteSecretsContext context) override;
  kj::Promise<void> aggregation(AggregationContext context) override;
  kj::Promise<void> tokensOfOtherKeys(TokensOfOtherKeysContext context) override;

 private:
  kube::DialDependencies dialing;
  SharedKube::Make& make;
  KubernetesStoreAdapter& adapter;
  const kj::Clock& clock;
  Watched<rpc::MemberSpec> members;

  bool isNode(kj::StringPtr address) const;
  kj::Own<SharedKube> ownServer();  // Unavailable
};

}  // namespace talos::kubed
