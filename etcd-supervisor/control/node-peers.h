// Machine APIs of other control-plane nodes (TCP 50000, mutual TLS, role os:reader), and client
// ports of etcd.
//
// Each call has its own connection: calls are rare, and stop once this node is a member. Every call
// has a deadline; errors name the address and the cause.
#pragma once

#include <kj/async-io.h>
#include <kj/map.h>

#include "common/etcd/etcd-client.h"
#include "common/tls/tls.h"
#include "etcd-supervisor/membership/membership-dependencies.h"

namespace talos::supervisor {

class NodePeers final : public Peers {
 public:
  NodePeers(kj::AsyncIoContext& io, TlsEndpoint& api) : io(io), api(api) {}

  kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr host) override;
  kj::Promise<BootstrapState> bootstrapState(kj::StringPtr address, kj::StringPtr asker) override;
  kj::Promise<kj::Array<etcd::Member>> members(kj::StringPtr address) override;

 private:
  kj::AsyncIoContext& io;
  TlsEndpoint& api;
};

class EtcdClients final : public EtcdEndpoints {
 public:
  EtcdClients(kj::AsyncIoContext& io, TlsEndpoint& credentials)
      : io(io), credentials(credentials) {}

  etcd::Etcd& at(kj::StringPtr address) override;

 private:
  kj::AsyncIoContext& io;
  TlsEndpoint& credentials;
  kj::TreeMap<kj::String, kj::Own<etcd::EtcdClient>> clients;  // by address
};

}  // namespace talos::supervisor
