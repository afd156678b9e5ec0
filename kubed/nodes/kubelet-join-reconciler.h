// Gets the first certificate of the kubelet of this node ("TLS bootstrapping" of Kubernetes'
// reference): while machined wishes it (KubeletJoins[kubelet], which has the request), the request
// is brought to the API server at the endpoint of the cluster, with the bootstrap token, and what
// comes of it is told in KubeletJoinStatuses[kubelet]: what it waits for, and the certificate at
// last. Who approves and signs it is the controller manager, or an administrator.
//
// The object is named after the request, so a crash of this program at any line, or an answer that
// was lost, leaves one request, which the next life finds. One that is gone is created again; one
// that was denied waits until somebody deletes it. The server is asked again after pauses that
// double and begin anew when something has changed: up to half a second at first, because a cluster
// that is just being made answers soon, and later up to kLongestJoinPause.
#pragma once

#include "kubed/manifests/kubernetes-store-adapter.h"

namespace talos::kubed {

constexpr auto kFirstJoinPause = 250 * kj::MILLISECONDS, kLongestJoinPause = 2 * kj::SECONDS,
               kJoinAnswer = 5 * kj::SECONDS;
// The one after `last`, so long after it was asked first.
kj::Duration nextJoinPause(kj::Duration last, kj::Duration asking);

// What a CertificateSigningRequest of certificates.k8s.io/v1 says.
struct JoinProgress {
  kj::String message;      // what it waits for; empty with the certificate
  kj::String certificate;  // PEM; empty: none yet
};
JoinProgress progressOf(const kube::Json& request);

// The object for a PKCS#10 request, in PEM.
kj::String requestName(kj::StringPtr request);
kube::Json requestObject(kj::StringPtr request);

class JoinKeeper {
 public:
  // All outlive it.
  JoinKeeper(kj::Timer& timer, StoreClient& store, SharedKube::Make make);
  KJ_DISALLOW_COPY_AND_MOVE(JoinKeeper);

  kj::Promise<void> run();  // until dropped

 private:
  kj::Timer& timer;
  StoreClient& store;
  SharedKube::Make make;
  Signal changed;
  kj::Maybe<kj::Own<SharedKube>> current;
  kj::String noClient = kj::str("waiting for the bootstrap token");
  Watched<rpc::KubeletJoinSpec> wishes;
  Watched<rpc::KubeletSecretsSpec> secrets;

  kj::Maybe<uint64_t> wish() const;
  void takeSecrets();
  kj::Promise<void> carryOut(uint64_t number);
  kj::Promise<void> replaced(uint64_t number);
  kj::Promise<JoinProgress> ask(kj::StringPtr request);
  // None: there is nothing to be told any more.
  kj::Promise<void> tell(uint64_t number, kj::Maybe<const JoinProgress&> progress);
};

}  // namespace talos::kubed
