// Issues certificates: decides about each request and the content of its certificate, and makes a
// record of each certificate.
//
// Owns the CA key while the process runs. The names of a certificate are in use when its caller
// gets it (Issued::names); a request that is refused or cancelled takes no name. After a restart
// the names in use are restored from the records that the caller kept (remember()); nothing else
// survives. No I/O and no waiting: a caller without the token that is in back-off gets the
// remaining time as an error, at no cost. A request with the right token, or with a certificate
// that it renews, is always processed.
//
// The caller looks up a join token (join-tokens.h), and spends it for the key of the request if
// issue() requires that, before the requester gets the certificate. A join token grants the same as
// machine.token, but to one key: the key that it was spent for. This holds also after the token's
// end, so that a node that lost an answer, or was off for long, can retry; another key gets
// nothing. A token that is bound to a host name grants this name and its first label, and no
// certificate without one of them.
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
  bool controlPlaneKnown = false;  // `reserved` names the other control-plane nodes
  bool anyAddress = false;
  kj::Duration lifetime = kDefaultLifetime;  // of issued certificates
};

// An issued certificate: its holder, content and times. Never the token.
struct Record {
  kj::String serial;       // hex
  kj::String fingerprint;  // hash of the key: base64 of SHA-256
  bool renewal = false;    // by the caller's earlier certificate, without the token
  Ip caller = Ip::any(AF_INET);
  kj::String joinToken = nullptr;  // id of the join token that was used
  kj::Vector<kj::String> dnsNames, addresses;
  kj::Date issued = kj::UNIX_EPOCH, notBefore = kj::UNIX_EPOCH, notAfter = kj::UNIX_EPOCH;
};

class Issuer {
 public:
  Issuer(const kj::Clock& clock, const kj::MonotonicClock& monotonic);

  // Throws InvalidArgument if the key does not belong to the certificate; then the previous CA
  // stays.
  void use(Authority authority);
  void forgetAuthority();
  // Enters a certificate that was issued before a restart: its names are in use.
  void remember(const Record& record);

  struct Issued {
    kj::String authority, certificate;  // PEM
    Record record;                      // to store before the caller gets the certificate
    bool spends = false;                // Spend the join token for the fingerprint of the record.
    NameBook::Hold names;               // to enter when the record is stored
  };
  // Throws the errors of rpc/trust.capnp. `proofs`: results of prove(), at most kMostProofs.
  static constexpr size_t kMostProofs = 16;
  Issued issue(kj::StringPtr request, kj::StringPtr token, const Ip& caller,
               kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> proofs = nullptr,
               HeldCertificate given = {}, kj::Maybe<const ShownToken&> shown = nullptr);
  // Throws unless the token is spent for the key of the issued certificate.
  void requireSpent(const Issued& issued, const ShownToken& spent, const Ip& caller);
  // Returns a proof that the caller has this address. Throws the same errors. A join token need not
  // be unused, because this call does not carry the key.
  kj::Array<kj::byte> prove(kj::StringPtr token, const Ip& caller, HeldCertificate given = {},
                            kj::Maybe<const ShownToken&> shown = nullptr);

  // Sets this node's addresses, for callers with several addresses.
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
    kj::Maybe<pki::CertificateInfo> renews;  // nullptr: the caller has a token, or nothing is
                                             // renewed
    kj::Maybe<const ShownToken&> join;       // join token that may grant a certificate, to the
                                             // right key
    // True if the caller need not guess machine.token: it knows this token, or an unused join
    // token. With a certificate, or its own spent token, it could keep guessing without any delay.
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
