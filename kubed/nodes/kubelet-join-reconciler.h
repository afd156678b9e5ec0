// Gets the first certificate of this node's kubelet ("TLS bootstrapping" in Kubernetes' reference).
// While machined requests it (KubeletJoins[kubelet], with the certificate request), the request is
// created on the API server at the endpoint of the cluster, with the bootstrap token.
// KubeletJoinStatuses[kubelet] names the awaited event, and has the certificate in the end. The
// kubed of a control-plane node (join-approver.h) or an administrator approves it, the controller
// manager signs it.
//
// The object's name derives from the request and from the certificate with which the node proves it
// (common/kube/node-proof.h), so a crash of this program at any line, or a lost answer, leaves one
// request, which the restarted program finds. A deleted request is created again; a denied request
// waits until an administrator deletes it. The server is polled with pauses that double and restart
// when the status has changed: at first up to 500 ms, because a cluster that is just being created
// answers soon, and later up to kLongestJoinPause.
#pragma once

#include "kubed/manifests/kubernetes-store-adapter.h"

namespace talos::kubed {

constexpr auto kFirstJoinPause = 250 * kj::MILLISECONDS, kLongestJoinPause = 2 * kj::SECONDS,
               kJoinAnswer = 5 * kj::SECONDS;
// Returns the pause after `last`, when the first poll was `asking` ago.
kj::Duration nextJoinPause(kj::Duration last, kj::Duration asking);

// State of a CertificateSigningRequest of certificates.k8s.io/v1.
struct JoinProgress {
  kj::String message;      // event that the request waits for; empty with the certificate
  kj::String certificate;  // PEM; empty if not signed yet
};
JoinProgress progressOf(const kube::Json& request);

// Returns the name of the object for a request.
kj::String requestName(rpc::KubeletJoinSpec::Reader join);
kube::Json requestObject(rpc::KubeletJoinSpec::Reader join);

class KubeletJoinReconciler {
 public:
  // All arguments must outlive this object.
  KubeletJoinReconciler(kj::Timer& timer, StoreClient& store, SharedKube::Make make);
  KJ_DISALLOW_COPY_AND_MOVE(KubeletJoinReconciler);

  kj::Promise<void> run();  // until dropped

 private:
  kj::Timer& timer;
  StoreClient& store;
  SharedKube::Make make;
  Signal changed;
  kj::Maybe<kj::Own<SharedKube>> current;
  kj::String noClient = kj::str("waiting for the bootstrap token");
  Watched<rpc::KubeletJoinSpec> joins;
  Watched<rpc::KubeletSecretsSpec> secrets;

  kj::Maybe<uint64_t> requestedNumber() const;
  void takeSecrets();
  kj::Promise<void> carryOut(uint64_t number);
  kj::Promise<void> replaced(uint64_t number);
  kj::Promise<JoinProgress> ask(rpc::KubeletJoinSpec::Reader join);
  // Publishes the progress; removes the status if it is nullptr.
  kj::Promise<void> report(uint64_t number, kj::Maybe<const JoinProgress&> progress);
};

}  // namespace talos::kubed
