// Issues certificates: decides who gets one and what it contains, and makes a record of each.
//
// Owns the CA key while the process runs. The names of a certificate are in use when its caller
// gets it (Issued::names); a request that is refused, or that is cancelled, takes none. After a
// restart the names in use are restored from the records that the caller kept (remember()); nothing
// else survives. No I/O and no waiting: a caller without the token that is in back-off gets the
// remaining time as an error, at no cost. A request with the right token, or with a certificate
// that it renews, is always processed.
//
// A join token is looked up by the caller (join-tokens.h), who spends it for the key of the request
// when issue() says so, before anybody gets the certificate. It gives what machine.token gives, to
// one key: that it was spent for, also after its end, so that a node that lost an answer, or was
// off for long, asks again; to no other one. Bound to a host name, it gives that name and its first
// label, and no certificate without one of them.
#pragma once

#include <kj/timer.h>

#include "common/tls/node-certificate.h"
#include "common/wire/log-line-limit.h"
#include "trustd/address-proofs.h"
#include "trustd/held-certificate.h"
#include "trustd/join-tokens.h"
#include "trustd/request-throttle.h"
#include "trustd/signing-policy.h"

namespace talos::trustd {

struct Authority {
  kj::String certificate;  // PEM
  pki::Pem key;
  pki::Pem token;  // machine.token
  Reserved reserved;
  bool controlPlaneKnown = false;  // `reserved` has the other control-plane nodes
  bool anyAddress = false;
  kj::Duration lifetime = kDefaultLifetime;  // of what is issued
};

// One issued certificate: who, what, when. Never the token.
struct Record {
  kj::String serial;       // hex
  kj::String fingerprint;  // of the key: base64 of SHA-256
  bool renewal = false;    // by the certificate that the caller had, without the token
  Ip caller = Ip::any(AF_INET);
  kj::String joinToken = nullptr;  // the id of the one that it is for
  kj::Vector<kj::String> dnsNames, addresses;
  kj::Date issued = kj::UNIX_EPOCH, notBefore = kj::UNIX_EPOCH, notAfter = kj::UNIX_EPOCH;
};

class Issuer {
 public:
  Issuer(const kj::Clock& clock, const kj::MonotonicClock& monotonic);

  // InvalidArgument when the key does not belong to the certificate; then the previous CA stays.
  void use(Authority authority);
  void forgetAuthority();
  // A certificate that was issued before a restart: its names are taken.
  void remember(const Record& record);

  struct Issued {
    kj::String authority, certificate;  // PEM
    Record record;                      // to be kept before the caller gets the certificate
    bool spends = false;                // the join token, for the fingerprint of the record
    NameBook::Hold names;               // to be entered when the record is kept
  };
  // Throws the errors of rpc/trust.capnp. `proofs`: of prove(), at most kMostProofs.
  static constexpr size_t kMostProofs = 16;
  Issued issue(kj::StringPtr request, kj::StringPtr token, const Ip& caller,
               kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> proofs = nullptr,
               HeldCertificate given = {}, kj::Maybe<const ShownToken&> shown = nullptr);
  // Throws unless the token is spent for the key of what was issued.
  void requireSpent(const Issued& issued, const ShownToken& spent, const Ip& caller);
  // A proof that the caller has this address. The same errors. A join token need not be unused: the
  // key is in no call but the other one.
  kj::Array<kj::byte> prove(kj::StringPtr token, const Ip& caller, HeldCertificate given = {},
                            kj::Maybe<const ShownToken&> shown = nullptr);

  // Addresses of this node, for callers that have several of their own.
  void setServers(kj::Array<Ip> addresses) { servers = kj::mv(addresses); }
  kj::ArrayPtr<const Ip> serverAddresses() const { return servers; }

 private:
  struct Held {
    Authority authority;
    pki::Signer signer;
  };
  const kj::Clock& clock;
  const kj::MonotonicClock& monotonic;
  kj::Maybe<Held> held;
  NameBook book;
  AddressProofs proofs;
  kj::Array<Ip> servers;
  Throttle throttle;
  LineLimit lines;

  struct Access {
    const Held& by;
    kj::Maybe<pki::CertificateInfo> renews;  // none: the caller has a token, or nothing is renewed
    kj::Maybe<const ShownToken&> join;       // one that may give a certificate, to the right key
    // Guesses of machine.token are over: the caller knows it, or a token that nobody has used. With
    // a certificate, or a token of its own, it could guess on without any delay.
    bool provesToken = false;
  };
  Access authorize(kj::StringPtr token, const HeldCertificate& given, kj::StringPtr message,
                   const Ip& caller, kj::Maybe<const ShownToken&> shown);
  [[noreturn]] void refuseShown(const ShownToken& shown, const Ip& caller,
                                kj::Maybe<kj::String> ofCertificate);
  [[noreturn]] void refuseToken(const Ip& caller, kj::Maybe<kj::String> ofCertificate);
  void logRefused(const Ip& caller, kj::StringPtr error);
  kj::Vector<Ip> provenBy(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> proofs) const;
  Issued sign(const Access& access, kj::StringPtr request, const Ip& caller,
              kj::ArrayPtr<const Ip> proven);
};

}  // namespace talos::trustd
