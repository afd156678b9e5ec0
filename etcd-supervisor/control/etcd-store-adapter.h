// machined's store for membership: reads config, secrets and the service; writes EtcdSpecs,
// EtcdStatuses and EtcdMembers. Writes only what differs.
#pragma once

#include "common/etcd-data/snapshot-signature.h"
#include "common/wire/store-adapter.h"
#include "etcd-supervisor/membership/membership-dependencies.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::supervisor {

class StoreAdapter final : public MembershipStore {
 public:
  // `changed` is called for every change of the inputs, but not before the constructor has
  // returned. The endpoints get the certificates as soon as these exist: `member` for etcd's ports,
  // `api` for other nodes.
  StoreAdapter(StoreClient& store, TlsEndpoint& member, TlsEndpoint& api,
               kj::Function<void()> changed);
  ~StoreAdapter() noexcept(false);

  kj::Maybe<const Config&> config() override;
  bool running() override;
  kj::Vector<kj::String> sharedAddresses() override;
  kj::Vector<kj::String> kubernetesNodes() override;
  kj::Vector<Prefix> subnets() override;
  kj::Maybe<const Wanted&> wanted() override;
  kj::Promise<void> want(Wanted wanted) override;
  kj::Promise<void> publish(const Status& status,
                            kj::ArrayPtr<const etcd::Member> members) override;
  kj::Promise<void> publishSelfHosted(bool selfHosted);  // membership/bootstrap-status.h
  // Returns the CAs of members (PEM); empty until they are known.
  kj::String authorities();
  // Signs with the certificate of this node's member. Throws Unavailable until the certificate
  // exists.
  kj::Array<kj::byte> sign(const SnapshotStatement& statement);

 private:
  StoreClient& store;
  TlsEndpoint& member;
  TlsEndpoint& api;
  StoreInputs inputs;
  Watched<rpc::EtcdConfigSpec> configs;
  Watched<rpc::EtcdSecretsSpec> secrets;
  Watched<rpc::ServiceSpec> services;
  Watched<rpc::EtcdSpecSpec> specs;
  Watched<rpc::VipStatusSpec> vips;
  Watched<rpc::MemberSpec> members;
  Watched<rpc::AddressStatusSpec> addresses;
  kj::Maybe<Config> config_;
  kj::Maybe<Wanted> wanted_;
  bool hasSecrets = false;
  kj::String shared;  // shared addresses and their states at this node, at the last look

  void configChanged();
  void secretsChanged();
  void specsChanged();
  void vipsChanged();
};

}  // namespace talos::supervisor
