// The certificate of the node's API: decides how long it lasts, whether it suits the config and the
// node's addresses, and so when another one has to be requested. Pure, but for the clocks, which it
// only reads.
//
// While the node's clock is not set, no time is compared with it, and a lifetime is counted from
// the arrival of the certificate.
#pragma once

#include "apid/join/joiner.h"
#include "apid/join/requested-names.h"

namespace talos::apid {

class CurrentCertificate {
 public:
  struct Life {
    kj::Date notBefore, notAfter;
    kj::Duration length;  // since its issue
    kj::Date issued;
  };

  // Both arguments must outlive it.
  CurrentCertificate(kj::Timer& timer, const kj::Clock& clock)
      : receivedAt(timer.now()), timer(timer), clock(clock) {}
  KJ_DISALLOW_COPY_AND_MOVE(CurrentCertificate);

  kj::Maybe<Identity> identity;
  Names granted = Names::kAll;  // names of the identity's request
  bool stale = false;           // to be renewed in any case: the token has changed
  // When the identity was received, and the share of its life after which it is renewed.
  kj::TimePoint receivedAt;
  double renewalShare = 0.5;
  bool clockSet = false;
  kj::Vector<Ip> addresses;  // of the node
  // Addresses of the node when its certificate was requested. Later ones are requested when no
  // further one has come for a while.
  kj::Vector<Ip> attempted;

  // Returns nullptr while the clock is not set.
  kj::Maybe<kj::Date> now() const;
  static Life lifeOf(const pki::CertificateInfo& info);
  bool isValid(const Life& life) const;
  bool isOfOther(const JoinConfig& config) const;
  // Returns the time until the renewal; nullptr if a certificate has to be requested now.
  kj::Maybe<kj::Duration> untilNextRequest(const JoinConfig& config) const;
  // Returns true if the node has a valid certificate with names.
  bool hasNames(const JoinConfig& config) const;
  // Returns the addresses of this node that another node can call. trustd never signs a loopback or
  // link-local address.
  kj::Array<Ip> provable() const;
  // Returns true if the node has an address that is not in its certificate, and that did not exist,
  // or could not be proved, when this certificate was requested.
  bool hasNewAddress() const;

 private:
  kj::Timer& timer;
  const kj::Clock& clock;

  kj::Duration untilRenewal(const Life& life) const;
  bool isOwn(kj::StringPtr address) const;
  bool isUsable(const Identity& held, const pki::CertificateInfo& info,
                const JoinConfig& config) const;
  bool matches(const Identity& held, const pki::CertificateInfo& info,
               const JoinConfig& config) const;
  bool hasNewAddress(const Identity& held) const;
};

}  // namespace talos::apid
