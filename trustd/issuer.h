// Requests in, certificates out: who may have one, what is in it, and a record of each.
//
// Owns the authority's key while the process lives. Nothing is kept over a restart but what the
// caller of `record` keeps: after a crash the name book is filled from there (remember()). No I/O
// and no waiting: an address that has to wait is told so and costs nothing meanwhile.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "trustd/policy.h"
#include "trustd/throttle.h"

namespace talos::trustd {

constexpr auto kLifetime = 24 * kj::HOURS;
constexpr auto kBackdated = 5 * kj::MINUTES;  // for machines whose clock is behind

struct Authority {
  kj::String certificate;  // PEM
  pki::Pem key;
  pki::Pem token;  // machine.token
  Reserved reserved;
  bool anyAddress = false;
};

// One issued certificate: who, what, when. Never the token.
struct Record {
  kj::String serial;  // hex
  Ip caller = Ip::any(AF_INET);
  kj::Vector<kj::String> dnsNames, addresses;
  kj::Date notBefore = kj::UNIX_EPOCH, notAfter = kj::UNIX_EPOCH;
};

class Issuer {
 public:
  // `record` hears of each certificate before its caller gets it.
  Issuer(const kj::Clock& clock, const kj::MonotonicClock& monotonic,
         kj::Function<void(const Record&)> record, kj::Duration lifetime = kLifetime);

  void use(Authority authority);
  void forgetAuthority();
  bool hasAuthority() const { return authority != nullptr; }
  // A certificate that was issued before a restart: its names are taken.
  void remember(const Record& record);

  struct Issued {
    kj::String authority, certificate;  // PEM
  };
  // Throws as rpc/trust.capnp tells.
  Issued issue(kj::StringPtr request, kj::StringPtr token, const Ip& caller);

 private:
  const kj::Clock& clock;
  const kj::MonotonicClock& monotonic;
  kj::Function<void(const Record&)> record;
  kj::Duration lifetime;
  kj::Maybe<Authority> authority;
  NameBook book;
  Throttle throttle;

  Issued sign(const Authority& by, kj::StringPtr request, const Ip& caller);
};

}  // namespace talos::trustd
