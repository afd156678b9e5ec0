// The server of port 50001: trustd's interface with its own CA, and a machine's side of a
// conversation (rpc Trust). Records are discarded.
#pragma once

#include "rpc/trust.capnp.h"
#include "tests/testbeds/conversation.h"
#include "trustd/trustd-server.h"

namespace talos::testbeds {

class TrustTestbed {
 public:
  static constexpr kj::StringPtr kToken = "abcdef.0123456789abcdef"_kj;
  static constexpr kj::StringPtr kCaller = "10.0.0.9"_kj;

  explicit TrustTestbed(kj::Timer& timer) : timer(timer), issuer(wall, steady) {
    auto pair = pki::makeAuthority({.organization = "talos", .notBefore = wall.now()});
    trustd::Authority authority;
    authority.certificate = kj::mv(pair.certificate);
    authority.key = kj::mv(pair.key);
    authority.token = pki::Pem(kj::str(kToken));
    authority.controlPlaneKnown = true;
    issuer.use(kj::mv(authority));
    pki::LeafOptions options;
    options.addresses = kj::arr(kj::str(kCaller));
    options.dnsNames = kj::arr(kj::str("w1"));
    request = pki::makeRequest(pki::makeKey(pki::KeyType::kEd25519), options);
  }
  KJ_DISALLOW_COPY_AND_MOVE(TrustTestbed);

  // Moves the clock by an hour, so that trustd has forgotten failed callers before the next call.
  capnp::Capability::Client open() {
    steady.time += 1 * kj::HOURS;
    Peer peer;
    peer.address = kj::str(kCaller);
    peer.anonymous = true;
    return trustd::openSession(issuer, tokens, keep, timer, peer).bootstrap;
  }

  kj::Promise<void> use(capnp::Capability::Client bootstrap) {
    steady.time += 1 * kj::HOURS;
    auto call = bootstrap.castAs<rpc::Trust>().certificateRequest();
    fill(call);
    auto answer = co_await call.send();
    auto info = pki::inspect(kj::heapString(answer.getCertificate().asChars()));
    KJ_ASSERT(info.addresses.size() == 1 && info.addresses[0] == kCaller && !info.authority);
  }

  kj::Array<kj::byte> conversation() const {
    Conversation c;
    for (unsigned i = 1; i <= kResults; ++i) {
      c.call<rpc::Trust, rpc::Trust::CertificateParams>(
          i, 0, 0, [this](rpc::Trust::CertificateParams::Builder params) { fill(params); });
    }
    return c.finish();
  }
  static constexpr unsigned kResults = 4;  // to the calls of the conversation
  uint64_t kept = 0;

 private:
  struct Wall final : kj::Clock {
    kj::Date now() const override { return kj::UNIX_EPOCH + 20'000 * kj::DAYS; }
  };
  struct Steady final : kj::MonotonicClock {
    kj::TimePoint time = kj::origin<kj::TimePoint>();
    kj::TimePoint now() const override { return time; }
  };
  kj::Timer& timer;
  Wall wall;
  Steady steady;
  trustd::Issuer issuer;
  struct NoTokens final : trustd::JoinTokens {
    kj::Promise<trustd::ShownToken> find(kj::StringPtr) override { return trustd::ShownToken(); }
    kj::Promise<trustd::ShownToken> spend(kj::StringPtr, kj::StringPtr, kj::StringPtr) override {
      return trustd::ShownToken();
    }
  } tokens;
  trustd::Keep keep = [this](trustd::Record) -> kj::Promise<void> {
    ++kept;
    return kj::READY_NOW;
  };
  kj::String request;

  template <typename Params>
  void fill(Params&& params) const {
    params.setRequest(request.asBytes());
    params.setToken(kToken);
  }
};

}  // namespace talos::testbeds
