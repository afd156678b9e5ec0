// The life of a worker's certificate, with a clock of the test's own and a model of trustd.
#include "apid/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/node-certificate.h"
#include "common/virtual-time.h"

namespace talos::apid {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr kj::StringPtr kToken = "abcdef.0123456789abcdef"_kj;
const auto kStart = kj::UNIX_EPOCH + 20'000 * kj::DAYS;

std::string text(kj::StringPtr s) {
  return s.cStr();
}

struct TestClock final : kj::Clock {
  const kj::TimerImpl& timer;
  kj::Duration off = 0 * kj::SECONDS;  // of the right time
  explicit TestClock(const kj::TimerImpl& timer) : timer(timer) {}
  kj::Date right() const { return kStart + (timer.now() - kj::origin<kj::TimePoint>()); }
  kj::Date now() const override { return right() + off; }
};

struct JoinerTest : testing::Test {
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
  Address own = Address::parse("10.5.0.5");  // as trustd sees this machine
  kj::TreeSet<kj::String> down, silent;
  kj::Maybe<kj::Exception> refusal;
  bool refuseNames = false;
  kj::Function<void(pki::LeafOptions&)> bend = [](pki::LeafOptions&) {};
  kj::Maybe<const pki::CertificateAndKey&> signer, shown;
  kj::Maybe<pki::Pem> foreignKey;
  kj::Vector<kj::String> asked;
  kj::String lastRequest;
  kj::Vector<kj::Maybe<kj::Date>> times;  // that trustd's certificate was looked at for
  kj::String pinned;

  // The model of the store.
  kj::Maybe<Identity> stored;
  unsigned kept = 0;
  bool storeFails = false, storeSilent = false;
  kj::Vector<JoinReport> told;
  unsigned forgotten = 0;

  kj::TreeMap<kj::String, kj::Array<kj::String>> names;  // of the resolver
  kj::Maybe<kj::Own<Joiner>> joiner;
  kj::Promise<void> running = nullptr;

  kj::Promise<JoinAnswer> answer(JoinQuestion question) {
    auto to = question.to.toString();
    asked.add(kj::str(to));
    times.add(question.pin.at);
    pinned = kj::str(question.pin.kind());
    if (down.find(to) != nullptr) fail(ErrorKind::kUnavailable, kj::str(to, ":50001: refused"));
    if (silent.find(to) != nullptr) return kj::NEVER_DONE;
    KJ_IF_MAYBE (e, refusal) kj::throwFatalException(kj::cp(*e));
    lastRequest = question.request(own);
    auto info = pki::inspectRequest(lastRequest);
    if (refuseNames && info.dnsNames.size() > 0) {
      fail(ErrorKind::kPermissionDenied, "the name w1 has a certificate");
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
    KJ_IF_MAYBE (key, foreignKey) {
      lastRequest = pki::makeRequest(*key, {.addresses = copy(info.addresses)});
    }
    auto certificate = pki::signRequest(by.certificate, by.key, lastRequest, kj::mv(options));
    return JoinAnswer{kj::str(shown.orDefault(by).certificate), kj::mv(certificate)};
  }

  Joiner& start() {
    Joiner::World world{
        timer,
        clock,
        [] { return 0.5; },
        [this](kj::StringPtr host) -> kj::Promise<kj::Array<kj::String>> {
          KJ_IF_MAYBE (found, names.find(host)) {
            return KJ_MAP(f, *found) {
              return kj::str(f);
            };
          }
          if (Address::tryParse(host) != nullptr) return kj::arr(kj::str(host));
          return error(ErrorKind::kUnavailable, kj::str("cannot resolve \"", host, '"'));
        },
        [this](JoinQuestion question) {
          return kj::evalNow([&] { return answer(kj::mv(question)); });
        },
        [this](const Identity& identity) -> kj::Promise<void> {
          if (storeFails) return error(ErrorKind::kUnavailable, "machined is away");
          if (storeSilent) return kj::NEVER_DONE;
          ++kept;
          stored = identity.clone();
          KJ_ASSERT_NONNULL(joiner)->have(identity.clone());  // as the watch of the store tells
          return kj::READY_NOW;
        },
        [this](JoinReport report) { told.add(kj::mv(report)); },
        [this] { ++forgotten; }};
    auto& made = *joiner.emplace(kj::heap<Joiner>(kj::mv(world)));
    running = made.run().eagerlyEvaluate(
        [](kj::Exception&& e) { ADD_FAILURE() << e.getDescription().cStr(); });
    return made;
  }
  JoinWish wish() {
    JoinWish w;
    for (auto e : {"10.5.0.2"_kj, "10.5.0.3"_kj}) w.endpoints.add(kj::str(e));
    w.token = pki::Pem(kj::str(kToken));
    w.authority = kj::str(authority.certificate);
    w.commonName = kj::str("w1");
    w.dnsNames.add(kj::str("w1"));
    return w;
  }
  // A machine whose clock is right, and that has nothing yet.
  Joiner& join(kj::Maybe<JoinWish> special = nullptr) {
    auto& j = start();
    j.clockIs(true, 1);
    j.addressesAre(kj::arr(own));
    j.have(nullptr);
    KJ_IF_MAYBE (s, special) {
      j.want(kj::mv(*s));
    } else {
      j.want(wish());
    }
    scope.poll();
    return j;
  }
  void pass(kj::Duration by) { advance(timer, scope, by); }
  const JoinReport& now() { return told.back(); }
  pki::CertificateInfo held() { return pki::inspect(KJ_ASSERT_NONNULL(stored).certificate); }
  void expectRefused(kj::StringPtr why) {
    EXPECT_EQ(kept, 0u);
    EXPECT_FALSE(now().ready);
    EXPECT_THAT(text(now().message), HasSubstr(text(why)));
  }
};

TEST_F(JoinerTest, AsksForItsNamesAndTheAddressThatItCallsFrom) {
  auto w = wish();
  w.addresses.add(kj::str("10.9.9.9"));
  join(kj::mv(w));
  EXPECT_EQ(kept, 1u);
  auto info = pki::inspectRequest(lastRequest);
  EXPECT_EQ(kj::strArray(info.dnsNames, " "), "w1");
  EXPECT_EQ(kj::strArray(info.addresses, " "), "10.5.0.5 10.9.9.9");
  EXPECT_EQ(info.organizations.size(), 0u);
  EXPECT_TRUE(now().ready);
  EXPECT_EQ(now().endpoint, "10.5.0.2");
  EXPECT_EQ(now().verified, "ca");
  EXPECT_EQ(pinned, "ca");
  auto& got = KJ_ASSERT_NONNULL(stored);
  pki::checkPair(got.certificate, got.key);
}

TEST_F(JoinerTest, NothingIsAskedBeforeEverythingIsKnown) {
  auto& j = start();
  j.want(wish());
  pass(1 * kj::HOURS);
  EXPECT_EQ(asked.size(), 0u) << "there may be a certificate in the store";
  j.have(nullptr);
  scope.poll();
  EXPECT_EQ(kept, 1u);
}

// Catches: a machine that gives up, hammers, or waits for a dead endpoint for ever.
TEST_F(JoinerTest, EndpointsAreAskedInTurnForEver) {
  down.insert(kj::str("10.5.0.2"));
  silent.insert(kj::str("10.5.0.3"));
  join();
  pass(3 * kj::HOURS);
  EXPECT_EQ(kept, 0u);
  // A silent one costs 10 s, the longest pause is 30 s (times 1.0 by the test's chance).
  EXPECT_GT(asked.size(), 2 * 3 * 3600u / 41);
  EXPECT_LT(asked.size(), 2 * 3 * 3600u / 39);
  EXPECT_FALSE(now().ready);
  kj::String waiting;
  for (auto& report : told) {
    if (strstr(report.message.cStr(), "tries again") != nullptr) waiting = kj::str(report.message);
  }
  EXPECT_EQ(waiting,
            "10.5.0.2: 10.5.0.2:50001: refused; 10.5.0.3: no answer within 10s; tries again in "
            "30 s");
  EXPECT_GT(now().failures, 100u);
  silent.clear();
  pass(2 * kj::MINUTES);
  EXPECT_EQ(kept, 1u);
  EXPECT_EQ(now().failures, 0u);
}

TEST_F(JoinerTest, PausesGrow) {
  refusal = error(ErrorKind::kUnauthenticated, "the token is not machine.token");
  join();
  EXPECT_THAT(text(now().message), HasSubstr("the token is not machine.token"));
  EXPECT_THAT(text(now().message), HasSubstr("tries again in 1 s"));
  EXPECT_EQ(asked.size(), 2u);
  size_t before = 2;
  for (unsigned second : {1, 2, 4, 8, 16, 30, 30}) {
    pass(second * kj::SECONDS - 1 * kj::MILLISECONDS);
    EXPECT_EQ(asked.size(), before);
    pass(1 * kj::MILLISECONDS);
    before += 2;
    EXPECT_EQ(asked.size(), before) << second;
  }
}

// Catches: the token in a status, because a server that nobody verified repeats it.
TEST_F(JoinerTest, TheTokenIsNeverTold) {
  refusal = error(ErrorKind::kUnauthenticated, kj::str("you said ", kToken, "\nand\x1b[31m"));
  join();
  for (auto& report : told) EXPECT_THAT(text(report.message), Not(HasSubstr(text(kToken))));
  EXPECT_THAT(text(now().message), HasSubstr("you said *** and [31m"));
}

TEST_F(JoinerTest, NamesAreResolvedToAllTheirAddresses) {
  auto w = wish();
  w.endpoints.clear();
  for (auto e : {"nowhere.example.org"_kj, "cp.example.org"_kj}) w.endpoints.add(kj::str(e));
  names.insert(kj::str("cp.example.org"), kj::arr(kj::str("fd00::2"), kj::str("10.5.0.3")));
  down.insert(kj::str("fd00::2"));
  join(kj::mv(w));
  EXPECT_EQ(kj::strArray(asked, " "), "fd00::2 10.5.0.3");
  EXPECT_TRUE(now().ready);
}

// Catches: a renewal that is late, early, or made for every machine at the same moment; calls that
// have nothing meanwhile.
TEST_F(JoinerTest, RenewedAtHalfOfItsLife) {
  lifetime = 20 * kj::SECONDS;
  join();
  EXPECT_EQ(kept, 1u);
  auto first = held().serial;
  pass(10 * kj::SECONDS - 1 * kj::MILLISECONDS);
  EXPECT_EQ(kept, 1u);
  pass(1 * kj::SECONDS);
  EXPECT_EQ(kept, 2u);
  EXPECT_NE(held().serial, first);
  pass(10 * kj::MINUTES);
  EXPECT_NEAR(kept, 2 + 60, 1);
}

// Catches: a certificate that is dropped before there is a new one, and a machine that does not
// recover; the endpoint that answered last is asked first.
TEST_F(JoinerTest, WithoutTrustdTheOldOneIsServedAndThenReplaced) {
  lifetime = 60 * kj::SECONDS;
  down.insert(kj::str("10.5.0.2"));
  join();
  EXPECT_EQ(now().endpoint, "10.5.0.3");
  EXPECT_EQ(held().dnsNames.size(), 1u) << "one that is down has refused no name";
  asked.clear();
  down.insert(kj::str("10.5.0.3"));
  pass(50 * kj::SECONDS);
  ASSERT_GT(asked.size(), 3u);
  EXPECT_EQ(asked[0], "10.5.0.3");
  EXPECT_EQ(asked[1], "10.5.0.2");
  EXPECT_EQ(asked[3], "10.5.0.2") << "each once in a round";
  EXPECT_TRUE(now().ready) << "it is valid still";
  pass(60 * kj::SECONDS);
  EXPECT_FALSE(now().ready);
  EXPECT_THAT(text(now().message), HasSubstr("the certificate is valid from 2024-10-0"));
  EXPECT_THAT(text(now().message), HasSubstr("but the clock shows 2024-10-04T00:01:"));
  EXPECT_TRUE(stored != nullptr) << "an expired one says more than none";
  down.clear();
  pass(35 * kj::SECONDS);
  EXPECT_TRUE(now().ready);
  EXPECT_EQ(kept, 2u);
}

TEST_F(JoinerTest, ARestartGoesOnWithWhatIsStored) {
  join();
  auto before = KJ_ASSERT_NONNULL(stored).clone();
  running = nullptr;
  joiner = nullptr;
  asked.clear();
  auto& j = start();
  j.clockIs(true, 1);
  j.have(kj::mv(before));
  j.want(wish());
  pass(1 * kj::HOURS);
  EXPECT_EQ(asked.size(), 0u);
  EXPECT_TRUE(now().ready);
}

// Catches: a certificate that stays although the machine is called or reached otherwise.
TEST_F(JoinerTest, RenewedWhenWhatItSaysChanges) {
  auto& j = join();
  auto next = [&](JoinWish w) {
    auto before = kept;
    j.want(kj::mv(w));
    scope.poll();
    return kept - before;
  };
  EXPECT_EQ(next(wish()), 0u);
  auto named = wish();
  named.dnsNames.add(kj::str("w1.example.org"));
  EXPECT_EQ(next(kj::mv(named)), 1u);
  EXPECT_EQ(held().dnsNames.size(), 2u);
  EXPECT_EQ(next(wish()), 1u);
  auto token = wish();
  token.token = pki::Pem(kj::str("zzzzzz.0123456789abcdef"));
  EXPECT_EQ(next(kj::mv(token)), 1u);
  auto hash = wish();
  hash.token = pki::Pem(kj::str("zzzzzz.0123456789abcdef"));
  hash.authority = kj::str();
  hash.authorityHash = pki::authorityHash(authority.certificate);
  EXPECT_EQ(next(kj::mv(hash)), 0u) << "the same authority by its hash";
  EXPECT_EQ(now().verified, "hash");
  auto before = kept;
  own = Address::parse("10.5.0.9");
  j.addressesAre(kj::arr(own));
  scope.poll();
  EXPECT_EQ(kept, before + 1);
  EXPECT_EQ(held().addresses[0], "10.5.0.9");
  auto questions = asked.size();
  auto foreign = wish();
  foreign.token = pki::Pem(kj::str("zzzzzz.0123456789abcdef"));
  foreign.authority = kj::str();
  foreign.authorityHash = pki::authorityHash(other.certificate);
  EXPECT_EQ(next(kj::mv(foreign)), 0u);
  EXPECT_GT(asked.size(), questions) << "what there is is another authority's";
  questions = asked.size();
  auto replaced = wish();
  replaced.token = pki::Pem(kj::str("zzzzzz.0123456789abcdef"));
  replaced.authority = kj::str(other.certificate);
  EXPECT_EQ(next(kj::mv(replaced)), 0u);
  EXPECT_GT(asked.size(), questions);
  j.want(nullptr);
  scope.poll();
  EXPECT_EQ(forgotten, 1u);
}

// Catches: an answer that is believed because TLS was.
TEST_F(JoinerTest, AnswersThatAreRefused) {
  signer = other;
  join();
  expectRefused("its authority is not the one that this machine knows");
}
TEST_F(JoinerTest, AForeignSignatureUnderTheRightAuthorityIsRefused) {
  signer = other;
  shown = authority;
  join();
  expectRefused("its certificate is not one of its authority");
}
TEST_F(JoinerTest, AnotherHashIsRefused) {
  signer = other;
  auto w = wish();
  w.authority = kj::str();
  w.authorityHash = pki::authorityHash(authority.certificate);
  join(kj::mv(w));
  expectRefused("not machine.caHash");
}
TEST_F(JoinerTest, ACertificateForAnotherKeyIsRefused) {
  foreignKey = pki::makeKey(pki::KeyType::kEd25519);
  join();
  expectRefused("is not for the key that was asked with");
}
TEST_F(JoinerTest, ACertificateWithoutTheAddressIsRefused) {
  bend = [](pki::LeafOptions& options) { options.addresses = kj::arr(kj::str("10.5.0.6")); };
  join();
  expectRefused("its certificate lacks 10.5.0.5");
}
TEST_F(JoinerTest, ACertificateOfAnotherTimeIsRefusedWithBothTimes) {
  bend = [](pki::LeafOptions& options) { options.notBefore = kStart - 300 * kj::DAYS; };
  join();
  expectRefused(
      "valid from 2023-12-09T00:00:00Z to 2023-12-10T00:05:00Z, but this machine's clock shows "
      "2024-10-04T00:00:00Z");
}

TEST_F(JoinerTest, ACertificateOfATimeToComeIsRefusedWithBothTimes) {
  bend = [](pki::LeafOptions& options) { options.notBefore = kStart + 1 * kj::HOURS; };
  join();
  expectRefused(
      "valid from 2024-10-04T01:00:00Z to 2024-10-05T01:05:00Z, but this machine's clock shows "
      "2024-10-04T00:00:00Z");
}

// Catches: a machine ten years off that never gets its API, or one that trusts old times for ever.
TEST_F(JoinerTest, AWrongClockIsNotAskedUntilItIsSet) {
  for (auto years : {-10, 10}) {
    clock.off = years * 365 * kj::DAYS;
    kept = 0;
    times.clear();
    auto& j = start();
    j.have(nullptr);
    j.want(wish());
    scope.poll();
    EXPECT_EQ(kept, 1u);
    ASSERT_EQ(times.size(), 1u);
    EXPECT_TRUE(times[0] == nullptr) << "trustd's own certificate is not measured by it either";
    EXPECT_TRUE(now().ready);
    EXPECT_THAT(text(now().message), HasSubstr("when the clock is set"));
    // A life is counted from when it came.
    pass(12 * kj::HOURS - 1 * kj::SECONDS);
    EXPECT_EQ(kept, 1u);
    pass(2 * kj::SECONDS);
    EXPECT_EQ(kept, 2u);
    clock.off = 0 * kj::SECONDS;
    j.clockIs(true, 1);
    scope.poll();
    EXPECT_EQ(kept, 2u);
    EXPECT_THAT(text(now().message), HasSubstr("is renewed at 2024-10-0"));
    running = nullptr;
    joiner = nullptr;
    stored = nullptr;
  }
}

TEST_F(JoinerTest, WhenTheClockIsSetEverythingIsLookedAtAgain) {
  bend = [](pki::LeafOptions& options) { options.notBefore = kStart - 300 * kj::DAYS; };
  auto& j = start();
  j.have(nullptr);
  j.want(wish());
  scope.poll();
  EXPECT_EQ(kept, 1u);
  EXPECT_TRUE(now().ready);
  bend = [](pki::LeafOptions&) {};
  j.clockIs(true, 1);
  scope.poll();
  EXPECT_EQ(kept, 2u);
  // A step back: the certificate is from a time to come.
  clock.off = -20 * kj::DAYS;
  j.clockIs(true, 2);
  scope.poll();
  EXPECT_FALSE(now().ready);
}

// The first one is believed, and from then on no other.
TEST_F(JoinerTest, WithoutAnAuthorityTheFirstAnswerCounts) {
  auto w = wish();
  w.authority = kj::str();
  ::testing::internal::CaptureStderr();
  auto& j = join(kj::mv(w));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("could not be verified"));
  EXPECT_EQ(now().verified, "nothing");
  EXPECT_THAT(text(now().message), HasSubstr("neither machine.ca nor machine.caHash"));
  signer = other;
  pass(13 * kj::HOURS);
  EXPECT_EQ(kept, 1u);
  EXPECT_EQ(pinned, "ca");
  (void)j;
}

// Catches: a worker without an API because its host name was another machine's.
TEST_F(JoinerTest, ARefusedNameLeavesTheAddress) {
  refuseNames = true;
  auto& j = join();
  EXPECT_EQ(kept, 1u) << "the next endpoint was asked for the address alone";
  EXPECT_EQ(held().dnsNames.size(), 0u);
  EXPECT_TRUE(now().ready);
  EXPECT_THAT(text(now().message), HasSubstr("it has the address only: the name w1"));
  pass(1 * kj::HOURS);
  EXPECT_EQ(kept, 1u);
  refuseNames = false;
  auto renamed = wish();
  renamed.dnsNames[0] = kj::str("w2");
  j.want(kj::mv(renamed));
  scope.poll();
  EXPECT_EQ(kj::strArray(held().dnsNames, " "), "w2") << "another name is not the refused one";
}

// Catches: a name that is never asked for again, although it has been free for long.
TEST_F(JoinerTest, ARenewalAsksForTheNamesAgain) {
  refuseNames = true;
  join();
  EXPECT_EQ(held().dnsNames.size(), 0u);
  refuseNames = false;
  pass(12 * kj::HOURS);
  EXPECT_EQ(held().dnsNames.size(), 1u);
  refuseNames = true;
  pass(12 * kj::HOURS);
  EXPECT_EQ(held().dnsNames.size(), 0u) << "the address alone is better than nothing";
  EXPECT_TRUE(now().ready);
}

// Catches: a machine that asks without a pause for what it does not get.
TEST_F(JoinerTest, AnAnswerThatIsNotWhatWasAskedForIsAskedAgainWithPauses) {
  struct Row {
    const char* what;
    kj::Function<void(pki::LeafOptions&)> bend;
  } rows[] = {
      {"no names", [](pki::LeafOptions& options) { options.dnsNames = nullptr; }},
      {"half of its life is over",
       [](pki::LeafOptions& options) {
         options.notBefore = KJ_ASSERT_NONNULL(options.notBefore) - 13 * kj::HOURS;
       }},
  };
  for (auto& row : rows) {
    bend = kj::mv(row.bend);
    kept = 0;
    auto begin = timer.now();
    auto& j = start();
    j.clockIs(true, 1);
    j.have(nullptr);
    j.want(wish());
    // Turn by turn: without a pause there would be no end of them.
    for (int turns = 0; turns < 100 && kept < 3; ++turns) {
      pass(1 * kj::SECONDS);
    }
    EXPECT_GE((timer.now() - begin) / kj::SECONDS, 3) << row.what;
    EXPECT_TRUE(now().ready) << "it is served all the same";
    EXPECT_THAT(text(now().message), HasSubstr("tries again in"));
    bend = [](pki::LeafOptions&) {};
    pass(10 * kj::SECONDS);
    EXPECT_THAT(text(now().message), HasSubstr("is renewed at"));
    EXPECT_EQ(now().failures, 0u);
    running = nullptr;
    joiner = nullptr;
  }
}

TEST_F(JoinerTest, AStoreThatSaysNothingIsAReason) {
  storeSilent = true;
  join();
  pass(20 * kj::SECONDS + 1 * kj::MILLISECONDS);
  EXPECT_THAT(text(told.back().message), HasSubstr("within 10s"));
  storeSilent = false;
  pass(5 * kj::SECONDS);
  EXPECT_TRUE(now().ready);
}

TEST_F(JoinerTest, AStoreThatIsAwayIsAReason) {
  storeFails = true;
  join();
  EXPECT_THAT(text(now().message), HasSubstr("machined is away"));
  storeFails = false;
  pass(5 * kj::SECONDS);
  EXPECT_TRUE(now().ready);
}

TEST_F(JoinerTest, WhatTheConfigLacksIsSaid) {
  auto w = wish();
  w.token = pki::Pem();
  auto& j = join(kj::mv(w));
  EXPECT_THAT(text(now().message), HasSubstr("no machine.token"));
  auto v = wish();
  v.endpoints.clear();
  j.want(kj::mv(v));
  scope.poll();
  EXPECT_THAT(text(now().message), HasSubstr("names no control plane"));
  EXPECT_EQ(asked.size(), 0u);
}

TEST_F(JoinerTest, WhoIsTrustd) {
  auto issue = [&](const pki::CertificateAndKey& by, bool server) {
    return pki::issue(by.certificate, by.key,
                      {.server = server,
                       .client = !server,
                       .lifetime = 1 * kj::HOURS,
                       .notBefore = kStart})
        .certificate;
  };
  auto refusal = [](const Pin& pin, kj::String leaf, kj::StringPtr issuer = "") {
    auto chain = issuer.size() > 0 ? kj::arr(kj::mv(leaf), kj::str(issuer)) : kj::arr(kj::mv(leaf));
    return text(pin.refusal(chain).orDefault(kj::str("-")));
  };
  auto at = kStart + 1 * kj::MINUTES, late = kStart + 2 * kj::HOURS;
  Pin ca{kj::str(authority.certificate), kj::str(), at};
  Pin hash{kj::str(), pki::authorityHash(authority.certificate), at};
  for (auto* pin : {&ca, &hash}) {
    EXPECT_EQ(refusal(*pin, issue(authority, true), authority.certificate), "-");
    EXPECT_NE(refusal(*pin, issue(other, true), other.certificate), "-");
    EXPECT_NE(refusal(*pin, issue(other, true), authority.certificate), "-")
        << "shown, not its own";
    EXPECT_NE(refusal(*pin, issue(authority, false), authority.certificate), "-")
        << "an administrator's certificate is no server's";
    pin->at = late;
    EXPECT_EQ(refusal(*pin, issue(authority, true), authority.certificate),
              "certificate has expired");
    pin->at = nullptr;
    EXPECT_EQ(refusal(*pin, issue(authority, true), authority.certificate), "-");
  }
  EXPECT_EQ(refusal(ca, issue(authority, true)), "-");
  EXPECT_THAT(refusal(hash, issue(authority, true)), HasSubstr("none of the 1 certificates"));
  EXPECT_EQ(refusal(Pin{}, issue(other, true)), "-");
}

}  // namespace
}  // namespace talos::apid
