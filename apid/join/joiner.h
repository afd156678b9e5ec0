// Requests the API certificate of a node without the CA key from trustd, and renews it.
//
// The joiner makes key and request; the key never leaves the node. With a join token it uses the
// key of its config, because the token is spent for one key. All control-plane nodes of the
// config are tried in turn, starting with the one that answered last, and again after a pause that
// grows to kLongestPause, without end. A certificate is renewed at about half of its lifetime, and
// when names, addresses, CA or token change; the old one is served until the new one is stored. An
// expired certificate is still served: it admits no client, but a client that verifies it gets the
// validity in its error.
//
// Besides the address that it calls from, the node asks for its others, each of which it proves by
// a call from there (trustd-client.h). Those that it gets later are asked for when none has come
// for kNewAddressPause, and, if that fails, again as names are; those from which trustd is not
// reached, with the next renewal.
//
// When trustd refuses a name, the host name with and without its domain is asked for, then without
// it, then the address alone. While the certificate lacks one of the names, all are asked for again
// every few minutes; the one that there is stays until a better one has come. A trustd that cannot
// say yet which names are the control plane's signs none for now: then the addresses are asked for
// unless there is a valid certificate with the names, and the names again within half a minute.
//
// trustd has to show a certificate of a control-plane node (isOfControlPlane() in
// common/tls/node-certificate.h) of the config's CA, or of the CA with the config's hash, before
// the first byte of a request is sent: a worker has a server certificate of that CA too, and would
// collect the join tokens of others with it. Other names are not compared, because the endpoint may
// be a load balancer, which is in no certificate. If the config has neither CA nor hash, the first
// answer is trusted, with a warning, and its CA is used until the next boot.
//
// While the CA is replaced by another, the config names CAs that are accepted beside it: a
// certificate of any of them is used, and one of the CA itself is asked for as long as there is
// none.
//
// Clocks: while the node's clock is not set, no time is compared with it, and a lifetime is counted
// from the arrival of the certificate. When the clock is set, everything is checked again.
//
// The certificate is in the store (ApiCertificates/api), where a new apid finds it. After a crash
// at any line the store has the old certificate or the new one; a pending request is lost and made
// again. No I/O and no clock of its own: both are in Dependencies.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "common/net/ip.h"
#include "common/tls/pki.h"

namespace talos::apid {

// The content of a certificate and the servers that issue it: JoinSpecs/api by value.
struct JoinConfig {
  kj::Vector<kj::String> endpoints;  // names or addresses
  pki::Pem token;
  pki::Pem key;              // of every request, with a join token, which is spent for it
  kj::String authority;      // PEM, or empty
  kj::String authorityHash;  // of the authority, or empty
  kj::String accepted;       // PEM, CAs beside it
  kj::String commonName;
  kj::Vector<kj::String> dnsNames, addresses;  // in addition to the local address
};

bool sameConfig(const JoinConfig& a, const JoinConfig& b);

// ApiCertificates/api by value.
struct Identity {
  kj::String authority;    // PEM: whom the node trusts, the CA of its config or of the answer first
  kj::String certificate;  // PEM; behind it that of the CA as others signed it
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

// The rules for verifying trustd, and the time of the verification.
struct Pin {
  kj::String authority, hash;  // PEM; or sha256:...; or neither
  kj::Maybe<kj::Date> at;      // none: the validity of its certificate is not checked
  kj::String accepted = {};    // PEM: CAs that are as good
  kj::StringPtr kind() const;  // ca, hash or nothing
  // The error of verifying a server with this chain (PEM, its own first); none if it is trustd.
  kj::Maybe<kj::String> verify(kj::ArrayPtr<const kj::String> chain) const;
};

struct TrustdRequest {
  Ip server;
  Pin pin;
  kj::StringPtr token;
  kj::Maybe<Identity> held;  // that is renewed: trustd does that also when the token is another
  // Addresses of this node, each of which trustd signs if it can be called from there.
  kj::Array<Ip> addresses;
  // Makes the certificate request (PEM) for the local address of the connection, and those of
  // `addresses` that are proved.
  kj::Function<kj::String(const Ip& local, kj::ArrayPtr<const Ip> proven)> certificateRequest;
};
struct TrustdAnswer {
  kj::String authority, certificate;  // PEM
};

// Throws Unauthenticated if the answer has another CA than the pin, or a certificate that this CA
// did not sign, that is not for this key, that lacks the address, or that is not valid at the pin's
// time (the error has both times).
void checkAnswer(const TrustdAnswer& answer, const Pin& pin, kj::StringPtr key, const Ip& local);

// True if the certificate is not of the CA of the config, and at best of one that is accepted
// beside it.
bool isOfOther(const Identity& held, const JoinConfig& config);
// The same key and certificate, with those who are trusted, and what goes behind the certificate,
// as the config has them now.
Identity dressed(const Identity& held, const JoinConfig& config);

class Joiner {
 public:
  class Dependencies {
   public:
    virtual double random() = 0;  // [0, 1)
    virtual kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr host) = 0;
    virtual kj::Promise<TrustdAnswer> requestCertificate(TrustdRequest request) = 0;
    // Resolves when it is stored.
    virtual kj::Promise<void> storeIdentity(const Identity& identity) = 0;
    virtual void report(JoinReport report) = 0;  // at each step
    virtual void clearReport() = 0;              // this node requests no certificate

   protected:
    ~Dependencies() noexcept(false) = default;
  };
  static constexpr auto kAnswerTimeout = 10 * kj::SECONDS;  // of one address, and of the store
  static constexpr auto kFirstPause = 1 * kj::SECONDS, kLongestPause = 30 * kj::SECONDS;
  static constexpr auto kLongestSleep = 1 * kj::HOURS;
  // Between two requests for names that trustd has refused.
  static constexpr auto kFirstNamesPause = 1 * kj::MINUTES, kLongestNamesPause = 10 * kj::MINUTES;

  // The same, from a trustd that signs no names yet.
  static constexpr auto kFirstEarlyPause = 2 * kj::SECONDS, kLongestEarlyPause = 30 * kj::SECONDS;

  // From the newest address of the node until it is asked for.
  static constexpr auto kNewAddressPause = 30 * kj::SECONDS;

  // All arguments outlive it.
  Joiner(kj::Timer& timer, const kj::Clock& clock, Dependencies& dependencies);
  ~Joiner() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Joiner);

  // Inputs. Nothing is done before the first two were called; repeating a value does nothing.
  void setConfig(kj::Maybe<JoinConfig> config);
  void setIdentity(kj::Maybe<Identity> identity);
  void setClock(bool synced, int64_t epoch);
  void setAddresses(kj::ArrayPtr<const Ip> addresses);

  // Never resolves.
  kj::Promise<void> run();

 private:
  struct State;
  kj::Own<State> state;
};

}  // namespace talos::apid
