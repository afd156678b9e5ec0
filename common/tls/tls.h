// Mutual TLS 1.3 from PEM in memory, replaceable while it is in use.
//
// A Credentials value is immutable. A TlsEndpoint holds the current one; replace() takes effect for
// the next handshake, and connections that are already up go on with what they had, so a renewed
// certificate needs no restart and drops nothing.
//
// An endpoint can also serve clients that nobody can authenticate (a machine without a config); who
// came in that way is marked, and whoever hands out rights looks at the mark, not at what the
// endpoint does by now: a handshake may end later than the state that it began in.
#pragma once

#include <kj/async-io.h>
#include <kj/compat/tls.h>

#include "common/tls/pki.h"

namespace talos {

struct Credentials {
  kj::String authorities;  // PEM, one or more certificates: who is trusted
  kj::String certificate;  // PEM, leaf first
  pki::Pem key;
};

// Who is at the other end of a connection whose certificate was verified.
struct Peer {
  kj::String address;  // as text, for logs
  kj::String commonName;
  kj::Vector<kj::String> organizations;
  // Roles are the O entries that begin with "os:".
  bool anonymous = false;  // was not asked for a certificate: nothing is known but the address
  kj::String serial;       // of its certificate, hex
};

// The words of OpenSSL in the failure of a handshake, or of a read or write after it (a client
// learns only there that its certificate was refused): "certificate has expired: it is valid from …
// until …, and the clock here shows …".
kj::String tlsReason(const kj::Exception& e);

// accept() and connect() are virtual so that code which merely passes an endpoint on
// (common/wire/rpc-server.cc, common/wire/rpc-client.cc) does not link the TLS library into
// programs that only speak over Unix sockets.
class TlsEndpoint {
 public:
  // Throws InvalidArgument when certificate and key do not parse or do not belong together.
  explicit TlsEndpoint(Credentials credentials);
  // Refuses every handshake until it is given something.
  TlsEndpoint();
  virtual ~TlsEndpoint() noexcept(false);
  void replace(Credentials credentials);
  // From now on a server that asks its clients for no certificate, with this one (PEM).
  void replaceAnonymous(kj::StringPtr certificate, kj::StringPtr key);
  void close();
  // Server side: it speaks HTTP/2 besides, which clients that name what they speak (ALPN) are told.
  // Others are told of no protocol. Of handshakes that begin from now on.
  void speakH2() { h2 = true; }

  struct Accepted {
    kj::Own<kj::AsyncIoStream> stream;
    Peer peer;
  };
  // Server side: TLS 1.3, the client's certificate is required and verified. Rejects with a reason
  // that is fit for a log; never throws synchronously.
  virtual kj::Promise<Accepted> accept(kj::Own<kj::AsyncIoStream> stream, kj::String peerAddress);

  // Client side: the server's certificate must be signed by the authorities and name `expectedName`
  // (DNS or IP SAN).
  virtual kj::Promise<kj::Own<kj::AsyncIoStream>> connect(kj::Own<kj::AsyncIoStream> stream,
                                                          kj::StringPtr expectedName);

  // The same, and the server is told which protocol comes ("h2", ALPN): one that speaks several on
  // a port wants to know.
  kj::Promise<kj::Own<kj::AsyncIoStream>> connectAs(kj::StringPtr protocol,
                                                    kj::Own<kj::AsyncIoStream> stream,
                                                    kj::StringPtr expectedName);

  // The same for a server that may have no certificate yet, or no new one
  // (apid/gate/unverified-peers.h): one that it signed itself is taken, and one that has expired;
  // then `unproven` says which. Whoever calls this tells apart what may go over such a stream.
  struct Reached {
    kj::Own<kj::AsyncIoStream> stream;
    kj::Maybe<kj::String> unproven;
  };
  virtual kj::Promise<Reached> reach(kj::Own<kj::AsyncIoStream> stream, kj::StringPtr expectedName);

 private:
  struct State;
  kj::Own<State> state;
  bool h2 = false;
};

// The client's side towards a server of somebody else (https): TLS 1.2 or newer, no certificate of
// our own. Immutable. Making one reads every authority: milliseconds for a bundle of all that are
// public, hence not for the loop.
class TlsVerifier {
 public:
  // PEM, one or more certificates. InvalidArgument when there is none or one that does not parse.
  explicit TlsVerifier(kj::StringPtr authorities);
  ~TlsVerifier() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(TlsVerifier);

  // The server's certificate must be signed by one of the authorities and name `expectedName` (DNS
  // or IP SAN); otherwise Unauthenticated with the reason.
  kj::Promise<kj::Own<kj::AsyncIoStream>> connect(kj::Own<kj::AsyncIoStream> stream,
                                                  kj::StringPtr expectedName);

 private:
  kj::Own<kj::TlsContext> context;
};

}  // namespace talos
