// Attacks on trustd's port, each refused, told in its log, and followed by an honest machine that
// gets its certificate. Real sockets and TLS; the attackers have many addresses.
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "common/tls/openssl.h"
#include "tests/hostile/hostile.h"
#include "tests/testbeds/trust-testbed.h"
#include "trustd/test-trustd-node.h"

namespace talos {
namespace {

using trustd::kLimits;
using trustd::testing::ask;
using trustd::testing::Asked;
using trustd::testing::Caller;
using trustd::testing::kToken;
using trustd::testing::TestTrustd;

struct HostileTrustd : Hostile {
  ~HostileTrustd() noexcept override {}
  TestTrustd node{io};
  unsigned honestOnes = 0;

  void SetUp() override { wait(node.start()); }

  // Requests a certificate for a machine at an address that was not used before.
  void honest() {
    auto number = ++honestOnes;
    auto address = kj::str("10.77.", number / 200, ".", 1 + number % 200);
    auto caller = wait(node.call(address));
    auto asked = ask({address}, {kj::str("honest-", number)});
    pki::checkPair(wait(caller.certificate(asked.request)).certificate, asked.key);
  }
  // The end of the session, and trustd's log lines meanwhile.
  struct Refusal {
    kj::String kind, message;
    std::string log;
  };
  Refusal refusalOf(kj::StringPtr from, kj::StringPtr request, kj::StringPtr token = kToken) {
    auto caller = wait(node.call(from));
    ::testing::internal::CaptureStderr();
    auto failure = kj::runCatchingExceptions([&] { wait(caller.certificate(request, token)); });
    Refusal refusal{kj::str("none"), kj::str(), ::testing::internal::GetCapturedStderr()};
    KJ_IF_MAYBE (e, failure) {
      refusal.kind = kj::str(nameOf(kindOf(*e)));
      refusal.message = messageOf(*e);
    }
    return refusal;
  }
  kj::AutoCloseFd connecting(kj::StringPtr from) {
    trustd::testing::Dialling dialling(from, node.port);
    auto& to = dialling.to;
    if (connect(dialling.own, to.get(), to.size()) != 0 && errno != EINPROGRESS) {
      KJ_FAIL_SYSCALL("connect", errno);
    }
    return kj::mv(dialling.own);
  }
  // A deadline of a whole attack, longer than wait()'s.
  template <typename T>
  T patiently(kj::Promise<T> promise) {
    return timer.timeoutAfter(60 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
};

Asked forged(kj::StringPtr address) {
  auto asked = ask({address}, {"w1"});
  auto at = asked.request.size() / 2;
  asked.request[at] = asked.request[at] == 'A' ? 'B' : 'A';
  return asked;
}

// A request to be an authority: our own library makes none.
kj::String authorityRequest() {
  auto key = pki::readKey(pki::makeKey(pki::KeyType::kEd25519));
  pki::Request request(X509_REQ_new());
  X509_REQ_set_pubkey(request.get(), key.get());
  auto* extensions = sk_X509_EXTENSION_new_null();
  KJ_DEFER(sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free));
  sk_X509_EXTENSION_push(
      extensions, X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE"));
  X509_REQ_add_extensions(request.get(), extensions);
  KJ_ASSERT(X509_REQ_sign(request.get(), key.get(), nullptr) > 0);
  return pki::writeRequest(request.get());
}

// Catches: a certificate for a name or address that its caller has not shown to be its own, a
// refusal that cannot be traced, a secret in the log, and an attack after which other callers are
// not served.
TEST_F(HostileTrustd, WhatIsNotTheCallersOwnIsRefusedAndLogged) {
  {
    auto victim = wait(node.call("10.1.0.200"));
    wait(victim.certificate(ask({"10.1.0.200"}, {"theirs"}).request));
  }
  auto large = ask({"10.1.0.6"}).request;
  large = kj::str(large, kj::repeat('\n', 17u << 10));
  struct Row {
    const char* what;
    kj::String request;
    kj::StringPtr token, kind, logged;
  } rows[] = {
      {"a wrong token", ask({"10.1.0.1"}).request, "abcdef.0123456789abcdeg"_kj,
       "Unauthenticated"_kj, "token"_kj},
      {"no token", ask({"10.1.0.2"}).request, ""_kj, "Unauthenticated"_kj, "token"_kj},
      {"somebody else's request from another address", ask({"10.1.1.200"}, {"w200"}).request,
       kToken, "PermissionDenied"_kj, "10.1.1.200"_kj},
      {"a foreign address", ask({"10.1.0.4", "10.1.1.1"}).request, kToken, "PermissionDenied"_kj,
       "10.1.1.1"_kj},
      {"an address of the control plane", ask({"10.1.0.5", "10.9.9.1"}).request, kToken,
       "PermissionDenied"_kj, "control plane"_kj},
      {"a control-plane name", ask({"10.1.0.6"}, {"cp1"}).request, kToken, "PermissionDenied"_kj,
       "control plane"_kj},
      {"a name of the Kubernetes service", ask({"10.1.0.7"}, {"kubernetes.default.svc"}).request,
       kToken, "PermissionDenied"_kj, "control plane"_kj},
      {"a name that another machine has", ask({"10.1.0.8"}, {"theirs"}).request, kToken,
       "PermissionDenied"_kj, "theirs"_kj},
      {"a forged signature", forged("10.1.0.9").request, kToken, "InvalidArgument"_kj,
       "signature"_kj},
      {"an authority", authorityRequest(), kToken, "InvalidArgument"_kj, "CA"_kj},
      {"an RSA key", ask({"10.1.0.11"}, {}, pki::KeyType::kRsa4096).request, kToken,
       "InvalidArgument"_kj, "RSA"_kj},
      {"more than is read", kj::mv(large), kToken, "InvalidArgument"_kj, "bytes"_kj},
      {"no request", kj::str("hello"), kToken, "InvalidArgument"_kj, "no PEM block"_kj},
      {"a certificate in the place of a request", kj::str(node.model.authority.certificate), kToken,
       "InvalidArgument"_kj, "CERTIFICATE"_kj},
  };
  // Text from the middle of the key's only line.
  kj::StringPtr key = node.model.authority.key;
  auto secret = kj::heapString(key.slice(KJ_ASSERT_NONNULL(key.findFirst('\n')) + 20).slice(0, 20));
  unsigned number = 0;
  auto before = node.model.records.size();
  for (auto& row : rows) {
    auto from = kj::str("10.1.0.", ++number);
    auto refusal = refusalOf(from, row.request, row.token);
    EXPECT_EQ(kj::StringPtr(refusal.kind), row.kind) << row.what << ": " << refusal.message.cStr();
    EXPECT_NE(refusal.log.find("certificate request refused"), std::string::npos) << row.what;
    EXPECT_NE(refusal.log.find(from.cStr()), std::string::npos) << row.what;
    ASSERT_GT(row.logged.size(), 0u) << "every text has an empty one";
    EXPECT_NE(refusal.log.find(row.logged.cStr()), std::string::npos) << row.what << refusal.log;
    EXPECT_EQ(refusal.log.find("0123456789abcde"), std::string::npos) << "the token is in the log";
    EXPECT_EQ(refusal.log.find(secret.cStr()), std::string::npos) << "the key is in the log";
    honest();
  }
  EXPECT_EQ(node.model.records.size(), before + number) << "one for each honest machine";
}

// Catches: a caller that guesses tokens as fast as it can.
TEST_F(HostileTrustd, GuessingIsSlow) {
  EXPECT_EQ(refusalOf("10.2.0.1", ask({"10.2.0.1"}).request, "a").kind, "Unauthenticated");
  // One may come after the pause, when this process has to wait for others.
  unsigned tooFast = 0;
  for (auto guess : {"b", "c", "d", "e", "f"}) {
    tooFast += refusalOf("10.2.0.1", ask({"10.2.0.1"}).request, guess).kind == "Unavailable";
  }
  EXPECT_GT(tooFast, 0u);
  EXPECT_EQ(refusalOf("10.2.0.1", ask({"10.2.0.1"}).request).kind, "none"_kj) << "it has the token";
  honest();
}

// Catches: a megabyte of names that is read, parsed or kept.
TEST_F(HostileTrustd, AMegabyteOfNamesEndsItsConnection) {
  auto names = kj::str("-----BEGIN CERTIFICATE REQUEST-----\n", kj::repeat('A', 1u << 20));
  auto before = heapInUse();
  {
    auto caller = wait(node.call("10.3.0.1"));
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(kj::runCatchingExceptions([&] { wait(caller.certificate(names, kToken)); }) !=
                nullptr);
    // trustd reads on for a while, and logs the end of the connection then.
    std::string log;
    auto until = timer.now() + 10 * kj::SECONDS;
    while (log.find("10.3.0.1") == std::string::npos && timer.now() < until) {
      timer.afterDelay(10 * kj::MILLISECONDS).wait(io.waitScope);
      log += ::testing::internal::GetCapturedStderr();
      ::testing::internal::CaptureStderr();
    }
    ::testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find("10.3.0.1"), std::string::npos) << log;
  }
  names = nullptr;
  honest();
  EXPECT_LT(heapInUse(), before + kNoise);
}

// Catches: a clock years off that ends trustd, or that certificates of no use are left by.
TEST_F(HostileTrustd, AWrongClockEndsNothing) {
  struct Row {
    kj::Duration off;
    const char* said;
  };
  for (auto& row :
       {Row{87'600 * kj::HOURS, "not yet valid"}, Row{-87'600 * kj::HOURS, "expired"}}) {
    node.clock.ahead = row.off;
    wait(node.publish());
    // Its own certificate is of another time, so a machine that knows the authority refuses it.
    auto failure = kj::runCatchingExceptions([&] { wait(node.call("10.4.0.1")); });
    auto text = messageOf(KJ_REQUIRE_NONNULL(failure));
    EXPECT_NE(strstr(text.cStr(), row.said), nullptr) << text.cStr();
    node.clock.ahead = 0 * kj::SECONDS;
    wait(node.publish());
    honest();
  }
}

// Catches: handshakes that never end and hold every place.
TEST_F(HostileTrustd, SlowHandshakesMakeRoom) {
  constexpr unsigned kSlow = 300;
  constexpr kj::byte kBegin[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01};  // a ClientHello, cut
  kj::Vector<kj::AutoCloseFd> attackers;
  for (unsigned i = 0; i < kSlow; ++i) {
    auto fd = connecting(kj::str("10.5.", i / 40, ".1"));
    attackers.add(kj::mv(fd));
  }
  auto dribble = [&]() -> kj::Promise<void> {
    for (size_t at = 0;; ++at) {
      for (auto& fd : attackers) {
        auto byte = at < sizeof kBegin ? kBegin[at] : kj::byte{0};
        // A failed send means that trustd closed it.
        if (send(fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) continue;
      }
      co_await timer.afterDelay(20 * kj::MILLISECONDS);
    }
  };
  auto dribbling = dribble().eagerlyEvaluate(nullptr);
  for (unsigned i = 0; i < 3; ++i) honest();
}

// Catches: clients that finish the handshake, request nothing and keep their places for seconds:
// each of the attacker's connections is opened again as soon as it is closed.
TEST_F(HostileTrustd, SilentConnectionsMakeRoom) {
  constexpr unsigned kSilent = 100;
  node.idle = 10 * kj::MINUTES;  // so long that it frees no place
  TlsVerifier verifier(node.model.authority.certificate);
  unsigned held = 0;
  auto silent = [&](kj::String from) -> kj::Promise<void> {
    auto raw = co_await trustd::testing::dialFrom(*io.lowLevelProvider, from, node.port);
    auto stream = co_await verifier.connect(kj::mv(raw), "127.0.0.1");
    ++held;
    kj::byte nothing;
    co_await stream->tryRead(&nothing, 1, 1);
  };
  auto hold = [&](unsigned i) -> kj::Promise<void> {
    for (;;) {
      co_await silent(kj::str("10.7.", i, ".1")).catch_([](kj::Exception&&) {});
      co_await timer.afterDelay(1 * kj::MILLISECONDS);
    }
  };
  kj::Vector<kj::Promise<void>> attackers;
  for (unsigned i = 0; i < kSilent; ++i) attackers.add(hold(i).eagerlyEvaluate(nullptr));
  auto full = [&]() -> kj::Promise<void> {
    while (held < kLimits.connections) co_await timer.afterDelay(1 * kj::MILLISECONDS);
  };
  wait(full());
  for (unsigned i = 0; i < 5; ++i) honest();
}

// Catches: one subnet of IPv6, all of which one machine can use, that has a place for each address.
TEST_F(HostileTrustd, ASubnetOfIpv6IsOneCaller) {
  constexpr unsigned kMore = 4;
  node.idle = 10 * kj::MINUTES;  // only a newer connection takes a place
  kj::Vector<trustd::testing::Caller> callers;
  kj::Vector<kj::Promise<void>> ends;
  unsigned ended = 0;
  auto add = [&] {
    auto address = kj::str("fd00::", callers.size() + 1);
    auto caller = wait(node.call(address));
    wait(caller.certificate(ask({address}).request));
    ends.add(caller.onDisconnect().then([&] { ++ended; }).eagerlyEvaluate([&](kj::Exception&&) {
      ++ended;
    }));
    callers.add(kj::mv(caller));
  };
  while (callers.size() < kLimits.connectionsPerPeer) add();
  EXPECT_EQ(ended, 0u) << "a subnet has the places of one caller";
  // Each new connection takes the place of one or more connections of its own subnet that have been
  // idle for 0.1 s; their number depends on how long a handshake takes.
  for (unsigned i = 0; i < kMore; ++i) {
    add();
    EXPECT_LE(callers.size() - ended, kLimits.connectionsPerPeer);
  }
  auto before = ended;
  auto other = wait(node.call("fd00:0:0:1::1"));
  wait(other.certificate(ask({"fd00:0:0:1::1"}).request));
  EXPECT_EQ(ended, before) << "another subnet takes no place of this one";
}

// Catches: a rack of machines in one subnet that is refused because it comes at once.
TEST_F(HostileTrustd, ARackInOneSubnetJoins) {
  constexpr unsigned kRack = 120;
  auto join = [&](unsigned i) -> kj::Promise<void> {
    auto address = kj::str("fd00::7:", kj::hex(i + 1));
    auto caller = co_await node.call(address);
    auto asked = ask({address}, {kj::str("rack-", i)});
    co_await caller.certificate(asked.request);
  };
  kj::Vector<kj::Promise<void>> all;
  for (unsigned i = 0; i < kRack; ++i) all.add(join(i));
  wait(kj::joinPromises(all.releaseAsArray()));
}

// Catches: a queue of silent connections that holds up all later ones, or that costs memory.
TEST_F(HostileTrustd, TenThousandHalfOpenConnections) {
  constexpr unsigned kHalfOpen = 10'000;
  struct rlimit files;
  KJ_SYSCALL(getrlimit(RLIMIT_NOFILE, &files));
  if (files.rlim_max < kHalfOpen + 1000) {
    files.rlim_max = kHalfOpen + 1000;
  }
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0) << "this many descriptors cannot be had";
  auto before = heapInUse();
  {
    kj::Vector<kj::AutoCloseFd> attackers(kHalfOpen);
    for (unsigned i = 0; i < kHalfOpen; ++i) {
      attackers.add(connecting(kj::str("10.6.", i / 250, ".", 1 + i % 250)));
    }
    auto number = ++honestOnes;
    auto address = kj::str("10.77.0.", 1 + number);
    auto asked = ask({address});
    auto caller = patiently(node.call(address));
    patiently(caller.certificate(asked.request));
    EXPECT_LT(heapInUse(), before + (8u << 20)) << "what waits costs memory";
  }
  honest();
}

// Catches: damaged messages after a right handshake that end trustd or make it grow.
TEST_F(HostileTrustd, DamagedConversations) {
  testbeds::TrustTestbed trust(timer);
  char name[] = "/tmp/hostile-XXXXXX";
  KJ_ASSERT(mkdtemp(name) != nullptr);
  KJ_DEFER(removeTree(name));
  auto path = kj::str(name, "/trust.sock");
  auto serving =
      serveUnix(*io.lowLevelProvider, timer, listenUnix(path, 0600), [&](const UnixPeer&) {
        return trust.open();
      }).eagerlyEvaluate([](kj::Exception&& e) { ADD_FAILURE() << kj::str(e).cStr(); });
  Generator generator(4);
  auto right = trust.conversation();
  auto address = kj::str("unix:", path);
  ::testing::internal::CaptureStderr();  // refusals by the thousand
  attack(
      [&](unsigned) {
        auto bytes = testbeds::hostileBytes(right, generator.next());
        auto stream = dial(address);
        return testbeds::answersIn(wait(converse(*stream, bytes))).results;
      },
      [&](bool) {
        wait(trust.use(wait(connectUnix(*io.lowLevelProvider, timer, path))->bootstrap()));
      });
  auto log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(log.find(testbeds::TrustTestbed::kToken.cStr()), std::string::npos);
}

}  // namespace
}  // namespace talos
