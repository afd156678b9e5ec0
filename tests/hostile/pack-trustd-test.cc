// trustd under attack by a machine that has the token, and by a machine that has only addresses.
#include "tests/bench/trustd-process.h"
#include "tests/hostile/pack.h"

namespace talos::hostile {
namespace {

using trustd::TrustdProcess;
using trustd::testing::ask;
using trustd::testing::Caller;
using trustd::testing::kToken;

// Records and names have quotas of 6 and some 5 MiB; the allocator keeps the rest.
constexpr size_t kMostGrowthKiB = 48u << 10;
constexpr unsigned kSilent = 200;  // connections that are tried at once, four times the places

struct Joining {
  kj::AsyncIoContext& io;
  TrustdProcess& node;
  TlsVerifier verifier{node.authority.certificate};

  // Retries, as a node does, when the connection is closed before it is established.
  kj::Promise<Caller> connect(kj::StringPtr address) {
    constexpr unsigned kTries = 3;
    for (unsigned tries = 1;; ++tries) {
      try {
        co_return co_await Caller::connect(*io.lowLevelProvider, verifier, address, node.port);
      } catch (...) {
        if (tries == kTries) throw;
      }
      co_await io.provider->getTimer().afterDelay(100 * kj::MILLISECONDS);
    }
  }
  kj::Promise<void> once(kj::String address, kj::String name) {
    auto caller = co_await connect(address);
    auto asked = ask({address}, {name});
    auto answer = co_await caller.certificate(asked.request);
    pki::checkPair(answer.certificate, asked.key);
  }
};

// Makes permitted and forbidden requests as fast as they are answered.
kj::Promise<void> floodFrom(kj::AsyncIoContext& io, TrustdProcess& node, TlsVerifier& verifier,
                            Tally& tally, unsigned number) {
  // Some are in one subnet.
  auto address = number % 2 == 0 ? kj::str("10.66.0.", 1 + number) : kj::str("fd00::", 1 + number);
  for (unsigned i = 0;; ++i) {
    kj::Maybe<kj::Exception> failure;
    try {
      auto caller = co_await Caller::connect(*io.lowLevelProvider, verifier, address, node.port);
      for (unsigned asked = 0; asked < 100; ++asked, ++i) {
        ++tally.attacks;
        auto first = kj::str("flood-", number, "-", i), second = kj::str(first, "-b");
        // Now and then, requests a forbidden address.
        auto mine = i % 16 == 3 ? "127.0.0.1"_kj : kj::StringPtr(address);
        auto request = ask({mine}, {first, second});
        bool lost = false;
        co_await caller.certificate(request.request, i % 16 == 7 ? "wrong"_kj : kToken)
            .ignoreResult()
            .catch_([&](kj::Exception&& e) {
              ++tally.refused;
              lost = kindOf(e) == ErrorKind::kUnavailable;
            });
        if (lost) break;
      }
    } catch (...) {
      failure = kj::getCaughtExceptionAsKj();
    }
    if (failure != nullptr) {
      ++tally.refused;
      co_await io.provider->getTimer().afterDelay(5 * kj::MILLISECONDS);
    }
  }
}

// Catches: a machine with the token that keeps other machines from joining or renewing, makes
// trustd or machined's store grow, or locks out its neighbours.
TEST_F(Pack, TokenHolder) {
  TrustdProcess node(pki::KeyType::kEd25519);
  Attacker attacker(*tally, [&](kj::AsyncIoContext& io) -> kj::Promise<void> {
    TlsVerifier verifier(node.authority.certificate);
    kj::Vector<kj::Promise<void>> all;
    for (unsigned i = 0; i < 24; ++i) all.add(floodFrom(io, node, verifier, *tally, i));
    co_await kj::joinPromises(all.releaseAsArray());
  });
  Honest honest(*tally);
  Joining joining{honest.io, node};
  honest.wait(joining.once(kj::str("10.1.0.1"), kj::str("known")));
  honest.wait(joining.once(kj::str("fd00::ffff"), kj::str("neighbour")));
  auto store = residentKiB(node.store);
  honest.add("a new machine", 200 * kj::MILLISECONDS, [&](unsigned i) {
    return joining.once(kj::str("10.2.", i / 200, ".", 1 + i % 200), kj::str("new-", i));
  });
  honest.add("renewal", 200 * kj::MILLISECONDS,
             [&](unsigned) { return joining.once(kj::str("10.1.0.1"), kj::str("known")); });
  honest.add("renewal in the attacker's subnet", 500 * kj::MILLISECONDS,
             [&](unsigned) { return joining.once(kj::str("fd00::ffff"), kj::str("neighbour")); });
  honest.run("token holder", node.trustd, kMostGrowthKiB);
  EXPECT_TRUE(attacker.alive()) << "it did not attack to the end";
  auto grew = residentKiB(node.store) - store;
  printf("{\"storeGrewKiB\":%zu}\n", grew);
  EXPECT_LT(grew, 96u << 10) << "machined's store";
}

kj::Promise<void> silent(kj::AsyncIoContext& io, TrustdProcess& node, TlsVerifier& verifier,
                         kj::StringPtr address) {
  auto raw = co_await trustd::testing::dialFrom(*io.lowLevelProvider, address, node.port);
  auto stream = co_await verifier.connect(kj::mv(raw), "127.0.0.1");
  kj::byte nothing;
  co_await stream->tryRead(&nothing, 1, 1);
}

// Finishes the handshake, stays silent, and connects again when the connection is closed.
kj::Promise<void> silentFrom(kj::AsyncIoContext& io, TrustdProcess& node, TlsVerifier& verifier,
                             Tally& tally, unsigned number) {
  for (unsigned i = number;; i += kSilent) {
    auto address =
        number % 2 == 0
            ? kj::str("10.", 100 + i / 60'000 % 100, ".", i / 250 % 240, ".", 1 + i % 250)
            : kj::str("fd00:", kj::hex(i >> 16 & 0xffff), ":", kj::hex(i & 0xffff), "::1");
    ++tally.attacks;
    co_await silent(io, node, verifier, address).catch_([](kj::Exception&&) {});
    ++tally.refused;
    co_await io.provider->getTimer().afterDelay(1 * kj::MILLISECONDS);
  }
}

// Catches: a machine without a token, but with as many addresses as it likes, that holds every
// place.
TEST_F(Pack, SilentHandshakes) {
  TrustdProcess node(pki::KeyType::kEd25519);
  Attacker attacker(*tally, [&](kj::AsyncIoContext& io) -> kj::Promise<void> {
    TlsVerifier verifier(node.authority.certificate);
    kj::Vector<kj::Promise<void>> all;
    for (unsigned i = 0; i < kSilent; ++i) all.add(silentFrom(io, node, verifier, *tally, i));
    co_await kj::joinPromises(all.releaseAsArray());
  });
  Honest honest(*tally);
  Joining joining{honest.io, node};
  honest.wait(joining.once(kj::str("10.1.0.1"), kj::str("known")));
  honest.add("a new machine", 200 * kj::MILLISECONDS, [&](unsigned i) {
    return joining.once(kj::str("10.2.", i / 200, ".", 1 + i % 200), kj::str("new-", i));
  });
  honest.add("renewal", 200 * kj::MILLISECONDS,
             [&](unsigned) { return joining.once(kj::str("10.1.0.1"), kj::str("known")); });
  honest.run("silent handshakes", node.trustd, 16u << 10);
  EXPECT_TRUE(attacker.alive()) << "it did not attack to the end";
}

}  // namespace
}  // namespace talos::hostile
