// The identity of this node in apid: its certificates, names and addresses, kept up to date from
// the store. A new certificate is used from the next handshake on; open connections continue.
//
// A node without the CA key gets its certificate from trustd (apid/join/join-service.h): a server
// certificate, and none for connections to other nodes. Until then it shows a self-signed
// certificate, and requires client certificates of the config's CA as always.
//
// A certificate that is malformed, or does not belong to its key, is logged and the previous one
// stays in use. Only the temporary certificate of maintenance mode never stays: any other content
// of the store ends this mode in this process.
#pragma once

#include "apid/identity/call-target.h"
#include "common/tls/tls.h"
#include "common/wire/store-client.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::apid {

class NodeIdentity {
 public:
  // `hostname` is the kernel's host name, used until the store has one.
  NodeIdentity(StoreClient& store, kj::StringPtr hostname);
  ~NodeIdentity() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(NodeIdentity);

  // Sets the CA (PEM) of a node that waits for its certificate and shows a self-signed one until
  // then. Empty: this node does not wait, or does not know the CA yet and cannot admit clients.
  void setJoinAuthority(kj::StringPtr authority);

  // Resolves once the node has a certificate, perhaps a self-signed one.
  kj::Promise<void> ready() { return readiness.addBranch(); }
  // Both endpoints refuse every handshake without a certificate. In maintenance mode client() does
  // not exist.
  TlsEndpoint& server() { return serverEnd; }
  TlsEndpoint& client() { return clientEnd; }
  // The endpoint for metrics: clients may come without a certificate. Closed while the node has no
  // certificate that clients can verify.
  TlsEndpoint& metrics() { return metricsEnd; }
  // Returns true if calls can be forwarded: false on a node whose certificate is from trustd.
  bool mayForward() const { return forwards; }

  // Returns true if the node has no config: then no client has a certificate.
  bool inMaintenance() const { return maintenance != nullptr; }
  // Resolves when the current maintenance mode has ended; at once if the node is not in it.
  kj::Promise<void> maintenanceEnded();

  const Self& self() const { return known; }

 private:
  kj::String hostname;
  Self known;
  TlsEndpoint serverEnd, clientEnd, metricsEnd;
  struct Maintenance {
    kj::Own<kj::PromiseFulfiller<void>> end;
    kj::ForkedPromise<void> ended;
  };
  kj::Maybe<Maintenance> maintenance;
  uint64_t version = 0;  // version of the certificates in use
  bool serves = false, forwards = false;
  kj::String joinAuthority;
  kj::Own<kj::PromiseFulfiller<void>> becameReady;
  kj::ForkedPromise<void> readiness;
  Watched<rpc::ApiCertificateSpec> certificates;
  Watched<rpc::NodeAddressSpec> addresses;
  Watched<rpc::HostnameSpecSpec> names;
  Watched<rpc::MemberSpec> members;

  void certificatesChanged();
  void use(rpc::ApiCertificateSpec::Reader spec);
  void selfSignIfNeeded();
  void useSelfSigned();
  void beginMaintenance();
  void endMaintenance();
  void selfChanged();
};

}  // namespace talos::apid
