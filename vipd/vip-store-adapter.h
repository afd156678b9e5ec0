// What machined's store says of shared addresses, of etcd and of the API server of this node, and
// the way back: VipSpecs, HostnameSpecs, the services etcd and kubed, EtcdStatuses,
// EtcdSecrets/client and LocalApiStatuses, and VipStatuses.
//
// The certificate for etcd is given to the TLS endpoint whenever it changes. Without it, or while
// etcd of this node is not healthy or leaves its cluster, the node is no candidate; nor is it while
// its API server does not answer, once it has (apiObstacle()).
#pragma once

#include "common/tls/tls.h"
#include "common/wire/store-client.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"
#include "vipd/vip-manager.h"

namespace talos::vipd {

// Why the API server keeps this node from holding an address; none: it does not. One that has not
// answered since the node was started is no reason: the address must be there before the first API
// server of a cluster is, and a node that has just been started is as good as before. What nobody
// looks after any more counts for nothing. Pure.
kj::Maybe<kj::String> apiObstacle(kj::Maybe<rpc::LocalApiStatusSpec::Reader> api, bool watched);

class StoreBoard final : public Board {
 public:
  // `changed`: wanted() may say something else. All outlive it.
  StoreBoard(StoreClient& store, TlsEndpoint& tls, kj::Function<void()> changed);
  ~StoreBoard() noexcept(false);

  kj::Maybe<Wanted> wanted() override;
  kj::Promise<void> publish(kj::Array<Shown> shown) override;

 private:
  StoreClient& store;
  TlsEndpoint& tls;
  kj::Function<void()> changed;
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
