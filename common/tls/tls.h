// Mutual TLS 1.3 from PEM in memory, replaceable while it is in use.
//
// A Credentials value is immutable. A TlsEndpoint holds the current value; replace() takes effect
// for the next handshake, and existing connections keep the value with which they began, so a
// renewed certificate needs no restart and breaks no connection.
//
// An endpoint can also serve clients that cannot be authenticated (a node without a config). Such
// peers are marked anonymous. Code that grants rights must check the mark and not the current state
// of the endpoint, because the state may change before a handshake ends.
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

// The other end of a connection, identified by its verified certificate.
struct Peer {
  kj::String address;  // text for logs
  kj::String commonName;
  kj::Vector<kj::String> organizations;
  // Roles: the O entries that begin with "os:".
  bool anonymous = false;  // sent no certificate: only the address is known
  kj::String serial;       // of the peer's certificate, hex
};

// Returns OpenSSL's error text from the failure of a handshake, or of a read or write after it (a
// client learns only there that its certificate was refused): "certificate has expired: it is valid
// from … until …, and the clock here shows …".
kj::String tlsErrorText(const kj::Exception& e);

// TLS for a server and its clients. accept() and connect() are virtual so that code that merely
// passes an endpoint on (common/wire/rpc-server.cc, common/wire/rpc-client.cc) does not link the
// TLS library into programs that only use Unix sockets.
class TlsEndpoint {
 public:
  // Throws InvalidArgument if certificate and key do not parse or do not belong together.
  explicit TlsEndpoint(Credentials credentials);
  // Refuses every handshake until it has credentials.
  TlsEndpoint();
  virtual ~TlsEndpoint() noexcept(false);
  void replace(Credentials credentials);
  // Makes this endpoint, from now on, a server with this certificate (PEM) that requests no
  // certificates from its clients.
  void replaceAnonymous(kj::StringPtr certificate, kj::StringPtr key);
  void close();
  // Server side: accepts clients without a certificate as anonymous peers, from the next replace()
  // on. A certificate that is not valid is still refused.
  void makeClientsOptional() { clientsOptional = true; }
  // Server side: selects "h2" for clients that offer it (ALPN), in handshakes started from now on.
  void enableHttp2() { http2 = true; }

  struct Accepted {
    kj::Own<kj::AsyncIoStream> stream;
    Peer peer;
  };
  // Server side: TLS 1.3; the client's certificate is required and verified. Rejects with an error
  // for a log; never throws synchronously.
  virtual kj::Promise<Accepted> accept(kj::Own<kj::AsyncIoStream> stream, kj::String peerAddress);

  // Client side: the server's certificate must be signed by one of the authorities and name
  // `expectedName` (DNS or IP SAN).
  virtual kj::Promise<kj::Own<kj::AsyncIoStream>> connect(kj::Own<kj::AsyncIoStream> stream,
                                                          kj::StringPtr expectedName);

  // Does the same, and returns the certificate that the server sent.
  struct Identified {
    kj::Own<kj::AsyncIoStream> stream;
    pki::CertificateInfo certificate;
  };
  kj::Promise<Identified> connectIdentified(kj::Own<kj::AsyncIoStream> stream,
                                            kj::StringPtr expectedName);

  // Does the same as connect(), offering a protocol ("h2", ALPN), for servers with several
  // protocols on one port.
  kj::Promise<kj::Own<kj::AsyncIoStream>> connectWithAlpn(kj::StringPtr protocol,
                                                          kj::Own<kj::AsyncIoStream> stream,
                                                          kj::StringPtr expectedName);

  // Does the same for a server that may have no certificate yet, or no new one
  // (apid/gate/unverified-peers.h): accepts a self-signed certificate and an expired one, and then
  // sets `verificationError`. The caller must restrict what it sends over such a stream.
  struct TolerantConnection {
    kj::Own<kj::AsyncIoStream> stream;
    kj::Maybe<kj::String> verificationError;
    pki::CertificateInfo certificate;  // the server's; empty if it is not verified
  };
  virtual kj::Promise<TolerantConnection> connectTolerant(kj::Own<kj::AsyncIoStream> stream,
                                                          kj::StringPtr expectedName);

 private:
  struct State;
  kj::Own<State> state;
  bool http2 = false, clientsOptional = false;
};

// TLS client for servers of third parties (https): TLS 1.2 or newer, without a client certificate.
// Immutable. The constructor parses every CA: milliseconds for a bundle of all public CAs, so it
// must not be called in the event loop.
class TlsVerifier {
 public:
  // `authorities`: PEM, one or more certificates. Throws InvalidArgument if there is no
  // certificate or one does not parse.
  explicit TlsVerifier(kj::StringPtr authorities);
  ~TlsVerifier() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(TlsVerifier);

  // Connects. The server's certificate must be signed by one of the authorities and name
  // `expectedName` (DNS or IP SAN); otherwise fails with Unauthenticated and the error.
  kj::Promise<kj::Own<kj::AsyncIoStream>> connect(kj::Own<kj::AsyncIoStream> stream,
                                                  kj::StringPtr expectedName);
  // Does the same, offering a protocol ("h2", ALPN). Servers of gRPC may refuse other clients.
  kj::Promise<kj::Own<kj::AsyncIoStream>> connectWithAlpn(kj::StringPtr protocol,
                                                          kj::Own<kj::AsyncIoStream> stream,
                                                          kj::StringPtr expectedName);

 private:
  kj::Own<kj::TlsContext> context;
};

}  // namespace talos
