// Finds members by their certificates, and leads connections of this node's etcd to them
// (plan/moved-member.h).
//
// find() connects to port 2380 of each address and verifies the certificate that the peer sends in
// the handshake (TLS 1.3): by a CA of cluster.etcd.ca, for servers, valid now. It sends no
// certificate and no data, so a stranger learns only that there was a connection.
//
// The proxy listens on 127.0.0.1, and knows CONNECT to port 2380 of an address
// (plan/connect-request.h). It sees TLS between the members, and has no part in it. Any program of
// the node can connect to it, and reach no more by it than without: it has no rights that a program
// on the node's network lacks. A connection that cannot be made is reset; etcd retries by itself.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>

#include <map>
#include <string>

#include "common/base/node-layout.h"
#include "etcd-supervisor/membership/membership-dependencies.h"

namespace talos::supervisor {

class MemberProxy final : public MemberRoutes {
 public:
  // `authorities`: returns the CAs of members (PEM), empty if they are not known. `port`: where it
  // listens, and where members listen, for tests.
  MemberProxy(kj::AsyncIoContext& io, kj::Function<kj::String()> authorities,
              uint16_t port = kEtcdProxyPort, uint16_t peerPort = kEtcdPeerPort)
      : io(io), authorities(kj::mv(authorities)), port(port), peerPort(peerPort) {}

  kj::Promise<kj::Array<FoundMember>> find(kj::Vector<kj::String> places) override;
  void lead(kj::Vector<MemberRoute> routes) override;

 private:
  struct Way {
    kj::Vector<kj::String> addresses;
    size_t next = 0;
  };

  kj::AsyncIoContext& io;
  kj::Function<kj::String()> authorities;
  uint16_t port, peerPort;
  std::map<std::string, Way> ways;  // by the host of the peer URL
  kj::Maybe<kj::Promise<void>> serving;

  kj::Promise<kj::Maybe<FoundMember>> identify(kj::String address, kj::StringPtr trusted);
  kj::Promise<kj::Own<kj::AsyncIoStream>> serve(kj::AsyncIoStream& client);
};

}  // namespace talos::supervisor
