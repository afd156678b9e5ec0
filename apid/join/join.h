// How the API of a machine without the authority's key gets its certificate, and keeps it.
//
// Key and request are made here and the key never leaves the machine. Every control-plane machine
// that the config names is asked in turn, beginning with the one that answered last, and again
// after a pause that grows to kLongestPause, for ever. A certificate is renewed when about half of
// its life is over, and when the names, the addresses, the authority or the token change; the old
// one is served until the new one is in its place, and one that has expired is still served: it
// gives nobody away, and whoever verifies it is told why it is refused.
//
// trustd has to show the authority of the config, or one with its hash, before it hears the token.
// Names are not compared, because the control plane's endpoint may be a load balancer that is in no
// certificate: who has a certificate of the authority for a server either has the token already or
// is a control-plane machine. With neither in the config, whoever answers first is believed, with a
// warning; what it gave is the authority until the next boot.
//
// Clocks: as long as this machine's clock is not set, no time is compared with it, and a life is
// counted from when the certificate came. When the clock is set, all is looked at again.
//
// The certificate lives in the store (ApiCertificates/api), so that a new apid goes on with it.
// After a crash at any line there is the old one or the new one; what was asked for meanwhile is
// lost, and asked for again. No I/O of its own and no clock: both come in by Dependencies.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "common/net/address.h"
#include "common/tls/pki.h"

namespace talos::apid {

// What is asked for, and of whom: JoinSpecs/api by value.
struct JoinWish {
  kj::Vector<kj::String> endpoints;  // names or addresses
  pki::Pem token;
  kj::String authority;      // PEM, or empty
  kj::String authorityHash;  // of the authority, or empty
  kj::String commonName;
  kj::Vector<kj::String> dnsNames, addresses;  // beside the address that is called from
};

// ApiCertificates/api by value.
struct Identity {
  kj::String authority, certificate;  // PEM
  pki::Pem key;
  Identity clone() const;
};

// JoinStatuses/api by value.
struct JoinReport {
  bool ready = false;
  kj::String endpoint, message;
  unsigned failures = 0;
  kj::String verified;  // ca, hash or nothing
  kj::Maybe<kj::Date> notBefore, notAfter;
};

// How trustd is to be known, and when "now" is for that.
struct Pin {
  kj::String authority, hash;  // PEM; or sha256:...; or neither
  kj::Maybe<kj::Date> at;      // none: its certificate's validity is not looked at
  kj::StringPtr kind() const;  // ca, hash or nothing
  // Why a server with this chain (PEM, its own first) is not trustd.
  kj::Maybe<kj::String> refusal(kj::ArrayPtr<const kj::String> chain) const;
};

struct JoinQuestion {
  Address to;
  Pin pin;
  kj::StringPtr token;
  // The request (PEM), for the address that the connection comes from.
  kj::Function<kj::String(const Address& local)> request;
};
struct JoinAnswer {
  kj::String authority, certificate;  // PEM
};

// Throws Unauthenticated, saying what is wrong with an answer: another authority than that of the
// pin, a certificate that it did not sign, that is not for this key, that lacks the address, or
// that is not valid at the pin's time (with both times).
void checkAnswer(const JoinAnswer& answer, const Pin& pin, kj::StringPtr key, const Address& local);

class Joiner {
 public:
  struct Dependencies {
    kj::Timer& timer;
    const kj::Clock& clock;
    kj::Function<double()> chance;  // [0, 1)
    kj::Function<kj::Promise<kj::Array<kj::String>>(kj::StringPtr host)> resolve;
    kj::Function<kj::Promise<JoinAnswer>(JoinQuestion)> ask;
    kj::Function<kj::Promise<void>(const Identity&)> keep;  // resolves when it is stored
    kj::Function<void(JoinReport)> tell;                    // each step; none: forget()
    kj::Function<void()> forget;  // there is nothing to tell: this machine asks nobody
  };
  static constexpr auto kAnswer = 10 * kj::SECONDS;  // of one address, and of the store
  static constexpr auto kFirstPause = 1 * kj::SECONDS, kLongestPause = 30 * kj::SECONDS;
  static constexpr auto kLongestSleep = 1 * kj::HOURS;

  explicit Joiner(Dependencies deps);
  ~Joiner() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Joiner);

  // What is known of the machine. Nothing is done before the first two were called; the same again
  // does nothing.
  void want(kj::Maybe<JoinWish> wish);
  void have(kj::Maybe<Identity> identity);
  void clockIs(bool set, int64_t epoch);
  void addressesAre(kj::ArrayPtr<const Address> addresses);

  // Never ends.
  kj::Promise<void> run();

 private:
  struct State;
  kj::Own<State> state;
};

}  // namespace talos::apid
