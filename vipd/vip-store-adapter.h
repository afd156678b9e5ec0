// machined's store as vipd sees it. In: VipSpecs, HostnameSpecs, the services etcd and kubed,
// EtcdStatuses, EtcdSecrets/client and LocalApiStatuses. Out: VipStatuses.
//
// The TLS endpoint gets the certificate for etcd whenever it changes. Without it, or while etcd of
// this node is not healthy or leaves its cluster, the node is no candidate; nor is it while its API
// server does not answer, once it has (apiObstacle()).
#pragma once

#include "common/wire/store-adapter.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"
#include "vipd/vip-manager.h"

namespace talos::vipd {

// The problem of the API server that keeps this node from holding an address, if any. One that has
// not answered since the node was started is no problem: the address must be there before the first
// API server of a cluster is, and a node that has just been started is as good as before. A status
// that nobody updates any more does not count. Pure.
kj::Maybe<kj::String> apiObstacle(kj::Maybe<rpc::LocalApiStatusSpec::Reader> api, bool watched);

class StoreAdapter final : public VipStore {
 public:
  // `changed`: wanted() may have changed. All outlive it.
  StoreAdapter(StoreClient& store, TlsEndpoint& tls, kj::Function<void()> changed);
  ~StoreAdapter() noexcept(false);

  kj::Maybe<Wanted> wanted() override;
  kj::Promise<void> publish(kj::Array<Shown> shown) override;

 private:
  StoreClient& store;
  TlsEndpoint& tls;
  StoreInputs inputs;
  Watched<rpc::VipSpecSpec> specs;
  Watched<rpc::HostnameSpecSpec> hostnames;
  Watched<rpc::ServiceSpec> services;
  Watched<rpc::EtcdSecretsSpec> secrets;
  Watched<rpc::EtcdStatusSpec> memberships;
  Watched<rpc::ServiceSpec> watchers;  // kubed
  Watched<rpc::LocalApiStatusSpec> apis;
  kj::Maybe<kj::String> noCredentials;  // why there are none

  void takeCredentials();
  kj::Maybe<kj::String> obstacle();
};

}  // namespace talos::vipd
