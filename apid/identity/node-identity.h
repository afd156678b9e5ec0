// What apid is given by the node: its certificates, and what the node is called. Kept up to date
// from the store; a new certificate is used from the next handshake on, connections that are up go
// on.
//
// A machine without the authority's key gets its certificate from trustd (apid/join/join-service.h): it has
// one for a server and none towards other machines. Until then it shows one that it signed itself,
// and asks its clients for one of the authority that the config names, as ever.
//
// A certificate that does not parse, or does not belong to its key, is logged and the old one
// stays; but the throw-away one of maintenance mode never outlives it: whatever else the store says
// ends that mode here.
#pragma once

#include "apid/identity/target.h"
#include "common/tls/tls.h"
#include "common/wire/store-client.h"
#include "rpc/types.capnp.h"

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
