// What apid is given by the node: its certificates, and what the node is called. Kept up to date
// from the store; a new certificate is used from the next handshake on, connections that are up go
// on.
//
// A certificate that does not parse, or does not belong to its key, is logged and the old one
// stays.
#pragma once

#include "apid/target.h"
#include "common/store-client.h"
#include "common/tls.h"

namespace talos::apid {

class Trust {
 public:
  // `hostname` is the kernel's, until the store knows better.
  Trust(StoreClient& store, kj::StringPtr hostname);
  ~Trust() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Trust);

  // Resolves once there are certificates.
  kj::Promise<void> ready() { return readiness.addBranch(); }
  // After ready().
  TlsEndpoint& server();
  TlsEndpoint& client();

  const Self& self() const { return known; }

 private:
  kj::String hostname;
  Self known;
  kj::Maybe<kj::Own<TlsEndpoint>> serverEnd, clientEnd;
  uint64_t version = 0;  // of the certificates in use
  kj::Own<kj::PromiseFulfiller<void>> becameReady;
  kj::ForkedPromise<void> readiness;
  kj::Own<Watched> certificates, addresses, names;

  void certificatesChanged();
  void selfChanged();
};

}  // namespace talos::apid
