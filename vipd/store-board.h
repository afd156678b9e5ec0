// What machined's store says of shared addresses and of etcd, and the way back: VipSpecs,
// HostnameSpecs, the service etcd, EtcdStatuses and EtcdSecrets/client, and VipStatuses.
//
// The certificate for etcd is given to the TLS endpoint whenever it changes. Without it, or while
// etcd of this node is not healthy or leaves its cluster, the node is no candidate.
#pragma once

#include "common/tls/tls.h"
#include "common/wire/store-client.h"
#include "rpc/types.capnp.h"
#include "vipd/vips.h"

namespace talos::vipd {

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
  kj::Maybe<kj::String> noCredentials;  // why there are none

  void takeCredentials();
  kj::Maybe<kj::String> obstacle();
};

}  // namespace talos::vipd
