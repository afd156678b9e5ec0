// trustd with real TLS over loopback and a model of machined's store.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/testing/printing.h"
#include "common/tls/tls-custom-verify.h"
#include "trustd/test-trustd-node.h"

namespace talos::trustd {
namespace {

using testing::ask;
using testing::Caller;
using testing::kToken;
using testing::TestTrustd;

struct Serving : ::testing::Test {
  explicit Serving(ServerLimits limits = kLimits) : trustd(io, limits) {}
  ~Serving() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  TestTrustd trustd;

  template <typename T>
  T wait(kj::Promise<T> promise) {
    return timer.timeoutAfter(20 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
  // Waits for an action of trustd, with the tests' common limit.
  template <typename F>
  void until(F&& happened) {
    auto polling = [&]() -> kj::Promise<void> {
      while (!happened()) co_await timer.afterDelay(2 * kj::MILLISECONDS);
    };
    wait(polling());
  }
  kj::Maybe<ErrorKind> refusal(kj::Promise<Caller::Answer> call) {
    return kj::runCatchingExceptions([&] { wait(kj::mv(call)); }).map([](const kj::Exception& e) {
      return kindOf(e);
    });
  }
};

TEST_F(Serving, AMachineGetsItsCertificateAndThereIsARecordOfIt) {
  wait(trustd.start());
  auto caller = wait(trustd.call("10.0.0.9"));
  auto asked = ask({"10.0.0.9"}, {"w1"});
  auto answer = wait(caller.certificate(asked.request));
  EXPECT_EQ(answer.authority, trustd.model.authority.certificate);
  pki::checkPair(answer.certificate, asked.key);
  auto info = pki::inspect(answer.certificate);
  ASSERT_EQ(trustd.model.records.size(), 1u);
  auto resource = trustd.model.records.all()[0];
  EXPECT_EQ(resource.getMetadata().getId(), info.serial);
  auto spec = resource.getSpec().getAs<rpc::IssuedCertificateSpec>();
  EXPECT_EQ(spec.getCaller(), "10.0.0.9");
  EXPECT_EQ(kj::strArray(spec.getDnsNames(), " "), "w1");
  EXPECT_EQ(kj::strArray(spec.getAddresses(), " "), "10.0.0.9");
  EXPECT_EQ(kj::str(spec.getFingerprint()), pki::fingerprint(answer.certificate));
  EXPECT_EQ(kj::str(spec.getIssued()).size(), "2026-11-20T12:00:00Z"_kj.size());
}

// Catches: a node whose certificate has only one of its addresses; an address that it has not
// called from, or from a caller without the token; a proof of another process, a changed proof, or
// a proof replayed for an address that it does not prove.
TEST_F(Serving, FurtherAddressesAreProvedByCallsFromThem) {
  wait(trustd.start());
  auto first = wait(trustd.call("10.0.0.9"));
  auto second = wait(trustd.call("fd00::9"));
  auto proof = wait(second.prove());
  EXPECT_EQ(proof.address, "fd00::9");
  EXPECT_EQ(proof.servers, "10.9.9.1 fd00::9:1");
  kj::ArrayPtr<const kj::byte> proofs[] = {proof.proof};
  auto asked = ask({"10.0.0.9", "fd00::9"}, {"w1"});
  auto answer = wait(first.certificate(asked.request, kToken, proofs));
  auto info = pki::inspect(answer.certificate);
  EXPECT_EQ(kj::strArray(info.addresses, " "), "10.0.0.9 fd00::9");

  auto denied = ErrorKind::kPermissionDenied;
  EXPECT_TRUE(refusal(first.certificate(asked.request)) == denied);
  auto other = ask({"10.0.0.9", "fd00::10"});
  EXPECT_TRUE(refusal(first.certificate(other.request, kToken, proofs)) == denied);
  for (auto i : kj::indices(proof.proof)) {
    proof.proof[i] ^= 1;
    EXPECT_TRUE(refusal(first.certificate(asked.request, kToken, proofs)) == denied) << i;
    proof.proof[i] ^= 1;
  }
  for (size_t size : {size_t(0), size_t(40), proof.proof.size() - 1}) {
    kj::ArrayPtr<const kj::byte> shorter[] = {proof.proof.slice(0, size)};
    EXPECT_TRUE(refusal(first.certificate(asked.request, kToken, shorter)) == denied) << size;
  }
  kj::Vector<kj::ArrayPtr<const kj::byte>> many;
  for (size_t i = 0; i <= Issuer::kMostProofs; ++i) many.add(proof.proof);
  EXPECT_TRUE(refusal(first.certificate(asked.request, kToken, many)) ==
              ErrorKind::kInvalidArgument);
  auto unauthorized =
      kj::runCatchingExceptions([&] { wait(second.prove("abcdef.0123456789abcdeg")); });
  EXPECT_TRUE(kindOf(KJ_ASSERT_NONNULL(unauthorized)) == ErrorKind::kUnauthenticated);
}

// Catches: a certificate without a record.
TEST_F(Serving, WithoutARecordNoCertificateIsIssued) {
  wait(trustd.start());
  auto caller = wait(trustd.call());
  auto asked = ask({"10.0.0.1"});
  trustd.model.refusesWrites = true;
  EXPECT_TRUE(refusal(caller.certificate(asked.request)) == ErrorKind::kUnavailable);
  trustd.model.refusesWrites = false;
  trustd.model.answersWrites = false;
  EXPECT_TRUE(refusal(caller.certificate(asked.request)) == ErrorKind::kUnavailable)
      << "it waits for the store without a deadline";
  trustd.model.answersWrites = true;
  EXPECT_EQ(trustd.model.records.size(), 0u);
  auto again = wait(trustd.call());
  wait(again.certificate(asked.request));
  EXPECT_EQ(trustd.model.records.size(), 1u);
}

// Catches: a name that is reserved for a day by a refused request, whose record was not stored.
TEST_F(Serving, ARefusedRequestTakesNoName) {
  wait(trustd.start());
  auto caller = wait(trustd.call("10.0.0.9"));
  trustd.model.refusesWrites = true;
  EXPECT_TRUE(refusal(caller.certificate(ask({"10.0.0.9"}, {"w1"}).request)) ==
              ErrorKind::kUnavailable);
  trustd.model.refusesWrites = false;
  auto other = wait(trustd.call("10.0.0.10"));
  wait(other.certificate(ask({"10.0.0.10"}, {"w1"}).request));
  EXPECT_TRUE(refusal(caller.certificate(ask({"10.0.0.9"}, {"w1"}).request)) ==
              ErrorKind::kPermissionDenied);
}

// Catches: a name that a restart frees for another node.
TEST_F(Serving, ARestartKnowsWhoseNamesAreTaken) {
  wait(trustd.start());
  {
    auto first = wait(trustd.call("10.0.0.9"));
    wait(first.certificate(ask({"10.0.0.9"}, {"w1"}).request));
  }
  trustd.stop();
  wait(trustd.start());
  auto other = wait(trustd.call("10.0.0.10"));
  EXPECT_TRUE(refusal(other.certificate(ask({"10.0.0.10"}, {"w1"}).request)) ==
              ErrorKind::kPermissionDenied);
  auto same = wait(trustd.call("10.0.0.9"));
  wait(same.certificate(ask({"10.0.0.9"}, {"w1"}).request));
}

// Catches: records that accumulate for ever, even over a restart.
TEST_F(Serving, RecordsGoADayAfterTheirEnd) {
  wait(trustd.start());
  {
    auto caller = wait(trustd.call());
    wait(caller.certificate(ask({"10.0.0.1"}).request));
  }
  trustd.stop();
  trustd.clock.ahead = 47 * kj::HOURS;
  wait(trustd.start());
  io.waitScope.poll();
  EXPECT_EQ(trustd.model.records.size(), 1u);
  trustd.stop();
  trustd.clock.ahead = 49 * kj::HOURS;
  wait(trustd.start());
  until([&] { return trustd.model.records.size() == 0; });
  EXPECT_EQ(trustd.model.records.destroys, 1u);
}

// Catches: a caller with the token whose flood displaces earlier records, or keeps others from
// joining; records that a restart forgets to count.
TEST_F(Serving, AFloodWashesNoRecordOut) {
  trustd.keeps = {.bytes = 64u << 10, .perHolder = 16u << 10, .fair = 4u << 10};
  wait(trustd.start());
  auto issue = [&](kj::StringPtr from, kj::StringPtr name) {
    auto caller = wait(trustd.call(from));
    return refusal(caller.certificate(ask({from}, {name}).request));
  };
  EXPECT_TRUE(issue("10.0.0.9", "w1") == nullptr);
  auto evidence = kj::str(trustd.model.records.all()[0].getMetadata().getId());
  auto flood = [&] {
    kj::Maybe<ErrorKind> last;
    for (unsigned i = 0; i < 40; ++i) last = issue("10.0.0.66", kj::str("flood-", i));
    return last;
  };
  EXPECT_TRUE(flood() == ErrorKind::kResourceExhausted);
  trustd.stop();
  wait(trustd.start());
  EXPECT_TRUE(flood() == ErrorKind::kResourceExhausted);
  EXPECT_TRUE(trustd.model.records.find(evidence) != nullptr);
  EXPECT_TRUE(issue("10.0.0.66", "flood-0") == nullptr) << "renewal is refused";
  EXPECT_TRUE(issue("10.0.0.9", "w1") == nullptr) << "renewal is refused";
  EXPECT_TRUE(issue("10.0.0.10", "w2") == nullptr) << "nobody else can join";
  EXPECT_LT(trustd.model.records.size(), 40u);
}

// Catches: a full store that stops all certificates, because a caller with the token adds records
// faster than older ones are removed, or hangs up so that the displaced ones are never removed.
TEST_F(Serving, AFloodWaitsUntilWhatItDisplacesIsRemoved) {
  constexpr size_t kKept = 16u << 10, kInProgress = 8u << 10;
  trustd.keeps = {.bytes = kKept,
                  .perHolder = kKept,
                  .fair = 1u << 10,
                  .inProgress = kInProgress,
                  .inProgressOfHolder = 3u << 10};
  wait(trustd.start());
  auto stored = [&] {
    size_t bytes = 0;
    for (auto record : trustd.model.records.all()) bytes += record.totalSize().wordCount * 8;
    return bytes;
  };
  auto honest = wait(trustd.call("10.0.0.9"));
  auto known = ask({"10.0.0.9"}, {"w1"}).request;
  wait(honest.certificate(known));
  auto gate = kj::newPromiseAndFulfiller<void>();
  auto open = gate.promise.fork();
  trustd.model.beforeRemoval = [&] { return open.addBranch(); };
  constexpr unsigned kLanes = 4, kCalls = 20;  // together five times the store's limit
  unsigned ended = 0;
  auto flood = [&](kj::StringPtr from) -> kj::Promise<void> {
    auto flooder = co_await trustd.call(from);
    auto request = ask({from}).request;
    for (unsigned i = 0; i < kCalls; ++i) {
      co_await flooder.certificate(request).ignoreResult().catch_([](kj::Exception&& e) {
        EXPECT_TRUE(kindOf(e) == ErrorKind::kUnavailable) << messageOf(e).cStr();
      });
    }
    ++ended;
  };
  for (auto round : {1, 2}) {  // the callers of the first round have hung up
    auto before = ended + trustd.model.records.destroys;
    kj::Vector<kj::Promise<void>> lanes;
    for (unsigned i = 0; i < kLanes; ++i) {
      for (auto from : {"10.0.0.66"_kj, "10.0.0.67"_kj}) {
        lanes.add(flood(from).eagerlyEvaluate(nullptr));
      }
    }
    // Each caller has made all its calls, or waits for a removal.
    until([&] { return ended + trustd.model.records.destroys >= before + lanes.size(); });
    EXPECT_LE(stored(), kKept + kInProgress) << "in round " << round;
  }
  gate.fulfiller->fulfill();
  wait(honest.certificate(known));
  until([&] { return stored() <= kKept; });
  wait(honest.certificate(known));
}

// Catches: a log that is flooded by a caller that renews without end.
TEST_F(Serving, RenewalWithoutEndIsABoundedNumberOfLines) {
  wait(trustd.start());
  auto caller = wait(trustd.call());
  auto asked = ask({"10.0.0.1"}, {"w1"});
  ::testing::internal::CaptureStderr();
  for (unsigned i = 0; i < 200; ++i) wait(caller.certificate(asked.request));
  std::string log = ::testing::internal::GetCapturedStderr();
  auto lines = std::count(log.begin(), log.end(), '\n');
  EXPECT_GE(lines, 3);
  EXPECT_LE(lines, 20) << log;
  EXPECT_EQ(trustd.model.records.size(), 200u);
}

// Catches: a missing record that blocks the removal of all others; a record that could not be
// removed once and stays for ever.
TEST_F(Serving, RemovingRecordsGoesOnAfterAFailure) {
  wait(trustd.start());
  // Two days pass while a record is written, so that older records are due for removal after it.
  trustd.model.beforeWrite = [this] {
    trustd.clock.ahead = 49 * kj::HOURS;
    return kj::READY_NOW;
  };
  auto issue = [&](kj::Duration ahead = 0 * kj::SECONDS) {
    trustd.clock.ahead = ahead;
    wait(trustd.publish());
    auto caller = wait(trustd.call());
    wait(caller.certificate(ask({"10.0.0.1"}).request));
  };
  trustd.model.refusesRemoval = true;
  issue();
  until([&] { return trustd.model.records.destroys == 1; });
  trustd.model.refusesRemoval = false;
  issue();
  until([&] { return trustd.model.records.size() == 0; });

  trustd.model.refusesRemoval = true;
  issue(-1 * kj::MINUTES);  // so that it expires, and is removed, before the next one
  until([&] { return trustd.model.records.destroys == 4; });
  trustd.model.refusesRemoval = false;
  for (auto record : trustd.model.records.all()) {
    trustd.model.records.destroy(kj::str(record.getMetadata().getId()));
  }
  issue();
  until([&] { return trustd.model.records.size() == 0; });
}

// Catches: a record that is never removed, because its caller hung up before the answer.
TEST_F(Serving, ARecordWhoseCallerLeftGoesToo) {
  wait(trustd.start());
  trustd.model.losesAnswers = true;
  {
    auto caller = wait(trustd.call());
    auto asking = caller.certificate(ask({"10.0.0.1"}).request).eagerlyEvaluate(nullptr);
    until([&] { return trustd.model.records.size() == 1; });
    trustd.clock.ahead = 49 * kj::HOURS;
  }
  until([&] { return trustd.model.records.size() == 0; });
}

// Catches: trustd's server certificate that expires, or keeps an old name or CA; connections that a
// renewal breaks.
TEST_F(Serving, ItsOwnCertificateFollowsAuthorityNamesAndTime) {
  wait(trustd.start());
  auto kept = wait(trustd.call());
  auto works = [&] {
    auto caller = wait(trustd.call());
    wait(caller.certificate(ask({"10.0.0.1"}).request));
  };
  works();
  wait(kept.certificate(ask({"10.0.0.1"}).request));
  trustd.model.authority = pki::makeAuthority({.organization = "talos"});
  wait(trustd.publish());
  works();  // verified by the new CA
  wait(kept.certificate(ask({"10.0.0.1"}).request));

  // The verifier uses the real clock, so it refuses a certificate of another time.
  trustd.clock.ahead = 87'600 * kj::HOURS;
  wait(trustd.publish());
  EXPECT_TRUE(kj::runCatchingExceptions([&] { works(); }) != nullptr);
  trustd.clock.ahead = 0 * kj::SECONDS;
  wait(trustd.publish());
  works();
}

// Catches: a machine that knows only the hash of the CA and cannot verify trustd.
TEST_F(Serving, ItShowsItsAuthorityToo) {
  wait(trustd.start());
  kj::Vector<kj::String> shown;
  auto raw = wait(testing::dialFrom(*io.lowLevelProvider, "127.0.0.1", trustd.port));
  auto stream = wait(connectWithVerifier(
      kj::mv(raw), [&](kj::ArrayPtr<const kj::String> chain) -> kj::Maybe<kj::String> {
        for (auto& certificate : chain) shown.add(kj::str(certificate));
        return nullptr;
      }));
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_TRUE(isOfControlPlane(pki::inspect(shown[0]))) << "workers would send it no token";
  EXPECT_TRUE(pki::sameCertificate(shown[1], trustd.model.authority.certificate));
}

// Catches: unusable secrets that replace usable ones.
TEST_F(Serving, SecretsThatCannotBeUsedChangeNothing) {
  wait(trustd.start());
  auto right = kj::mv(trustd.model.authority.certificate);
  trustd.model.authority.certificate = pki::makeAuthority({.organization = "talos"}).certificate;
  ::testing::internal::CaptureStderr();
  wait(trustd.publish());
  trustd.model.authority.certificate = kj::mv(right);
  auto caller = wait(trustd.call());
  wait(caller.certificate(ask({"10.0.0.1"}).request));
  auto log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("cannot use the CA; the previous one stays"), std::string::npos);
  EXPECT_EQ(log.find("cannot make a certificate for port 50001"), std::string::npos)
      << "it is tried with them";
}

TEST_F(Serving, WithoutSecretsItRefusesAndWithThemItServesAgain) {
  wait(trustd.start());
  auto caller = wait(trustd.call());
  trustd.model.withSecrets = false;
  wait(trustd.publish());
  EXPECT_TRUE(refusal(caller.certificate(ask({"10.0.0.1"}).request)) == ErrorKind::kUnavailable);
  trustd.model.withSecrets = true;
  wait(trustd.publish());
  wait(caller.certificate(ask({"10.0.0.1"}).request));
}

// Catches: a caller that holds connections and makes no request.
TEST_F(Serving, AnIdleConnectionEnds) {
  wait(trustd.start());
  auto caller = wait(trustd.call());
  wait(caller.certificate(ask({"10.0.0.1"}).request));
  wait(caller.onDisconnect());
}

// Catches: a connection that is closed while its caller's record is being written, or between two
// certificates.
TEST_F(Serving, AConnectionThatIsUsedStays) {
  wait(trustd.start());
  auto caller = wait(trustd.call());
  auto asked = ask({"10.0.0.1"});
  trustd.model.beforeWrite = [this] { return timer.afterDelay(kIdle + 500 * kj::MILLISECONDS); };
  wait(caller.certificate(asked.request));
  trustd.model.beforeWrite = [] { return kj::READY_NOW; };
  auto end = timer.now() + kIdle + 500 * kj::MILLISECONDS;
  while (timer.now() < end) {
    wait(timer.afterDelay(300 * kj::MILLISECONDS));
    wait(caller.certificate(asked.request));
  }
}

// Catches: a caller without a token that keeps its place by being refused for ever; two addresses
// would hold all places.
TEST_F(Serving, ARefusedCallerKeepsNoConnection) {
  wait(trustd.start());
  auto caller = wait(trustd.call());
  auto nag = [&]() -> kj::Promise<void> {
    for (;;) {
      co_await caller.certificate("no request", "no token").ignoreResult().catch_([](auto&&) {});
      co_await timer.afterDelay(100 * kj::MILLISECONDS);
    }
  };
  auto nagging = nag().eagerlyEvaluate(nullptr);
  wait(caller.onDisconnect());
}

struct NoTokens final : JoinTokens {
  explicit NoTokens(kj::Timer& timer) : timer(timer) {}
  kj::Timer& timer;
  kj::Promise<ShownToken> find(kj::StringPtr) override {
    co_await timer.afterDelay(200 * kj::MILLISECONDS);
    co_return ShownToken();
  }
  kj::Promise<ShownToken> spend(kj::StringPtr token, kj::StringPtr, kj::StringPtr) override {
    return find(token);
  }
};

// A join token that another node always spends first.
struct LostTokens final : JoinTokens {
  kj::Promise<ShownToken> find(kj::StringPtr) override {
    return ShownToken{.state = ShownToken::State::kUnused, .id = kj::str("abcdef")};
  }
  kj::Promise<ShownToken> spend(kj::StringPtr, kj::StringPtr, kj::StringPtr) override {
    return ShownToken{.state = ShownToken::State::kUsed,
                      .id = kj::str("abcdef"),
                      .fingerprint = kj::str("of another key")};
  }
};

// Catches: one unused token that reserves any number of names for a day: each request is refused
// when the token is spent, and its names stay reserved.
TEST_F(Serving, ATokenThatIsLostReservesNoNames) {
  LostTokens lost;
  trustd.tokens = lost;
  wait(trustd.start());
  auto greedy = wait(trustd.call("10.0.0.66"));
  auto token = "join-abcdef.0123456789abcdef"_kj;
  EXPECT_TRUE(refusal(greedy.certificate(ask({"10.0.0.66"}, {"w1", "w2"}).request, token)) ==
              ErrorKind::kUnauthenticated);
  auto caller = wait(trustd.call("10.0.0.9"));
  wait(caller.certificate(ask({"10.0.0.9"}, {"w1", "w2"}).request));
}

struct OnePlace : Serving {
  OnePlace() : Serving(limits()) {}
  static ServerLimits limits() {
    auto one = kLimits;
    one.connections = one.connectionsPerPeer = 1;
    return one;
  }
};

// Catches: texts that look like join tokens with the same effect: while one is looked up, the other
// is refused.
TEST_F(OnePlace, GoesFromWhoHasNoJoinTokenToWhoHasAToken) {
  NoTokens none(timer);
  trustd.tokens = none;
  wait(trustd.start());
  auto caller = wait(trustd.call());
  bool gone = false;
  auto end = caller.onDisconnect().then([&] { gone = true; }).eagerlyEvaluate(nullptr);
  auto nag = [&](kj::Duration first) -> kj::Promise<void> {
    co_await timer.afterDelay(first);
    while (!gone) {
      auto call = caller.certificate("no request", "join-abcdef.0123456789abcdef");
      co_await call.ignoreResult().catch_([](auto&&) {});
      co_await timer.afterDelay(1 * kj::MILLISECONDS);
    }
  };
  auto nagging = nag(0 * kj::MILLISECONDS).exclusiveJoin(nag(100 * kj::MILLISECONDS));
  auto running = nagging.eagerlyEvaluate(nullptr);
  auto other = wait(trustd.call("10.0.0.2"));
  wait(other.certificate(ask({"10.0.0.2"}).request));
}

}  // namespace
}  // namespace talos::trustd
