// The inputs of trustd, kept up to date from the store: the CA, the rules for issuing, the node's
// addresses and names. The issuer gets the CA; the TLS endpoint gets a server certificate that this
// class makes.
//
// The CA signs the server certificate, for the same names as port 50000's. It is renewed at half of
// its lifetime, when names, lifetime or CA change, and when the clock was set so that it is not
// valid; new handshakes use the new certificate. Unusable secrets (a key that does not belong to
// its certificate) are logged and the previous ones stay. When the secrets are removed, the issuer
// refuses all requests.
#pragma once

#include "common/tls/tls.h"
#include "common/wire/store-client.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"
#include "trustd/issuer.h"

namespace talos::trustd {

class Secrets {
 public:
  // All arguments must outlive it.
  Secrets(StoreClient& store, kj::Timer& timer, const kj::Clock& clock, Issuer& issuer);
  ~Secrets() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Secrets);

  // Resolves once the server certificate exists.
  kj::Promise<void> ready() { return readiness.addBranch(); }
  TlsEndpoint& endpoint() { return tls; }
  // Returns the version of the resource that was processed last; 0 if none was.
  uint64_t processedVersion() const { return version; }

 private:
  kj::Timer& timer;
  const kj::Clock& clock;
  Issuer& issuer;
  TlsEndpoint tls;
  kj::Maybe<pki::CertificateInfo> serving;
  kj::String servingFor;  // the CA that signed the server certificate
  uint64_t version = 0;   // version of the last processed secrets
  bool usable = false;    // the secrets are valid
  kj::Own<kj::PromiseFulfiller<void>> becameReady;
  kj::ForkedPromise<void> readiness;
  Watched<rpc::RootSecretSpec> secrets;
  Watched<rpc::NodeAddressSpec> addresses;
  Watched<rpc::HostnameSpecSpec> names;
  kj::Promise<void> renewal = nullptr;

  void secretsChanged();
  void setServers();
  kj::Maybe<rpc::RootSecretSpec::OsRoot::Reader> find() const;
  NodeNames namesOf(rpc::RootSecretSpec::OsRoot::Reader os) const;
  void certify();
  void makeCertificate(rpc::RootSecretSpec::OsRoot::Reader os, const NodeNames& names);
  kj::Promise<void> certifyRegularly();
};

}  // namespace talos::trustd
