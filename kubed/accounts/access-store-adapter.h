// Inputs of kubed for the access of pods to the machine API, from machined's store: the policy of
// the config, the addresses of the control plane, and the signer of certificates.
#pragma once

#include "common/base/signal.h"
#include "common/wire/store-client.h"
#include "kubed/accounts/pod-account.h"
#include "rpc/access-resources.capnp.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::kubed {

struct SignedAccount {
  kj::String ca, certificate;  // PEM
};

class AccessStoreAdapter {
 public:
  // All arguments must outlive this object. `changed` is raised after each change of the methods'
  // results.
  AccessStoreAdapter(kj::Timer& timer, StoreClient& store, Signal& changed);
  KJ_DISALLOW_COPY_AND_MOVE(AccessStoreAdapter);

  // Returns the policy; nullptr if the config does not enable the access.
  kj::Maybe<AccessPolicy> policy() const;
  kj::Vector<kj::String> apiAddresses() const;

  // Returns a certificate for the key of a request, PKCS#10 as PEM. machined signs it: it has the
  // key of the CA and checks the config's policy itself. One call at a time. Fails with
  // PermissionDenied and machined's error if machined refuses.
  kj::Promise<SignedAccount> sign(const PodAccount& account, kj::StringPtr request,
                                  uint64_t number);

 private:
  kj::Timer& timer;
  StoreClient& store;
  Signal answered;
  Watched<rpc::KubernetesAccessConfigSpec> configs;
  Watched<rpc::ApiEndpointsSpec> endpoints;
  Watched<rpc::PodCertificateSpec> certificates;

  kj::Promise<SignedAccount> answer(uint64_t number);
};

}  // namespace talos::kubed
