// machined's store as vipd sees it. In: VipSpecs, VipCredentials, HostnameSpecs, the services etcd
// and kubed, EtcdStatuses, EtcdSecrets/client, LocalApiStatuses and PlatformMetadatas. Out:
// VipStatuses.
//
// The TLS endpoint gets the certificate for etcd whenever it changes. The node is not a candidate
// without this certificate, or while its etcd is not healthy or leaves its cluster. It is not a
// candidate either while its API server fails to answer after having answered once (apiObstacle()).
#pragma once

#include "common/wire/store-adapter.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"
#include "vipd/vip-manager.h"

namespace talos::vipd {

// Returns the API server's problem that keeps this node from holding an address, if any. An API
// server that has not answered since the node started is not a problem: the address must exist
// before the first API server of a cluster does, and a freshly started node is as good as before. A
// status that is no longer updated is ignored. Pure.
kj::Maybe<kj::String> apiObstacle(kj::Maybe<rpc::LocalApiStatusSpec::Reader> api, bool watched);

// Returns the address as the specs say it; `credentials` are those of its provider. Pure.
Wanted::Vip wantedVip(const Ip& address, rpc::VipSpecSpec::Reader spec,
                      kj::Maybe<rpc::VipCredentialsSpec::Reader> credentials);

class StoreAdapter final : public VipStore {
 public:
  // `changed` is called when wanted() may have changed. All arguments outlive the adapter.
  StoreAdapter(StoreClient& store, TlsEndpoint& tls, kj::Function<void()> changed);
  ~StoreAdapter() noexcept(false);

  kj::Maybe<Wanted> wanted() override;
  kj::Promise<void> publish(kj::Array<Shown> shown) override;

 private:
  StoreClient& store;
  TlsEndpoint& tls;
  StoreInputs inputs;
  Watched<rpc::VipSpecSpec> specs;
  Watched<rpc::VipCredentialsSpec> tokens;
  Watched<rpc::PlatformMetadataSpec> platforms;
  Watched<rpc::HostnameSpecSpec> hostnames;
  Watched<rpc::ServiceSpec> services;
  Watched<rpc::EtcdSecretsSpec> secrets;
  Watched<rpc::EtcdStatusSpec> memberships;
  Watched<rpc::ServiceSpec> watchers;  // watches kubed
  Watched<rpc::LocalApiStatusSpec> apis;
  kj::Maybe<kj::String> noCredentials;  // why the credentials are missing

  void takeCredentials();
  kj::Maybe<kj::String> obstacle();
};

}  // namespace talos::vipd
