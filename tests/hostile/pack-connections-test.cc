// apid under attack by one reader with as many connections as an address may have: small messages,
// by both protocols, and messages that start no call. Each connection keeps its own limits.
#include "common/grpc/test-h2.h"
#include "common/testing/own-network.h"
#include "tests/hostile/both-protocols.h"
#include "tests/hostile/by-hand.h"

namespace talos::hostile {
namespace {

using apid::testing::Authority;
using namespace grpc::testing;

// Limit of connections of an address (apid/main.cc).
constexpr unsigned kConnections = 320;
// The attacker has one account of 32 MiB; a connection costs some 100 KiB.
constexpr size_t kMostGrowthKiB = 128u << 10;

kj::Promise<void> listen(kj::AsyncIoStream& stream) {
  kj::byte buffer[16'384];
  while (co_await stream.tryRead(buffer, 1, sizeof buffer) > 0) {
  }
}

// Connects from an address that only the attacker uses: honest callers have another address.
kj::Promise<kj::Own<kj::AsyncIoStream>> dial(kj::AsyncIoContext& io) {
  auto from = Endpoint{Ip::require("10.66.0.1"), 0}.socketName();
  auto to = Endpoint{Ip::require("10.0.0.1"), kApidPort}.socketName();
  int fd;
  KJ_SYSCALL(fd = socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  kj::AutoCloseFd own(fd);
  KJ_SYSCALL(bind(own, from.get(), from.size()));
  return io.lowLevelProvider->wrapConnectingSocketFd(kj::mv(own), to.get(), to.size());
}

template <typename Fill>
void add(kj::Vector<kj::byte>& bytes, Fill&& fill) {
  capnp::MallocMessageBuilder message;
  fill(message.initRoot<capnp::rpc::Message>());
  bytes.addAll(capnp::messageToFlatArray(message).asBytes());
}
void addFinish(kj::Vector<kj::byte>& bytes, uint32_t question) {
  add(bytes, [&](auto message) {
    auto finish = message.initFinish();
    finish.setQuestionId(question);
    finish.setReleaseResultCaps(true);
  });
}

// Calls of the bootstrap, each of which is ended at once: hardly sixty bytes for both.
kj::Promise<void> callBriefly(kj::AsyncIoStream& stream) {
  kj::Vector<kj::byte> bytes;
  add(bytes, [](auto message) { message.initBootstrap().setQuestionId(0); });
  for (uint32_t question = 1;;) {
    for (unsigned i = 0; i < 500; ++i, ++question) {
      add(bytes, [&](auto message) {
        auto call = message.initCall();
        call.setQuestionId(question);
        call.initTarget().initPromisedAnswer().setQuestionId(0);
        call.setInterfaceId(capnp::typeId<rpc::Cluster>());
      });
      addFinish(bytes, question);
    }
    co_await stream.write(bytes.begin(), bytes.size());
    bytes.clear();
  }
}

// Sends messages that start no call, until the server refuses their number; then starts again.
kj::Promise<void> callNothing(kj::AsyncIoStream& stream) {
  for (uint32_t id = 0;;) {
    kj::Vector<kj::byte> bytes;
    for (unsigned i = 0; i < 500; ++i, ++id) {
      if (id % 2 == 0) {
        add(bytes, [&](auto message) { message.initResolve().setPromiseId(id); });
        continue;
      }
      add(bytes, [&](auto message) { message.initBootstrap().setQuestionId(id); });
      addFinish(bytes, id);
    }
    co_await stream.write(bytes.begin(), bytes.size());
  }
}

// Calls of gRPC as fast as they are answered, in batches.
kj::Promise<void> callByGrpc(kj::AsyncIoStream& stream) {
  auto bytes = hello();
  for (int32_t id = 1;;) {
    for (unsigned i = 0; i < 50; ++i, id += 2) {
      bytes += call(id, BothProtocols::kVersion.cStr());
    }
    co_await stream.write(bytes.data(), bytes.size());
    bytes = h2Frame(NGHTTP2_WINDOW_UPDATE, 0, 0, bigEndian(1 << 16, 4));
  }
}

kj::Promise<void> attackOnce(kj::AsyncIoContext& io, TlsEndpoint& tls, unsigned number) {
  auto raw = co_await dial(io);
  auto grpc = number % 4 == 3;
  auto stream = grpc ? co_await tls.connectWithAlpn("h2", kj::mv(raw), "10.0.0.1")
                     : co_await tls.connect(kj::mv(raw), "10.0.0.1");
  auto talking = grpc              ? callByGrpc(*stream)
                 : number % 4 == 2 ? callNothing(*stream)
                                   : callBriefly(*stream);
  co_await talking.exclusiveJoin(listen(*stream));
}

kj::Promise<void> attack(kj::AsyncIoContext& io, const Authority& authority, Tally& tally) {
  TlsEndpoint reader(authority.client("evil", kj::arr("os:reader"_kj)));
  auto& timer = io.provider->getTimer();
  auto again = [&](unsigned number) -> kj::Promise<void> {
    for (;;) {
      ++tally.attacks;
      co_await attackOnce(io, reader, number).catch_([](kj::Exception&&) {});
      ++tally.refused;
      co_await timer.afterDelay(1 * kj::SECONDS);  // handshakes are not the point
    }
  };
  kj::Vector<kj::Promise<void>> all;
  for (unsigned i = 0; i < kConnections; ++i) all.add(again(i));
  co_await kj::joinPromises(all.releaseAsArray());
}

// Catches: a client that gets a turn for each of its connections, so that others get only one of
// three hundred; messages that are limited only by their bytes.
TEST_F(Pack, ManyConnections) {
  OwnNetwork network;
  Authority authority;
  ApidProcess node(authority, "10.0.0.1"), other(authority, "10.0.0.2");
  Attacker attacker(*tally, [&](kj::AsyncIoContext& io) { return attack(io, authority, *tally); });
  Honest honest(*tally);
  BothProtocols callers(honest, authority);
  callers.add("10.0.0.1");
  callers.add("10.0.0.2");
  honest.run("many connections", node.apid, kMostGrowthKiB);
  EXPECT_TRUE(attacker.alive()) << "it did not attack to the end";
}

}  // namespace
}  // namespace talos::hostile
