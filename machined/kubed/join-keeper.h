// Whether a kubelet that has no certificate yet would get one: while machined wishes to know
// (KubeletJoins[kubelet]), the API server is asked at the endpoint of the cluster, with the
// bootstrap token, whether its bearer may ask for certificates, and the answer is told in
// KubeletJoinStatuses[kubelet].
//
// One request after another (a SelfSubjectAccessReview of authorization.k8s.io/v1, which keeps
// nothing), after pauses that double up to kLongestJoinPause and begin anew when the answer is
// another one; none after it was "yes". After a crash of this program it begins anew.
#pragma once

#include "machined/kubed/kubernetes-board.h"

namespace talos::kubed {

constexpr auto kFirstJoinPause = 500 * kj::MILLISECONDS, kLongestJoinPause = 4 * kj::SECONDS,
               kJoinAnswer = 5 * kj::SECONDS;

// Empty when the bearer of these credentials may ask for certificates; why not otherwise. Errors
// are those of the client.
kj::Promise<kj::String> whyNotJoin(kube::KubeClient& client);

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
  kj::Promise<kj::String> look();  // empty: accepted
  // None: there is nothing to be told any more.
  kj::Promise<void> tell(uint64_t number, kj::Maybe<kj::StringPtr> message);
  kj::Promise<void> replaced(uint64_t number);
};

}  // namespace talos::kubed
