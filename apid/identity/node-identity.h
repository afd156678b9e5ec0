// The identity of apid: the node's certificates, names and addresses, kept up to date from the
// store. A new certificate is used from the next handshake on; open connections continue.
//
// A node without the CA key gets its certificate from trustd (apid/join/join-service.h): a server
// certificate, and none towards other nodes. Until then it shows a self-signed one, and asks
// clients for a certificate of the config's CA as always.
//
// A certificate that is malformed, or does not belong to its key, is logged and the previous one
// stays. Only the throw-away certificate of maintenance mode never stays: any other content of the
// store ends that mode here.
#pragma once

#include "apid/identity/call-target.h"
#include "common/tls/tls.h"
#include "common/wire/store-client.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::apid {

class Trust {
 public:
  // `hostname` is the kernel's, until the store knows better.
  Trust(StoreClient& store, kj::StringPtr hostname);
  ~Trust() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Trust);

  // The authority (PEM) of a machine that has to wait for its certificate. Empty: this machine does
  // not, or the authority is to come too, and nobody can be let in before.
  void joins(kj::StringPtr authority);

  // Resolves once there are certificates, or a stand-in for them.
  kj::Promise<void> ready() { return readiness.addBranch(); }
  // They refuse every handshake while there is nothing for it. In maintenance mode there is no
  // client.
  TlsEndpoint& server() { return serverEnd; }
  TlsEndpoint& client() { return clientEnd; }
  // Whether calls can be forwarded at all: not by a machine that trustd gave its certificate.
  bool mayForward() const { return forwards; }

  // The machine has no config: nobody has a certificate to show.
  bool inMaintenance() const { return maintenance != nullptr; }
  // Resolves when the maintenance of now is over; at once when there is none.
  kj::Promise<void> maintenanceOver();

  const Self& self() const { return known; }

 private:
  kj::String hostname;
  Self known;
  TlsEndpoint serverEnd, clientEnd;
  struct Maintenance {
    kj::Own<kj::PromiseFulfiller<void>> end;
    kj::ForkedPromise<void> over;
  };
  kj::Maybe<Maintenance> maintenance;
  uint64_t version = 0;  // of the certificates in use
  bool serves = false, forwards = false;
  kj::String joinAuthority;
  kj::Own<kj::PromiseFulfiller<void>> becameReady;
  kj::ForkedPromise<void> readiness;
  Watched<rpc::ApiCertificateSpec> certificates;
  Watched<rpc::NodeAddressSpec> addresses;
  Watched<rpc::HostnameSpecSpec> names;

  void certificatesChanged();
  void use(rpc::ApiCertificateSpec::Reader spec);
  void standIn();
  void useStandIn();
  void beginMaintenance();
  void endMaintenance();
  void selfChanged();
};

}  // namespace talos::apid
