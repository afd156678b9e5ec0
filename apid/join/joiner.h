// How a node without the CA key gets the certificate of its API, and keeps it valid.
//
// Key and request are made here; the key never leaves the node. All control-plane nodes of the
// config are asked in turn, beginning with the one that answered last, and again after a pause that
// grows to kLongestPause, without end. A certificate is renewed at about half of its lifetime, and
// when names, addresses, CA or token change; the old one is served until the new one is in place.
// An expired certificate is still served: nobody is admitted by it, and a client that verifies it
// is told why it is refused.
//
// trustd has to show a certificate of the config's CA, or of the CA with the config's hash, before
// the token is sent. Names are not compared, because the endpoint may be a load balancer, which is
// in no certificate: whoever has a server certificate of the CA either has the token already or is
// a control-plane node. If the config has neither CA nor hash, the first answer is trusted, with a
// warning, and its CA is kept until the next boot.
//
// Clocks: while the node's clock is not set, no time is compared with it, and a lifetime is counted
// from the arrival of the certificate. When the clock is set, everything is checked again.
//
// The certificate is in the store (ApiCertificates/api), where a new apid finds it. After a crash
// at any line the store has the old certificate or the new one; a request under way is lost and
// made again. No I/O and no clock of its own: both come in through Dependencies.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "common/net/ip.h"
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
  Ip to;
  Pin pin;
  kj::StringPtr token;
  // The request (PEM), for the address that the connection comes from.
  kj::Function<kj::String(const Ip& local)> request;
};
struct JoinAnswer {
  kj::String authority, certificate;  // PEM
};

// Throws Unauthenticated, saying what is wrong with an answer: another authority than that of the
// pin, a certificate that it did not sign, that is not for this key, that lacks the address, or
// that is not valid at the pin's time (with both times).
void checkAnswer(const JoinAnswer& answer, const Pin& pin, kj::StringPtr key, const Ip& local);

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
  void addressesAre(kj::ArrayPtr<const Ip> addresses);

  // Never ends.
  kj::Promise<void> run();

 private:
  struct State;
  kj::Own<State> state;
};

}  // namespace talos::apid
