#include "trustd/issuer.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/testing/printing.h"
#include "common/testing/test-ip.h"
#include "common/tls/openssl.h"

namespace talos::trustd {
namespace {

struct Wall final : kj::Clock {
  kj::Date date = kj::UNIX_EPOCH + 20'000 * kj::DAYS;
  kj::Date now() const override { return date; }
};
struct Steady final : kj::MonotonicClock {
  kj::TimePoint time = kj::origin<kj::TimePoint>() + 1 * kj::DAYS;
  kj::TimePoint now() const override { return time; }
};

struct Asked {
  pki::Pem key;
  kj::String request;
};

Asked askWith(pki::Pem key, kj::StringPtr address, kj::StringPtr name = "w1") {
  pki::LeafOptions options;
  options.commonName = "root";
  options.organizations = kj::arr(kj::str("os:admin"));
  options.addresses = kj::arr(kj::str(address));
  if (name.size() > 0) options.dnsNames = kj::arr(kj::str(name));
  auto request = pki::makeRequest(key, options);
  return {kj::mv(key), kj::mv(request)};
}

Asked ask(kj::StringPtr address, kj::StringPtr name = "w1",
          pki::KeyType type = pki::KeyType::kEd25519) {
  return askWith(pki::makeKey(type), address, name);
}

pki::Pem keyOnCurve(const char* curve) {
  return pki::writeKey(pki::Key(EVP_EC_gen(curve)).get());
}

class Issuing : public ::testing::Test {
 public:
  ~Issuing() noexcept(true) override = default;
  Wall wall;
  Steady steady;
  pki::CertificateAndKey authority =
      pki::makeAuthority({.organization = "talos", .notBefore = wall.date - 1 * kj::DAYS});
  bool known = true;  // The other control-plane nodes are known.
  kj::Vector<kj::String> recorded;
  Issuer issuer{wall, steady};
  const Ip worker = ip("10.0.0.9");
  static constexpr auto kToken = "abcdef.0123456789abcdef"_kj;

  void SetUp() override { use(authority); }
  void use(const pki::CertificateAndKey& pair) {
    Authority a;
    a.certificate = kj::str(pair.certificate);
    a.key = pair.key.clone();
    a.token = pki::Pem(kj::str(kToken));
    auto hosts = kj::arr(kj::str("10.0.0.1"), kj::str("cp1"));
    a.reserved = reservedBy(hosts, "cluster.local");
    a.controlPlaneKnown = known;
    issuer.use(kj::mv(a));
  }
  // Issues as trustd does, with the record stored.
  Issuer::Issued issue(kj::StringPtr request, kj::StringPtr token, const Ip& caller) {
    auto issued = issuer.issue(request, token, caller);
    issued.names.enter();
    return issued;
  }
  kj::Maybe<ErrorKind> refusal(kj::StringPtr request, kj::StringPtr token = kToken) {
    auto failure = kj::runCatchingExceptions(
        [&] { recorded.add(kj::str(issue(request, token, worker).record.serial)); });
    return failure.map([](const kj::Exception& e) { return kindOf(e); });
  }
  void waitOutBackoff() { steady.time += 10 * kj::MINUTES; }
};

// Catches: a subject, a usage or a lifetime that the caller chose.
TEST_F(Issuing, TheCertificateHasOnlyProvedContent) {
  for (auto type : {pki::KeyType::kEd25519, pki::KeyType::kEcdsaP256}) {
    auto asked = ask("10.0.0.9", "w1", type);
    auto issued = issuer.issue(asked.request, kToken, worker);
    EXPECT_EQ(issued.authority, authority.certificate);
    pki::checkPair(issued.certificate, asked.key);
    auto info = pki::inspect(issued.certificate);
    EXPECT_EQ(info.commonName, "");
    EXPECT_EQ(info.organizations.size(), 0u);
    EXPECT_FALSE(info.authority);
    ASSERT_EQ(info.dnsNames.size(), 1u);
    EXPECT_EQ(info.dnsNames[0], "w1");
    ASSERT_EQ(info.addresses.size(), 1u);
    EXPECT_EQ(info.addresses[0], "10.0.0.9");
    EXPECT_EQ((info.notAfter - wall.date) / kj::HOURS, 24);
    EXPECT_EQ((wall.date - info.notBefore) / kj::MINUTES, 5);
    EXPECT_EQ(issued.record.serial, info.serial);
    EXPECT_EQ(issued.record.fingerprint, pki::fingerprint(issued.certificate));
    EXPECT_EQ(issued.record.caller, worker);
    EXPECT_EQ(issued.record.notAfter, info.notAfter);
  }
}

// Catches: a proof that is valid for ever, while the address moves to another node; a proof of
// another trustd, or from before a restart.
TEST_F(Issuing, AProofIsOfThisProcessAndForAMinute) {
  pki::LeafOptions options;
  options.addresses = kj::arr(kj::str("10.0.0.9"), kj::str("10.0.0.10"));
  auto request = pki::makeRequest(pki::makeKey(pki::KeyType::kEd25519), options);
  auto signs = [&](kj::ArrayPtr<const kj::byte> proof) {
    return kj::runCatchingExceptions(
               [&] { issuer.issue(request, kToken, worker, kj::arrayPtr(&proof, 1)); }) == nullptr;
  };
  auto proof = issuer.prove(kToken, ip("10.0.0.10"));
  steady.time += AddressProofs::kLifetime - 1 * kj::MILLISECONDS;
  EXPECT_TRUE(signs(proof));
  steady.time += 1 * kj::MILLISECONDS;
  EXPECT_FALSE(signs(proof));
  EXPECT_FALSE(signs(issuer.prove(kToken, ip("10.0.0.11"))));
  AddressProofs other(steady);
  EXPECT_FALSE(signs(other.make(ip("10.0.0.10"))));
}

// Catches: a machine certificate that allows calling other nodes, as an administrator does.
TEST_F(Issuing, TheCertificateIsAServersOnly) {
  auto issued = issuer.issue(ask("10.0.0.9").request, kToken, worker);
  auto certificate = pki::readCertificate(issued.certificate);
  EXPECT_EQ(X509_get_extended_key_usage(certificate.get()), uint32_t(XKU_SSL_SERVER));
  EXPECT_EQ(X509_get_key_usage(certificate.get()), uint32_t(KU_DIGITAL_SIGNATURE));
}

// Catches: a name that two machines get in succession, or that stays taken for ever.
TEST_F(Issuing, AnIssuedNameIsTakenUntilItsCertificateEnds) {
  EXPECT_TRUE(refusal(ask("10.0.0.9").request) == nullptr);
  auto other = [&]() {
    return kj::runCatchingExceptions(
        [&] { issue(ask("10.0.0.10").request, kToken, ip("10.0.0.10")); });
  };
  wall.date += 24 * kj::HOURS - 1 * kj::SECONDS;
  EXPECT_TRUE(kindOf(KJ_ASSERT_NONNULL(other())) == ErrorKind::kPermissionDenied);
  EXPECT_TRUE(refusal(ask("10.0.0.9").request) == nullptr) << "its holder cannot renew it";
  wall.date += 24 * kj::HOURS;
  waitOutBackoff();
  EXPECT_TRUE(other() == nullptr);
}

// Catches: a name that stays reserved for a day by a request that was refused after signing,
// because a join token was spent for another key or the record was not stored; two nodes that get
// one name because they call at once; a node whose own name is freed by its second, refused
// request.
TEST_F(Issuing, ANameIsTakenWhenItsCertificateIsIssued) {
  auto byOther = [&] {
    auto failure = kj::runCatchingExceptions(
        [&] { issuer.issue(ask("10.0.0.10").request, kToken, ip("10.0.0.10")); });
    return failure.map([](const kj::Exception& e) { return kindOf(e); });
  };
  {
    auto underWay = issuer.issue(ask("10.0.0.9").request, kToken, worker);
    {
      auto again = issuer.issue(ask("10.0.0.9").request, kToken, worker);
      EXPECT_TRUE(byOther() == ErrorKind::kPermissionDenied);
    }
    EXPECT_TRUE(byOther() == ErrorKind::kPermissionDenied) << "the first one is still under way";
  }
  EXPECT_TRUE(byOther() == nullptr) << "a refused request has taken the name";
  EXPECT_TRUE(refusal(ask("10.0.0.9").request) == nullptr);
  {
    auto refused = issuer.issue(ask("10.0.0.9").request, kToken, worker);
  }
  EXPECT_TRUE(byOther() == ErrorKind::kPermissionDenied) << "the issued name is free";
}

// Catches: one token that reserves any number of names by simultaneous requests, or that keeps
// others from joining after these have ended.
TEST_F(Issuing, NamesUnderWayCountForTheirHolder) {
  auto from = [&](kj::StringPtr address, unsigned number) {
    auto names = kj::heapArrayBuilder<kj::String>(30);
    for (unsigned n = 0; n < 30; ++n) names.add(kj::str("flood-", number, "-", n));
    pki::LeafOptions options;
    options.addresses = kj::arr(kj::str(address));
    options.dnsNames = names.finish();
    auto request = pki::makeRequest(pki::makeKey(pki::KeyType::kEd25519), options);
    return issuer.issue(request, kToken, ip(address));
  };
  const NameBook::Limits limits;
  const auto fit = unsigned(limits.perHolder / 30);
  {
    kj::Vector<Issuer::Issued> underWay;
    for (unsigned i = 0; i < fit; ++i) underWay.add(from("10.0.0.66", i));
    auto failure = kj::runCatchingExceptions([&] { from("10.0.0.66", fit); });
    EXPECT_TRUE(kindOf(KJ_ASSERT_NONNULL(failure)) == ErrorKind::kResourceExhausted);
    from("10.0.0.66", 0);
    from("10.0.0.10", fit);
  }
  from("10.0.0.66", fit);
}

// Catches: a certificate that passes for a control-plane node's, to which workers send their tokens
// (isOfControlPlane()), because of its request's content.
TEST_F(Issuing, NoWorkerGetsTheMarkOfAControlPlaneNode) {
  for (auto anyAddress : {false, true}) {
    Authority a;
    a.certificate = kj::str(authority.certificate);
    a.key = authority.key.clone();
    a.token = pki::Pem(kj::str(kToken));
    a.controlPlaneKnown = true;
    a.anyAddress = anyAddress;
    issuer.use(kj::mv(a));
    for (auto more : {"127.0.0.1"_kj, "::ffff:127.0.0.1"_kj, "127.0.0.2"_kj, "10.0.0.9"_kj}) {
      pki::LeafOptions options;
      options.addresses = kj::arr(kj::str("10.0.0.9"), kj::str(more));
      auto request = pki::makeRequest(pki::makeKey(pki::KeyType::kEd25519), options);
      for (auto caller : {"10.0.0.9"_kj, "127.0.0.1"_kj}) {
        auto proof = issuer.prove(kToken, ip("127.0.0.1"));
        kj::ArrayPtr<const kj::byte> proofs[] = {proof};
        kj::runCatchingExceptions([&] {
          auto issued = issuer.issue(request, kToken, ip(caller), proofs);
          EXPECT_FALSE(isOfControlPlane(pki::inspect(issued.certificate))) << more.cStr();
          EXPECT_EQ(more, "10.0.0.9");
        });
      }
    }
  }
}

// Catches: a worker that gets the name of a control-plane node, because this node does not know the
// others yet; a worker that gets no certificate at all for that reason, or loses the name that it
// has.
TEST_F(Issuing, WithoutTheControlPlaneNodesOnlyOwnNamesAreSigned) {
  auto early = ErrorKind::kFailedPrecondition;
  EXPECT_TRUE(refusal(ask("10.0.0.9", "w1").request) == nullptr);
  known = false;
  use(authority);
  EXPECT_TRUE(refusal(ask("10.0.0.9", "cp2").request) == early);
  EXPECT_TRUE(refusal(ask("10.0.0.9", "cp1").request) == ErrorKind::kPermissionDenied);
  EXPECT_TRUE(refusal(ask("10.0.0.9", "").request) == nullptr) << "its address is its own";
  EXPECT_TRUE(refusal(ask("10.0.0.9", "w1").request) == nullptr) << "it has the name already";
  wall.date += 25 * kj::HOURS;
  EXPECT_TRUE(refusal(ask("10.0.0.9", "w1").request) == early) << "it has the name no longer";
  known = true;
  use(authority);
  EXPECT_TRUE(refusal(ask("10.0.0.9", "cp2").request) == nullptr);
}

TEST_F(Issuing, ASuccessMakesGood) {
  auto asked = ask("10.0.0.9");
  EXPECT_TRUE(refusal(asked.request, "wrong") == ErrorKind::kUnauthenticated);
  steady.time += Throttle::kFirst;
  EXPECT_TRUE(refusal(asked.request) == nullptr);
  EXPECT_TRUE(refusal(asked.request, "wrong") == ErrorKind::kUnauthenticated);
  steady.time += Throttle::kFirst;
  EXPECT_TRUE(refusal(asked.request) == nullptr) << "the failure before the success still counts";
}

TEST_F(Issuing, AKeyThatIsNotTheAuthoritysIsRefusedAtOnce) {
  Authority a;
  a.certificate = kj::str(authority.certificate);
  a.key = pki::makeKey(pki::KeyType::kEd25519);
  auto failure = kj::runCatchingExceptions([&] { issuer.use(kj::mv(a)); });
  EXPECT_TRUE(kindOf(KJ_ASSERT_NONNULL(failure)) == ErrorKind::kInvalidArgument);
  EXPECT_TRUE(refusal(ask("10.0.0.9").request) == nullptr) << "the one before is lost";
}

TEST_F(Issuing, AWrongTokenIsRefusedAndSlowsItsCallerDown) {
  auto asked = ask("10.0.0.9");
  for (kj::StringPtr wrong : {""_kj, "abcdef.0123456789abcdeg"_kj, "abcdef.0123456789abcdef0"_kj,
                              "abcdef.0123456789abcde"_kj}) {
    EXPECT_TRUE(refusal(asked.request, wrong) == ErrorKind::kUnauthenticated) << wrong.cStr();
    EXPECT_TRUE(refusal(asked.request, wrong) == ErrorKind::kUnavailable) << "no back-off";
    waitOutBackoff();
  }
  EXPECT_TRUE(refusal(asked.request) == nullptr);
  EXPECT_EQ(recorded.size(), 1u);
}

// Catches: a node that cannot join because another node with the same address, or in the same /64,
// guesses tokens.
TEST_F(Issuing, ARightTokenPassesWhoeverFailedBefore) {
  for (int i = 0; i < 5; ++i) refusal(ask("10.0.0.9").request, "wrong");
  EXPECT_TRUE(refusal(ask("10.0.0.9").request) == nullptr);
  auto from = [&](kj::StringPtr address, kj::StringPtr name, kj::StringPtr token) {
    return kj::runCatchingExceptions([&] { issue(ask(address, name).request, token, ip(address)); })
        .map([](const kj::Exception& e) { return kindOf(e); });
  };
  for (int i = 0; i < 5; ++i) from("fd00::1", "bad", "wrong");
  EXPECT_TRUE(from("fd00::2", "bad", "wrong") == ErrorKind::kUnavailable) << "guessing is fast";
  EXPECT_TRUE(from("fd00::2", "good", kToken) == nullptr);
}

// Catches: a caller with the token that makes trustd forget the holders of names, by requesting
// many; a caller that keeps others from joining, or from renewing their names.
TEST_F(Issuing, ACallerWithManyNamesTakesNoneFromOthers) {
  auto from = [&](kj::StringPtr address, kj::Array<kj::String> names) {
    pki::LeafOptions options;
    options.addresses = kj::arr(kj::str(address));
    options.dnsNames = kj::mv(names);
    auto request = pki::makeRequest(pki::makeKey(pki::KeyType::kEd25519), options);
    return kj::runCatchingExceptions([&] { issue(request, kToken, ip(address)); })
        .map([](const kj::Exception& e) { return kindOf(e); });
  };
  EXPECT_TRUE(from("10.0.0.9", kj::arr(kj::str("w1"))) == nullptr);
  wall.date += 1 * kj::HOURS;  // The names of the others end later.
  ::testing::internal::CaptureStderr();
  kj::Maybe<ErrorKind> last;
  for (unsigned i = 0; i < 700; ++i) {
    auto names = kj::heapArrayBuilder<kj::String>(30);
    for (unsigned n = 0; n < 30; ++n) names.add(kj::str("flood-", i, "-", n));
    last = from("10.0.0.66", names.finish());
  }
  ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(last == ErrorKind::kResourceExhausted);
  EXPECT_TRUE(from("10.0.0.10", kj::arr(kj::str("w1"))) == ErrorKind::kPermissionDenied)
      << "the name was forgotten while its certificate is valid";
  EXPECT_TRUE(from("10.0.0.9", kj::arr(kj::str("w1"))) == nullptr) << "its holder cannot renew";
  EXPECT_TRUE(from("10.0.0.10", kj::arr(kj::str("w2"))) == nullptr) << "nobody else can join";
  EXPECT_TRUE(from("10.0.0.66", kj::arr(kj::str("flood-0-0"))) == nullptr) << "renewal is refused";
}

// Catches: a comparison of only a part of the tokens.
TEST_F(Issuing, NoneOfManyTokensIsTaken) {
  auto asked = ask("10.0.0.9");
  ::testing::internal::CaptureStderr();  // a line for each
  unsigned refused = 0;
  for (unsigned i = 0; i < 2000; ++i) {
    if (refusal(asked.request, kj::str("abcdef.", i)) == ErrorKind::kUnauthenticated) ++refused;
    waitOutBackoff();
  }
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(refused, 2000u);
}

// Catches: an empty machine.token that grants certificates to every caller.
TEST_F(Issuing, AnEmptyTokenIsNobodys) {
  Authority a;
  a.certificate = kj::str(authority.certificate);
  a.key = authority.key.clone();
  issuer.use(kj::mv(a));
  EXPECT_TRUE(refusal(ask("10.0.0.9").request, "") == ErrorKind::kUnauthenticated);
}

TEST_F(Issuing, UnprovedContentIsRefusedAndNotRecorded) {
  auto forged = ask("10.0.0.9");
  auto at = forged.request.size() / 2;
  forged.request[at] = forged.request[at] == 'A' ? 'B' : 'A';
  auto large = kj::str(ask("10.0.0.9").request, kj::repeat('\n', kMostRequestBytes));
  struct Row {
    const char* what;
    kj::String request;
    ErrorKind kind;
  } rows[] = {
      {"another address", ask("10.0.0.10").request, ErrorKind::kPermissionDenied},
      {"the control plane's name", ask("10.0.0.9", "cp1").request, ErrorKind::kPermissionDenied},
      {"a changed request", kj::mv(forged.request), ErrorKind::kInvalidArgument},
      {"too large", kj::mv(large), ErrorKind::kInvalidArgument},
      {"no request", kj::str("hello"), ErrorKind::kInvalidArgument},
      {"a certificate", kj::str(authority.certificate), ErrorKind::kInvalidArgument},
      {"an RSA key", ask("10.0.0.9", "w1", pki::KeyType::kRsa4096).request,
       ErrorKind::kInvalidArgument},
      {"a key on a larger curve", askWith(keyOnCurve("P-384"), "10.0.0.9").request,
       ErrorKind::kInvalidArgument},
      {"a key on another curve of that size", askWith(keyOnCurve("secp256k1"), "10.0.0.9").request,
       ErrorKind::kInvalidArgument},
  };
  for (auto& row : rows) {
    EXPECT_TRUE(refusal(row.request) == row.kind) << row.what;
    waitOutBackoff();
  }
  EXPECT_EQ(recorded.size(), 0u);
  EXPECT_TRUE(refusal(ask("10.0.0.9").request) == nullptr) << "the next honest call fails";
}

TEST_F(Issuing, NamesStayTakenOverARestart) {
  Record before;
  before.caller = ip("10.0.0.77");
  before.dnsNames.add(kj::str("w1"));
  before.notAfter = wall.date + 1 * kj::HOURS;
  issuer.remember(before);
  EXPECT_TRUE(refusal(ask("10.0.0.9").request) == ErrorKind::kPermissionDenied);
  waitOutBackoff();
  wall.date += 2 * kj::HOURS;
  EXPECT_TRUE(refusal(ask("10.0.0.9").request) == nullptr);
}

// Catches: certificates with another lifetime than the config's.
TEST_F(Issuing, TheLifetimeIsTheAuthoritys) {
  Authority a;
  a.certificate = kj::str(authority.certificate);
  a.key = authority.key.clone();
  a.token = pki::Pem(kj::str(kToken));
  a.controlPlaneKnown = true;
  a.lifetime = 10 * kj::SECONDS;
  issuer.use(kj::mv(a));
  auto info = pki::inspect(issuer.issue(ask("10.0.0.9").request, kToken, worker).certificate);
  EXPECT_EQ((info.notAfter - wall.date) / kj::SECONDS, 10);
  EXPECT_EQ((halfLife(info) - wall.date) / kj::SECONDS, 5);
}

// Catches: a clock ten years off that ends the process, or that leaves names taken.
TEST_F(Issuing, AClockThatIsYearsOffMakesCertificatesOfItsOwnTime) {
  for (auto off : {87'600 * kj::HOURS, -87'600 * kj::HOURS}) {
    wall.date += off;
    auto info = pki::inspect(issuer.issue(ask("10.0.0.9").request, kToken, worker).certificate);
    EXPECT_EQ((info.notAfter - wall.date) / kj::HOURS, 24);
    wall.date -= off;
    EXPECT_TRUE(refusal(ask("10.0.0.9").request) == nullptr);
  }
}

// Catches: a CA that cannot sign and replaces one that can.
TEST_F(Issuing, AnAuthorityWithAnothersKeyIsRefusedAndTheOldOneStays) {
  auto other = pki::makeAuthority({.organization = "talos", .notBefore = wall.date});
  Authority a;
  a.certificate = kj::str(other.certificate);
  a.key = authority.key.clone();
  EXPECT_TRUE(kj::runCatchingExceptions([&] { issuer.use(kj::mv(a)); }) != nullptr);
  EXPECT_TRUE(refusal(ask("10.0.0.9").request) == nullptr);
}

TEST_F(Issuing, WithoutAnAuthorityItSaysSo) {
  issuer.forgetAuthority();
  EXPECT_TRUE(refusal(ask("10.0.0.9").request) == ErrorKind::kUnavailable);
}

}  // namespace
}  // namespace talos::trustd
