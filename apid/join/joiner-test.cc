// The life cycle of a worker's certificate, with a virtual clock and a model of trustd.
#include "apid/join/test-joiner.h"

namespace talos::apid {
namespace {

using ::testing::HasSubstr;
using testing::JoinerTest;
using testing::kStart;
using testing::kToken;
using ::testing::Not;
using testing::text;

TEST_F(JoinerTest, AsksForItsNamesAndTheAddressThatItCallsFrom) {
  auto w = config();
  w.addresses.add(kj::str("10.9.9.9"));
  join(kj::mv(w));
  EXPECT_EQ(storedCount, 1u);
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

TEST_F(JoinerTest, TheAddressThatItCallsFromIsAskedForOnce) {
  auto w = config();
  w.addresses.add(own.toString());
  join(kj::mv(w));
  EXPECT_EQ(kj::strArray(pki::inspectRequest(lastRequest).addresses, " "), "10.5.0.5");
  EXPECT_TRUE(now().ready);
}

TEST_F(JoinerTest, NothingIsAskedBeforeEverythingIsKnown) {
  auto& j = start();
  j.setConfig(config());
  pass(1 * kj::HOURS);
  EXPECT_EQ(asked.size(), 0u) << "there may be a certificate in the store";
  j.setIdentity(nullptr);
  scope.poll();
  EXPECT_EQ(storedCount, 1u);
}

// Catches: a machine that gives up, hammers, or waits for a dead endpoint for ever.
TEST_F(JoinerTest, EndpointsAreAskedInTurnForEver) {
  down.insert(kj::str("10.5.0.2"));
  silent.insert(kj::str("10.5.0.3"));
  join();
  pass(3 * kj::HOURS);
  EXPECT_EQ(storedCount, 0u);
  // A silent endpoint costs 10 s, the longest pause is 30 s (times 1.0 by the test's chance).
  EXPECT_GT(asked.size(), 2 * 3 * 3600u / 41);
  EXPECT_LT(asked.size(), 2 * 3 * 3600u / 39);
  EXPECT_FALSE(now().ready);
  kj::String waiting;
  for (auto& report : reports) {
    if (strstr(report.message.cStr(), "retry in") != nullptr) waiting = kj::str(report.message);
  }
  EXPECT_EQ(waiting,
            "10.5.0.2: 10.5.0.2:50001: refused; 10.5.0.3: no answer within 10s; retry in "
            "30 s");
  EXPECT_GT(now().failures, 100u);
  silent.clear();
  pass(2 * kj::MINUTES);
  EXPECT_EQ(storedCount, 1u);
  EXPECT_EQ(now().failures, 0u);
}

TEST_F(JoinerTest, PausesGrow) {
  refusal = error(ErrorKind::kUnauthenticated, "wrong token");
  join();
  EXPECT_THAT(text(now().message), HasSubstr("wrong token"));
  EXPECT_THAT(text(now().message), HasSubstr("retry in 1 s"));
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

// Catches: a log that is full of one error.
TEST_F(JoinerTest, AnErrorIsLoggedOnce) {
  refusal = error(ErrorKind::kUnauthenticated, "wrong token");
  ::testing::internal::CaptureStderr();
  join();
  pass(5 * kj::MINUTES);
  std::string log = ::testing::internal::GetCapturedStderr();
  auto first = log.find("cannot get a certificate for the API; retrying");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(log.find("cannot get a certificate for the API; retrying", first + 1),
            std::string::npos)
      << log;
}

// Catches: an invalid answer of the resolver, after which the request is repeated without a pause.
TEST_F(JoinerTest, AnAnswerThatIsNoAddressIsAskedForAgainLater) {
  auto w = config();
  w.endpoints.clear();
  w.endpoints.add(kj::str("cp.example.org"));
  names.insert(kj::str("cp.example.org"), kj::arr(kj::str("nonsense")));
  join(kj::mv(w));
  EXPECT_EQ(storedCount, 0u);
  names.clear();
  names.insert(kj::str("cp.example.org"), kj::arr(kj::str("10.5.0.3")));
  pass(Joiner::kLongestPause);
  EXPECT_TRUE(now().ready);
}

// Catches: the token in a status, because an unverified server repeats it.
TEST_F(JoinerTest, TheTokenIsNeverInAReport) {
  refusal = error(ErrorKind::kUnauthenticated, kj::str("you said ", kToken, "\nand\x1b[31m"));
  join();
  for (auto& report : reports) EXPECT_THAT(text(report.message), Not(HasSubstr(text(kToken))));
  EXPECT_THAT(text(now().message), HasSubstr("you said *** and?[31m"));
}

TEST_F(JoinerTest, NamesAreResolvedToAllTheirAddresses) {
  auto w = config();
  w.endpoints.clear();
  for (auto e : {"nowhere.example.org"_kj, "cp.example.org"_kj}) w.endpoints.add(kj::str(e));
  names.insert(kj::str("cp.example.org"), kj::arr(kj::str("fd00::2"), kj::str("10.5.0.3")));
  down.insert(kj::str("fd00::2"));
  join(kj::mv(w));
  EXPECT_EQ(kj::strArray(asked, " "), "fd00::2 10.5.0.3");
  EXPECT_TRUE(now().ready);
}

// Catches: a renewal that is late, early, or made for every machine at the same moment; calls that
// fail in the meantime.
TEST_F(JoinerTest, RenewedAtHalfOfItsLife) {
  lifetime = 20 * kj::SECONDS;
  join();
  EXPECT_EQ(storedCount, 1u);
  auto first = held().serial;
  pass(10 * kj::SECONDS - 1 * kj::MILLISECONDS);
  EXPECT_EQ(storedCount, 1u);
  pass(1 * kj::SECONDS);
  EXPECT_EQ(storedCount, 2u);
  EXPECT_NE(held().serial, first);
  pass(10 * kj::MINUTES);
  EXPECT_NEAR(storedCount, 2 + 60, 1);
}

TEST_F(JoinerTest, OneThatIsShorterThanItIsBackdatedIsRenewedAtHalfOfIt) {
  bend = [&](pki::LeafOptions& options) {
    options.lifetime = 4 * kj::MINUTES;
    options.notBefore = clock.right();
  };
  join();
  EXPECT_THAT(text(now().message),
              HasSubstr("certificate will be renewed at 2024-10-04T00:02:00Z"));
}

// Catches: a clock that another program stepped without a notice.
TEST_F(JoinerTest, TheClockIsLookedAtEachHour) {
  join();
  clock.off = 13 * kj::HOURS;
  bend = [&](pki::LeafOptions& options) { options.notBefore = clock.now() - kBackdated; };
  pass(1 * kj::HOURS + 1 * kj::SECONDS);
  EXPECT_EQ(storedCount, 2u);
}

// Catches: a certificate that is dropped before its successor arrives, and a machine that does not
// recover; the last endpoint that answered is tried first.
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
  EXPECT_EQ(storedCount, 2u);
}

TEST_F(JoinerTest, ARestartGoesOnWithWhatIsStored) {
  join();
  auto before = KJ_ASSERT_NONNULL(stored).clone();
  running = nullptr;
  joiner = nullptr;
  asked.clear();
  auto& j = start();
  j.setClock(true, 1);
  j.setIdentity(kj::mv(before));
  j.setConfig(config());
  pass(1 * kj::HOURS);
  EXPECT_EQ(asked.size(), 0u);
  EXPECT_TRUE(now().ready);
  auto said = reports.size();
  j.setIdentity(KJ_ASSERT_NONNULL(stored).clone());
  scope.poll();
  EXPECT_EQ(reports.size(), said) << "the same again";
}

TEST_F(JoinerTest, WhatIsStoredAndCannotBeReadIsNothing) {
  auto& j = start();
  j.setClock(true, 1);
  j.setIdentity(Identity{kj::str(authority.certificate), kj::str("no certificate"), pki::Pem()});
  j.setConfig(config());
  scope.poll();
  EXPECT_EQ(storedCount, 1u);
  EXPECT_TRUE(now().ready);
}

// Catches: a new token that is forgotten at the next change of the config, before its use.
TEST_F(JoinerTest, ANewTokenIsUsedInTheEnd) {
  auto& j = join();
  for (auto address : {"10.5.0.2", "10.5.0.3"}) down.insert(kj::str(address));
  for (auto more : {"10.5.0.4"_kj, "10.5.0.6"_kj}) {
    auto token = config();
    token.token = pki::Pem(kj::str("zzzzzz.0123456789abcdef"));
    token.endpoints.add(kj::str(more));
    down.insert(kj::str(more));
    j.setConfig(kj::mv(token));
    scope.poll();
  }
  EXPECT_EQ(storedCount, 1u);
  down.clear();
  pass(5 * kj::SECONDS);
  EXPECT_EQ(storedCount, 2u);
}

// Catches: a certificate that stays although the machine's name or address has changed.
TEST_F(JoinerTest, RenewedWhenWhatItSaysChanges) {
  auto& j = join();
  auto next = [&](JoinConfig w) {
    auto before = storedCount;
    j.setConfig(kj::mv(w));
    scope.poll();
    return storedCount - before;
  };
  EXPECT_EQ(next(config()), 0u);
  auto named = config();
  named.dnsNames.add(kj::str("w1.example.org"));
  EXPECT_EQ(next(kj::mv(named)), 1u);
  EXPECT_EQ(held().dnsNames.size(), 2u);
  auto addressed = config();
  addressed.addresses.add(kj::str("10.9.9.9"));
  EXPECT_EQ(next(kj::mv(addressed)), 1u);
  EXPECT_EQ(kj::strArray(held().addresses, " "), "10.5.0.5 10.9.9.9");
  EXPECT_EQ(next(config()), 1u) << "it is not wanted any more";
  auto token = config();
  token.token = pki::Pem(kj::str("zzzzzz.0123456789abcdef"));
  EXPECT_EQ(next(kj::mv(token)), 1u);
  auto hash = config();
  hash.token = pki::Pem(kj::str("zzzzzz.0123456789abcdef"));
  hash.authority = kj::str();
  hash.authorityHash = pki::authorityHash(authority.certificate);
  EXPECT_EQ(next(kj::mv(hash)), 0u) << "the same authority by its hash";
  EXPECT_EQ(now().verified, "hash");
  auto before = storedCount;
  own = Ip::require("10.5.0.9");
  j.setAddresses(kj::arr(own));
  scope.poll();
  EXPECT_EQ(storedCount, before + 1);
  EXPECT_EQ(held().addresses[0], "10.5.0.9");
  auto questions = asked.size();
  auto otherCa = config();
  otherCa.token = pki::Pem(kj::str("zzzzzz.0123456789abcdef"));
  otherCa.authority = kj::str();
  otherCa.authorityHash = pki::authorityHash(other.certificate);
  EXPECT_EQ(next(kj::mv(otherCa)), 0u);
  EXPECT_GT(asked.size(), questions) << "what there is is another authority's";
  questions = asked.size();
  auto replaced = config();
  replaced.token = pki::Pem(kj::str("zzzzzz.0123456789abcdef"));
  replaced.authority = kj::str(other.certificate);
  EXPECT_EQ(next(kj::mv(replaced)), 0u);
  EXPECT_GT(asked.size(), questions);
  for (int twice = 0; twice < 2; ++twice) {
    j.setConfig(nullptr);
    scope.poll();
    EXPECT_EQ(cleared, 1u);
  }
}

// Catches: a machine ten years off that never gets its API; a machine that trusts old times for
// ever.
TEST_F(JoinerTest, AWrongClockIsNotAskedUntilItIsSet) {
  for (auto years : {-10, 10}) {
    clock.off = years * 365 * kj::DAYS;
    storedCount = 0;
    times.clear();
    auto& j = start();
    j.setIdentity(nullptr);
    j.setConfig(config());
    scope.poll();
    EXPECT_EQ(storedCount, 1u);
    ASSERT_EQ(times.size(), 1u);
    EXPECT_TRUE(times[0] == nullptr) << "trustd's own certificate is not measured by it either";
    EXPECT_TRUE(now().ready);
    EXPECT_THAT(text(now().message), HasSubstr("when the clock is set"));
    // A lifetime is counted from the arrival of the certificate.
    pass(12 * kj::HOURS - 1 * kj::SECONDS);
    EXPECT_EQ(storedCount, 1u);
    pass(2 * kj::SECONDS);
    EXPECT_EQ(storedCount, 2u);
    clock.off = 0 * kj::SECONDS;
    j.setClock(true, 1);
    scope.poll();
    EXPECT_EQ(storedCount, 2u);
    EXPECT_THAT(text(now().message), HasSubstr("certificate will be renewed at 2024-10-0"));
    running = nullptr;
    joiner = nullptr;
    stored = nullptr;
  }
}

TEST_F(JoinerTest, WhenTheClockIsSetEverythingIsLookedAtAgain) {
  bend = [](pki::LeafOptions& options) { options.notBefore = kStart - 300 * kj::DAYS; };
  auto& j = start();
  j.setIdentity(nullptr);
  j.setConfig(config());
  scope.poll();
  EXPECT_EQ(storedCount, 1u);
  EXPECT_TRUE(now().ready);
  bend = [](pki::LeafOptions&) {};
  j.setClock(true, 1);
  scope.poll();
  EXPECT_EQ(storedCount, 2u);
  // A step back: the certificate starts in the future.
  clock.off = -20 * kj::DAYS;
  j.setClock(true, 2);
  scope.poll();
  EXPECT_FALSE(now().ready);
}

// Catches: a stored certificate that its machine does not use, because the answer to the write was
// lost.
TEST_F(JoinerTest, WhatTheStoreHasAfterAllIsServed) {
  storeSilent = true;
  auto& j = join();
  ASSERT_EQ(asked.size(), 1u);
  for (auto& endpoint : {"10.5.0.2"_kj, "10.5.0.3"_kj}) down.insert(kj::str(endpoint));
  pass(10 * kj::SECONDS + 1 * kj::MILLISECONDS);
  EXPECT_FALSE(now().ready);
  j.setIdentity(KJ_ASSERT_NONNULL(stored).clone());
  scope.poll();
  EXPECT_TRUE(now().ready);
}

// Catches: a name that is never requested again, although it has been free for long.
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

// Catches: a machine that repeats a request without a pause although it does not get the requested
// names.
TEST_F(JoinerTest, AnAnswerThatIsNotWhatWasAskedForIsAskedAgainWithPauses) {
  struct Row {
    const char* what;
    kj::Function<void(pki::LeafOptions&)> bend;
  } rows[] = {
      {"no names", [](pki::LeafOptions& options) { options.dnsNames = nullptr; }},
      {"half of its lifetime has passed",
       [](pki::LeafOptions& options) {
         options.notBefore = KJ_ASSERT_NONNULL(options.notBefore) - 13 * kj::HOURS;
       }},
  };
  for (auto& row : rows) {
    bend = kj::mv(row.bend);
    storedCount = 0;
    auto begin = timer.now();
    auto& j = start();
    j.setClock(true, 1);
    j.setIdentity(nullptr);
    j.setConfig(config());
    // In steps: without a pause the requests would never end.
    for (int turns = 0; turns < 100 && storedCount < 3; ++turns) {
      pass(1 * kj::SECONDS);
    }
    EXPECT_GE((timer.now() - begin) / kj::SECONDS, 3) << row.what;
    EXPECT_TRUE(now().ready) << "it is served all the same";
    EXPECT_THAT(text(now().message), HasSubstr("retry in"));
    bend = [](pki::LeafOptions&) {};
    pass(10 * kj::SECONDS);
    EXPECT_THAT(text(now().message), HasSubstr("will be renewed at"));
    EXPECT_EQ(now().failures, 0u);
    running = nullptr;
    joiner = nullptr;
  }
}

TEST_F(JoinerTest, ASilentStoreIsReported) {
  storeSilent = true;
  join();
  pass(20 * kj::SECONDS + 1 * kj::MILLISECONDS);
  EXPECT_THAT(text(reports.back().message), HasSubstr("within 10s"));
  storeSilent = false;
  pass(5 * kj::SECONDS);
  EXPECT_TRUE(now().ready);
}

TEST_F(JoinerTest, AnUnavailableStoreIsReported) {
  storeFails = true;
  join();
  EXPECT_THAT(text(now().message), HasSubstr("machined is away"));
  storeFails = false;
  pass(5 * kj::SECONDS);
  EXPECT_TRUE(now().ready);
}

TEST_F(JoinerTest, ReportsWhatTheConfigLacks) {
  auto w = config();
  w.token = pki::Pem();
  auto& j = join(kj::mv(w));
  EXPECT_THAT(text(now().message), HasSubstr("no machine.token"));
  auto v = config();
  v.endpoints.clear();
  j.setConfig(kj::mv(v));
  scope.poll();
  EXPECT_THAT(text(now().message), HasSubstr("names no control plane"));
  EXPECT_EQ(asked.size(), 0u);
}

}  // namespace
}  // namespace talos::apid
