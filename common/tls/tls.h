// Mutual TLS 1.3 from PEM in memory, replaceable while it is in use.
//
// A Credentials value is immutable. A TlsEndpoint holds the current one; replace() takes effect for
// the next handshake, and connections that are already up go on with what they had, so a renewed
// certificate needs no restart and drops nothing.
//
// An endpoint can also serve clients that cannot be authenticated (a node without a config). Such
// peers are marked anonymous; code that grants rights must check the mark and not the current state
// of the endpoint: a handshake may end after the state in which it started.
#pragma once

#include <kj/async-io.h>
#include <kj/compat/tls.h>

#include "common/tls/pki.h"

namespace talos {

struct Credentials {
  kj::String authorities;  // PEM, one or more trusted CA certificates
  kj::String certificate;  // PEM, leaf first
  pki::Pem key;
};

// The other end of a connection, by its verified certificate.
struct Peer {
  kj::String address;  // as text, for logs
  kj::String commonName;
  kj::Vector<kj::String> organizations;
  // Roles are the O entries that begin with "os:".
  bool anonymous = false;  // it showed no certificate: only the address is known
  kj::String serial;       // of its certificate, hex
};

// OpenSSL's error text in the failure of a handshake, or of a read or write after it (a client
// learns only there that its certificate was refused): "certificate has expired: it is valid from …
// until …, and the clock here shows …".
kj::String tlsErrorText(const kj::Exception& e);

// accept() and connect() are virtual so that code which merely passes an endpoint on
// (common/wire/rpc-server.cc, common/wire/rpc-client.cc) does not link the TLS library into
// programs that only speak over Unix sockets.
class TlsEndpoint {
 public:
  // Throws InvalidArgument when certificate and key do not parse or do not belong together.
  explicit TlsEndpoint(Credentials credentials);
  // Refuses every handshake until it has credentials.
  TlsEndpoint();
  virtual ~TlsEndpoint() noexcept(false);
  void replace(Credentials credentials);
  // From now on a server with this certificate (PEM), which requests none from its clients.
  void replaceAnonymous(kj::StringPtr certificate, kj::StringPtr key);
  void close();
  // Server side: clients without a certificate are accepted as anonymous peers, from the next
  // replace() on. A certificate that is not valid is refused as always.
  void makeClientsOptional() { clientsOptional = true; }
  // Server side: selects "h2" for clients that offer it (ALPN), in handshakes started from now on.
  void enableHttp2() { http2 = true; }

  struct Accepted {
    kj::Own<kj::AsyncIoStream> stream;
    Peer peer;
  };
  // Server side: TLS 1.3, the client's certificate is required and verified. Rejects with an error
  // that is fit for a log; never throws synchronously.
  virtual kj::Promise<Accepted> accept(kj::Own<kj::AsyncIoStream> stream, kj::String peerAddress);

  // Client side: the server's certificate must be signed by the authorities and name `expectedName`
  // (DNS or IP SAN).
  virtual kj::Promise<kj::Own<kj::AsyncIoStream>> connect(kj::Own<kj::AsyncIoStream> stream,
                                                          kj::StringPtr expectedName);

  // The same, with the certificate that the server has shown.
  struct Identified {
    kj::Own<kj::AsyncIoStream> stream;
    pki::CertificateInfo certificate;
  };
  kj::Promise<Identified> connectIdentified(kj::Own<kj::AsyncIoStream> stream,
                                            kj::StringPtr expectedName);

  // The same as connect(), offering a protocol ("h2", ALPN), for servers with several protocols on
  // one port.
  kj::Promise<kj::Own<kj::AsyncIoStream>> connectWithAlpn(kj::StringPtr protocol,
                                                          kj::Own<kj::AsyncIoStream> stream,
                                                          kj::StringPtr expectedName);

  // The same for a server that may have no certificate yet, or no new one
  // (apid/gate/unverified-peers.h): accepts a self-signed certificate and an expired one; then
  // `verificationError` says which. The caller must restrict what goes over such a stream.
  struct TolerantConnection {
    kj::Own<kj::AsyncIoStream> stream;
    kj::Maybe<kj::String> verificationError;
    pki::CertificateInfo certificate;  // of the server; empty if it is not verified
  };
  virtual kj::Promise<TolerantConnection> connectTolerant(kj::Own<kj::AsyncIoStream> stream,
                                                          kj::StringPtr expectedName);

 private:
  struct State;
  kj::Own<State> state;
  bool http2 = false, clientsOptional = false;
};

// TLS client for servers of third parties (https): TLS 1.2 or newer, no certificate of our own.
// Immutable. The constructor parses every CA: milliseconds for a bundle of all public ones, hence
// not to be called in the event loop.
class TlsVerifier {
 public:
  // PEM, one or more certificates. InvalidArgument when there is none or one that does not parse.
  explicit TlsVerifier(kj::StringPtr authorities);
  ~TlsVerifier() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(TlsVerifier);

  // The server's certificate must be signed by one of the authorities and name `expectedName` (DNS
  // or IP SAN); otherwise Unauthenticated with the error.
  kj::Promise<kj::Own<kj::AsyncIoStream>> connect(kj::Own<kj::AsyncIoStream> stream,
                                                  kj::StringPtr expectedName);

 private:
  kj::Own<kj::TlsContext> context;
};

}  // namespace talos
