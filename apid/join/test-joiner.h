// A Joiner for tests, with a virtual clock, a model of trustd and a model of the store.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apid/join/joiner.h"
#include "common/base/error.h"
#include "common/testing/virtual-time.h"
#include "common/tls/node-certificate.h"

namespace talos::apid::testing {

constexpr kj::StringPtr kToken = "abcdef.0123456789abcdef"_kj;
const auto kStart = kj::UNIX_EPOCH + 20'000 * kj::DAYS;

inline std::string text(kj::StringPtr s) {
  return s.cStr();
}

struct TestClock final : kj::Clock {
  const kj::TimerImpl& timer;
  kj::Duration off = 0 * kj::SECONDS;  // from the right time
  explicit TestClock(const kj::TimerImpl& timer) : timer(timer) {}
  kj::Date right() const { return kStart + (timer.now() - kj::origin<kj::TimePoint>()); }
  kj::Date now() const override { return right() + off; }
};

struct JoinerTest : ::testing::Test, protected Joiner::Dependencies {
  ~JoinerTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  TestClock clock{timer};
  pki::CertificateAndKey authority =
      pki::makeAuthority({.organization = "talos", .notBefore = kStart - 1 * kj::DAYS});
  pki::CertificateAndKey other =
      pki::makeAuthority({.organization = "talos", .notBefore = kStart - 1 * kj::DAYS});

  // The model of trustd.
  kj::Duration lifetime = 24 * kj::HOURS;
  Ip own = Ip::require("10.5.0.5");                 // this machine's address as trustd sees it
  kj::TreeSet<kj::String> down, silent, notSigned;  // notSigned: names
  kj::TreeSet<kj::String> reachable;                // further addresses that reach trustd
  kj::Maybe<kj::Exception> refusal;
  ErrorKind refusalKind = ErrorKind::kPermissionDenied;  // for names that are not signed
  bool refuseNames = false, garbled = false;
  bool signsNoNames = false;  // no names yet
  kj::Function<void(pki::LeafOptions&)> bend = [](pki::LeafOptions&) {};
  kj::Maybe<const pki::CertificateAndKey&> signer, shown;
  kj::Maybe<pki::Pem> otherKey;
  kj::Vector<kj::String> asked;
  kj::String lastRequest;
  kj::Vector<kj::Maybe<kj::Date>> times;  // times at which trustd's certificate was verified
  kj::String pinned;

  // The model of the store.
  kj::Maybe<Identity> stored;
  unsigned storedCount = 0;
  bool storeFails = false, storeSilent = false;
  kj::Vector<JoinReport> reports;
  unsigned cleared = 0;

  kj::TreeMap<kj::String, kj::Array<kj::String>> names;  // the resolver's answers
  kj::Maybe<kj::Own<Joiner>> joiner;
  kj::Promise<void> running = nullptr;

  kj::Promise<TrustdAnswer> answer(TrustdRequest request) {
    auto to = request.server.toString();
    asked.add(kj::str(to));
    times.add(request.pin.at);
    pinned = kj::str(request.pin.kind());
    if (down.find(to) != nullptr) fail(ErrorKind::kUnavailable, kj::str(to, ":50001: refused"));
    if (silent.find(to) != nullptr) return kj::NEVER_DONE;
    KJ_IF_MAYBE (e, refusal) kj::throwFatalException(kj::cp(*e));
    kj::Vector<Ip> proven;
    for (auto& address : request.addresses) {
      if (reachable.find(address.toString()) != nullptr) proven.add(address);
    }
    lastRequest = request.certificateRequest(own, proven);
    auto info = pki::inspectRequest(lastRequest);
    if (signsNoNames && info.dnsNames.size() > 0) {
      fail(ErrorKind::kFailedPrecondition, "the name w1 is not signed yet");
    }
    if (refuseNames && info.dnsNames.size() > 0) {
      fail(ErrorKind::kPermissionDenied, "the name w1 has a certificate");
    }
    for (auto& name : info.dnsNames) {
      if (notSigned.find(name) != nullptr) {
        fail(refusalKind, kj::str("the name ", name, " is not signed"));
      }
    }
    auto copy = [](const kj::Vector<kj::String>& from) {
      return KJ_MAP(f, from) {
        return kj::str(f);
      };
    };
    pki::LeafOptions options{.dnsNames = copy(info.dnsNames),
                             .addresses = copy(info.addresses),
                             .server = true,
                             .client = false,
                             .lifetime = lifetime + kBackdated,
                             .notBefore = clock.right() - kBackdated};
    bend(options);
    auto& by = signer.orDefault(authority);
    KJ_IF_MAYBE (key, otherKey) {
      lastRequest = pki::makeRequest(*key, {.addresses = copy(info.addresses)});
    }
    auto certificate = pki::signRequest(by.certificate, by.key, lastRequest, kj::mv(options));
    if (garbled) return TrustdAnswer{kj::str("no authority"), kj::mv(certificate)};
    return TrustdAnswer{kj::str(shown.orDefault(by).certificate), kj::mv(certificate)};
  }

  // --- Joiner::Dependencies ---
  double random() override { return 0.5; }
  kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr host) override {
    KJ_IF_MAYBE (found, names.find(host)) {
      return KJ_MAP(f, *found) {
        return kj::str(f);
      };
    }
    if (Ip::parse(host) != nullptr) return kj::arr(kj::str(host));
    return error(ErrorKind::kUnavailable, kj::str("cannot resolve \"", host, '"'));
  }
  kj::Promise<TrustdAnswer> requestCertificate(TrustdRequest request) override {
    return kj::evalNow([&] { return answer(kj::mv(request)); });
  }
  kj::Promise<void> storeIdentity(const Identity& identity) override {
    if (storeFails) return error(ErrorKind::kUnavailable, "machined is away");
    if (storeSilent) {
      stored = identity.clone();  // the answer is lost
      return kj::NEVER_DONE;
    }
    ++storedCount;
    stored = identity.clone();
    KJ_ASSERT_NONNULL(joiner)->setIdentity(identity.clone());  // as the watch of the store does
    return kj::READY_NOW;
  }
  void report(JoinReport report) override { reports.add(kj::mv(report)); }
  void clearReport() override { ++cleared; }

  Joiner& start() {
    auto& made =
        *joiner.emplace(kj::heap<Joiner>(timer, clock, static_cast<Joiner::Dependencies&>(*this)));
    running = made.run().eagerlyEvaluate(
        [](kj::Exception&& e) { ADD_FAILURE() << e.getDescription().cStr(); });
    return made;
  }
  JoinConfig config() {
    JoinConfig w;
    for (auto e : {"10.5.0.2"_kj, "10.5.0.3"_kj}) w.endpoints.add(kj::str(e));
    w.token = pki::Pem(kj::str(kToken));
    w.authority = kj::str(authority.certificate);
    w.commonName = kj::str("w1");
    w.dnsNames.add(kj::str("w1"));
    return w;
  }
  // Starts a node whose clock is right, and that has no certificate yet.
  Joiner& join(kj::Maybe<JoinConfig> special = nullptr) {
    auto& j = start();
    j.setClock(true, 1);
    j.setAddresses(kj::arr(own));
    j.setIdentity(nullptr);
    KJ_IF_MAYBE (s, special) {
      j.setConfig(kj::mv(*s));
    } else {
      j.setConfig(config());
    }
    scope.poll();
    return j;
  }
  void pass(kj::Duration by) { advance(timer, scope, by); }
  const JoinReport& now() { return reports.back(); }
  pki::CertificateInfo held() { return pki::inspect(KJ_ASSERT_NONNULL(stored).certificate); }
  void expectRefused(kj::StringPtr error) {
    EXPECT_EQ(storedCount, 0u);
    EXPECT_FALSE(now().ready);
    EXPECT_THAT(text(now().message), ::testing::HasSubstr(text(error)));
  }
};

}  // namespace talos::apid::testing
