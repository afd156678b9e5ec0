// Certificates for join tokens, with tokens that the test makes up.
#include "trustd/join-tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/testing/test-ip.h"
#include "common/tls/held-message.h"
#include "common/tls/signature.h"
#include "trustd/issuer.h"

namespace talos::trustd {
namespace {

using ::testing::HasSubstr;
using State = ShownToken::State;

constexpr auto kJoinToken = "join-abcdef.0123456789abcdef"_kj;

struct JoinWall final : kj::Clock {
  kj::Date date = kj::UNIX_EPOCH + 20'000 * kj::DAYS;
  kj::Date now() const override { return date; }
};
struct JoinSteady final : kj::MonotonicClock {
  kj::TimePoint time = kj::origin<kj::TimePoint>() + 1 * kj::DAYS;
  kj::TimePoint now() const override { return time; }
};

struct JoinTokenTest : ::testing::Test {
  ~JoinTokenTest() noexcept override {}
  JoinWall wall;
  JoinSteady steady;
  pki::CertificateAndKey authority =
      pki::makeAuthority({.organization = "talos", .notBefore = wall.date - 1 * kj::DAYS});
  Issuer issuer{wall, steady};
  const Ip worker = ip("10.0.0.9");
  pki::Pem key = pki::makeKey(pki::KeyType::kEd25519), other = pki::makeKey(pki::KeyType::kEd25519);

  void SetUp() override { use(true); }
  void use(bool known) {
    Authority a;
    a.certificate = kj::str(authority.certificate);
    a.key = authority.key.clone();
    a.controlPlaneKnown = known;
    a.token = pki::Pem(kj::str("abcdef.0123456789abcdef"));
    issuer.use(kj::mv(a));
  }
  static kj::String request(kj::StringPtr key, std::initializer_list<kj::StringPtr> names,
                            kj::StringPtr address = "10.0.0.9") {
    auto dns = KJ_MAP(name, kj::arrayPtr(names.begin(), names.size())) {
      return kj::str(name);
    };
    return pki::makeRequest(key, {.dnsNames = kj::mv(dns), .addresses = kj::arr(kj::str(address))});
  }
  ShownToken shown(State state, kj::StringPtr hostname = "", kj::StringPtr usedBy = "") {
    return {.state = state,
            .id = kj::str("abcdef"),
            .hostname = kj::str(hostname),
            .fingerprint = kj::str(usedBy),
            .since = wall.date - 1 * kj::HOURS,
            .error = kj::str("etcd at 127.0.0.1:2379: no leader")};
  }
  kj::String fingerprintOf(kj::StringPtr its) {
    auto info = pki::inspectRequest(request(its, {}));
    return kj::mv(info.fingerprint);
  }
  Issuer::Issued issue(kj::StringPtr text, const ShownToken& token, HeldCertificate held = {}) {
    return issuer.issue(text, kJoinToken, worker, nullptr, held, token);
  }
  std::string refusal(kj::FunctionParam<void()> what) {
    auto failure = kj::runCatchingExceptions([&] { what(); });
    KJ_IF_MAYBE (e, failure) return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e)).cStr();
    return "";
  }
};

// Catches: a token that is used up by a repetition of the same join, or grants a certificate to
// another key.
TEST_F(JoinTokenTest, GivesOneKeyACertificate) {
  auto text = request(key, {"w1"});
  auto first = issue(text, shown(State::kUnused));
  EXPECT_TRUE(first.spends);
  EXPECT_EQ(first.record.joinToken, "abcdef");
  EXPECT_FALSE(first.record.renewal);
  EXPECT_EQ(first.record.fingerprint, fingerprintOf(key));
  auto used = shown(State::kUsed, "", fingerprintOf(key));
  issuer.requireSpent(first, used, worker);
  EXPECT_FALSE(issue(text, used).spends);
  // Further names and another address are allowed: the token grants the same as machine.token.
  EXPECT_FALSE(
      issuer
          .issue(request(key, {"w2"}, "10.0.0.10"), kJoinToken, ip("10.0.0.10"), nullptr, {}, used)
          .spends);
  EXPECT_THAT(refusal([&] { issue(request(other, {"w1"}), used); }),
              HasSubstr("Unauthenticated: the join token abcdef was used by another node"));
  EXPECT_THAT(refusal([&] {
                issuer.requireSpent(issue(request(other, {"w1"}), shown(State::kUnused)), used,
                                    worker);
              }),
              HasSubstr("Unauthenticated: the join token abcdef was used"));
}

// Catches: a refusal that a worker's status cannot explain, or that says more to a guesser.
TEST_F(JoinTokenTest, IsRefusedWithTheReasonToWhoHasTheSecret) {
  auto text = request(key, {"w1"});
  auto wrong =
      "Unauthenticated: wrong token; use machine.token of the control-plane nodes, or a "
      "join token";
  struct Row {
    State state;
    const char* error;
  } rows[] = {
      {State::kExpired, "Unauthenticated: the join token abcdef expired at 20"},
      {State::kRevoked, "Unauthenticated: the join token abcdef was revoked at 20"},
      {State::kUnverified,
       "Unavailable: cannot verify the join token: etcd at 127.0.0.1:2379: no leader; retry"},
      {State::kUnknown, wrong}};
  for (auto& row : rows) {
    EXPECT_THAT(refusal([&] { issue(text, shown(row.state)); }), HasSubstr(row.error));
    steady.time += 10 * kj::MINUTES;
    EXPECT_THAT(refusal([&] { issuer.prove(kJoinToken, worker, {}, shown(row.state)); }),
                HasSubstr(row.error));
    steady.time += 10 * kj::MINUTES;
  }
  // A text that is not a token, and an unknown token, get the same answer.
  EXPECT_EQ(refusal([&] { issuer.issue(text, kJoinToken, worker, nullptr, {}, nullptr); }), wrong);
}

// Catches: guesses that cost nothing; a node with the secret that waits for its status because of
// earlier calls.
TEST_F(JoinTokenTest, GuessesAreLimitedAndItsOwnerIsNot) {
  auto text = request(key, {"w1"});
  EXPECT_THAT(refusal([&] { issue(text, shown(State::kUnknown)); }), HasSubstr("wrong token"));
  EXPECT_THAT(refusal([&] { issue(text, shown(State::kUnknown)); }),
              HasSubstr("Unavailable: too many failed requests from 10.0.0.9; retry in 500 ms"));
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_THAT(refusal([&] { issue(text, shown(State::kExpired)); }), HasSubstr("expired at"));
  }
  EXPECT_TRUE(issue(text, shown(State::kUnused)).spends);
}

// Catches: a worker in foreign hands that guesses machine.token without a delay, because its own
// token, or its certificate, succeeds in between.
TEST_F(JoinTokenTest, WhoHasJoinedGuessesNoFaster) {
  auto used = shown(State::kUsed, "", fingerprintOf(key));
  auto text = request(key, {"w1"});
  EXPECT_THAT(refusal([&] { issue(text, shown(State::kUnknown)); }), HasSubstr("wrong token"));
  issuer.prove(kJoinToken, worker, {}, used);
  EXPECT_FALSE(issue(text, used).spends);
  auto certificate = issue(text, used).certificate;
  auto proves = pki::sign(key, messageToProve().asBytes());
  issuer.prove("", worker, {.certificate = certificate.asBytes(), .signature = proves}, nullptr);
  auto renews = pki::sign(key, messageToRenew(text).asBytes());
  issue(text, shown(State::kUnknown), {.certificate = certificate.asBytes(), .signature = renews});
  EXPECT_THAT(refusal([&] { issue(text, shown(State::kUnknown)); }),
              HasSubstr("too many failed requests"));
}

// Catches: a token for one host name that grants another name, or none, so that it is spent for
// nothing; a worker with a domain that does not get its name.
TEST_F(JoinTokenTest, ABoundOneGivesItsHostNameAlone) {
  struct Row {
    const char* hostname;
    std::vector<kj::StringPtr> names;
    const char* error;
  } rows[] = {
      {"w1", {"w1"}, ""},
      {"w1.example.org", {"w1", "w1.example.org"}, ""},
      {"w1.example.org", {"w1"}, ""},
      {"w1", {"w1", "w1.example.org"}, "the request has the name w1.example.org"},
      {"w1", {"w2"}, "the request has the name w2"},
      {"w1.example.org", {"w1", "w1.example.com"}, "the request has the name w1.example.com"},
      {"w1", {"w"}, "the request has the name w"},
      {"w1", {}, "the request has none"},
      {"", {"w1", "w1.example.org", "any"}, ""},
  };
  for (auto& row : rows) {
    auto dns = KJ_MAP(name, row.names) {
      return kj::str(name);
    };
    auto text =
        pki::makeRequest(key, {.dnsNames = kj::mv(dns), .addresses = kj::arr(kj::str("10.0.0.9"))});
    for (auto state : {State::kUnused, State::kUsed}) {
      auto token = shown(state, row.hostname, fingerprintOf(key));
      auto error = refusal([&] { issue(text, token); });
      if (*row.error == 0) {
        EXPECT_EQ(error, "");
      } else {
        EXPECT_EQ(error, kj::str("PermissionDenied: the join token abcdef is for the host name ",
                                 row.hostname, "; ", row.error)
                             .cStr());
      }
    }
  }
}

// Catches: a worker with a token for its host name that waits for a control plane that is not
// bootstrapped, or whose token is spent for an address; an unbound token that grants a name in this
// state.
TEST_F(JoinTokenTest, ABoundNameIsKnownToBeTheWorkers) {
  use(false);
  auto text = request(key, {"w1"});
  EXPECT_TRUE(issue(text, shown(State::kUnused, "w1")).spends);
  EXPECT_THAT(refusal([&] { issue(text, shown(State::kUnused)); }),
              HasSubstr("FailedPrecondition: the name w1 is not signed yet"));
  EXPECT_TRUE(issue(request(key, {}), shown(State::kUnused)).spends);
}

// Catches: a joined worker that is cut off when its token has expired, or etcd is down; a worker
// whose certificate grants it more than its content.
TEST_F(JoinTokenTest, ACertificateIsRenewedWithoutIt) {
  auto certificate = issue(request(key, {"w1"}), shown(State::kUnused)).certificate;
  auto text = request(other, {"w1"});
  auto signature = pki::sign(key, messageToRenew(text).asBytes());
  HeldCertificate held{.certificate = certificate.asBytes(), .signature = signature};
  for (auto state :
       {State::kUsed, State::kExpired, State::kRevoked, State::kUnverified, State::kUnknown}) {
    auto issued = issue(text, shown(state, "", fingerprintOf(key)), held);
    EXPECT_TRUE(issued.record.renewal);
    EXPECT_FALSE(issued.spends);
    EXPECT_EQ(issued.record.joinToken, "");
  }
  auto more = request(other, {"w1", "w2"});
  auto again = pki::sign(key, messageToRenew(more).asBytes());
  HeldCertificate greedy{.certificate = certificate.asBytes(), .signature = again};
  EXPECT_THAT(refusal([&] { issue(more, shown(State::kUsed, "", fingerprintOf(key)), greedy); }),
              HasSubstr("PermissionDenied: the certificate that is renewed lacks the name w2"));
}

// Catches: an address that a node cannot prove any more, because its token is spent.
TEST_F(JoinTokenTest, AUsedOneProvesAnAddress) {
  for (auto state : {State::kUnused, State::kUsed}) {
    EXPECT_GT(issuer.prove(kJoinToken, worker, {}, shown(state, "w1", "key")).size(), 0u);
  }
}

}  // namespace
}  // namespace talos::trustd
