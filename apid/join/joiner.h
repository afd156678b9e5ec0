// Requests the API certificate of a node without the CA key from trustd, and renews it.
//
// The joiner makes key and request; the key never leaves the node. With a join token it uses the
// key of its config, because the token is spent for one key. It tries all control-plane nodes of
// the config in turn, starting with the last one that answered, and again after a pause that grows
// to kLongestPause, without end. A certificate is renewed at about half of its lifetime, and when
// names, addresses, CA or token change; the old certificate is served until the new one is stored.
// An expired certificate is still served: it admits no client, but a client that verifies it gets
// the validity in its error.
//
// Besides the address that it calls from, the node requests its other addresses, each of which it
// proves by a call from there (trustd-client.h). Addresses that it gets later are requested when no
// further one has come for kNewAddressPause, and, if that fails, retried as names are; those that
// cannot reach trustd, with the next renewal.
//
// When trustd refuses a name, the next request has only the host name with and without its domain,
// then only without it, then the address alone. While the certificate lacks one of the names, all
// are requested again every few minutes; the current certificate stays until a better one arrives.
// A trustd that cannot tell yet which names are the control plane's signs no names for now: then
// the addresses are requested unless the node has a valid certificate with the names, and the names
// again within half a minute.
//
// trustd has to show a certificate of a control-plane node (isOfControlPlane() in
// common/tls/node-certificate.h) of the config's CA, or of the CA with the config's hash, before
// the first byte of a request is sent: a worker has a server certificate of this CA too, and would
// collect the join tokens of others with it. Other names are not compared, because the endpoint may
// be a load balancer, which is in no certificate. If the config has neither CA nor hash, the first
// answer is trusted, with a warning, and its CA is used until the next boot.
//
// While another CA replaces the CA, the config names CAs that are accepted beside it: a certificate
// of any of them is used, and a certificate of the CA itself is requested until the node has one.
//
// Clocks: while the node's clock is not set, no time is compared with it, and a lifetime is counted
// from the arrival of the certificate. When the clock is set, everything is checked again.
//
// The certificate is in the store (ApiCertificates/api), where a new apid finds it. After a crash
// at any line the store has the old certificate or the new one; a pending request is lost and
// repeated. Dependencies provide all I/O and the clock.
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
  pki::Pem key;              // the key of every request with a join token, which is spent for this
                             // key
  kj::String authority;      // PEM, or empty
  kj::String authorityHash;  // hash of the authority, or empty
  kj::String accepted;       // PEM, CAs beside the authority
  kj::String commonName;
  kj::Vector<kj::String> dnsNames, addresses;  // in addition to the local address
};

// ApiCertificates/api by value.
struct Identity {
  kj::String authority;    // PEM: CAs that the node trusts, the CA of its config or of the answer
                           // first
  kj::String certificate;  // PEM; followed by the CA's certificate as other CAs signed it
  pki::Pem key;
  Identity clone() const;
};

// JoinStatuses/api by value.
struct JoinReport {
  bool ready = false;
  kj::String endpoint, message;
  unsigned failures = 0;
  kj::String verified;  // "ca", "hash" or empty
  kj::Maybe<kj::Date> notBefore, notAfter;
};

// The rules for verifying trustd, and the time of the verification.
struct Pin {
  kj::String authority, hash;  // PEM; or sha256:...; or neither
  kj::Maybe<kj::Date> at;      // nullptr: the validity of its certificate is not checked
  kj::String accepted = {};    // PEM: CAs that are equally accepted
  kj::StringPtr kind() const;  // "ca", "hash" or empty
  // Returns the error of verifying a server with this chain (PEM, the server's certificate first);
  // nullptr if it is trustd.
  kj::Maybe<kj::String> verify(kj::ArrayPtr<const kj::String> chain) const;
};

struct TrustdRequest {
  Ip server;
  Pin pin;
  kj::StringPtr token;
  kj::Maybe<Identity> held;  // to be renewed: trustd also does that after a change of the token
  // Addresses of this node; trustd signs each one that reaches it.
  kj::Array<Ip> addresses;
  // Makes the certificate request (PEM) for the local address of the connection, and for the proved
  // ones of `addresses`.
  kj::Function<kj::String(const Ip& local, kj::ArrayPtr<const Ip> proven)> certificateRequest;
};
struct TrustdAnswer {
  kj::String authority, certificate;  // PEM
};

// Throws Unauthenticated if the answer has another CA than the pin, or a certificate that this CA
// did not sign, that is not for this key, that lacks the address, or that is not valid at the pin's
// time (the error has both times).
void checkAnswer(const TrustdAnswer& answer, const Pin& pin, kj::StringPtr key, const Ip& local);

// Returns true if the certificate is not of the config's CA, but at best of one that is accepted
// beside it.
bool isOfOther(const Identity& held, const JoinConfig& config);
// Returns the same key and certificate, with the trusted CAs, and the certificates that follow it,
// as the config has them now.
Identity dressed(const Identity& held, const JoinConfig& config);

class Joiner {
 public:
  class Dependencies {
   public:
    virtual double random() = 0;  // [0, 1)
    virtual kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr host) = 0;
    virtual kj::Promise<TrustdAnswer> requestCertificate(TrustdRequest request) = 0;
    // Resolves when the store has the identity.
    virtual kj::Promise<void> storeIdentity(const Identity& identity) = 0;
    virtual void report(JoinReport report) = 0;  // at each step
    virtual void clearReport() = 0;              // this node requests no certificate

   protected:
    ~Dependencies() noexcept(false) = default;
  };
  static constexpr auto kAnswerTimeout = 10 * kj::SECONDS;  // for one address, and for the store
  static constexpr auto kFirstPause = 1 * kj::SECONDS, kLongestPause = 30 * kj::SECONDS;
  static constexpr auto kLongestSleep = 1 * kj::HOURS;
  // Pauses between two requests for names that trustd has refused.
  static constexpr auto kFirstNamesPause = 1 * kj::MINUTES, kLongestNamesPause = 10 * kj::MINUTES;

  // Pauses for a trustd that signs no names yet.
  static constexpr auto kFirstEarlyPause = 2 * kj::SECONDS, kLongestEarlyPause = 30 * kj::SECONDS;

  // Pause from the newest address of the node until its request.
  static constexpr auto kNewAddressPause = 30 * kj::SECONDS;

  // All arguments outlive it.
  Joiner(kj::Timer& timer, const kj::Clock& clock, Dependencies& dependencies);
  ~Joiner() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Joiner);

  // Inputs. The joiner does nothing before the first two were called; repeating a value does
  // nothing.
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
