// apid under attack by hosts that it was made to connect to: workers in foreign hands, which have a
// certificate of the CA, and hosts that are no nodes at all; and by readers in league with them.
#include "common/testing/own-network.h"
#include "common/wire/test-connect.h"
#include "tests/hostile/apid-process.h"
#include "tests/hostile/by-hand.h"
#include "tests/hostile/pack.h"

namespace talos::hostile {
namespace {

using apid::testing::Authority;

constexpr unsigned kKinds = 8, kServers = 4 * kKinds;  // of each kind two workers and two strangers
// Number of readers that cooperate with these servers.
constexpr unsigned kAccomplices = 4;
constexpr unsigned kReadsNothing = 3, kTalksMuch = 7;  // kinds of servers
constexpr size_t kLong = 6u << 20;                     // what is just allowed in one message
// A worker may cost 8 MiB of a message that it does not finish, and a little; the rest is small.
constexpr size_t kMostGrowthKiB = 192u << 10;

kj::String hostile(unsigned i) {
  return kj::str("10.66.0.", 1 + i);
}

// --- hostile servers
// ------------------------------------------------------------------------------

template <typename Fill>
kj::Array<kj::byte> messages(unsigned first, unsigned count, Fill&& fill) {
  kj::Vector<kj::byte> bytes;
  for (unsigned i = first; i < first + count; ++i) {
    capnp::MallocMessageBuilder message;
    fill(message.initRoot<capnp::rpc::Message>(), i);
    bytes.addAll(capnp::messageToFlatArray(message).asBytes());
  }
  return bytes.releaseAsArray();
}

kj::Promise<void> sayAll(kj::AsyncIoStream& stream, kj::Array<kj::byte> bytes) {
  co_await stream.write(bytes.begin(), bytes.size());
}

// Misbehaviour of a server of this kind with a connection; it ends when the client hangs up.
kj::Promise<void> misbehave(kj::AsyncIoStream& stream, unsigned kind) {
  for (unsigned i = 0;; i += 1000) {
    switch (kind) {
      case 0:  // requests the bootstrap capability without end
        co_await sayAll(stream, messages(i, 1000, [](auto message, unsigned id) {
                          message.initBootstrap().setQuestionId(id);
                        }));
        break;
      case 1:  // calls what it got without end
        co_await sayAll(stream, messages(i, 1000, [](auto message, unsigned id) {
                          if (id == 0) return message.initBootstrap().setQuestionId(0);
                          auto call = message.initCall();
                          call.setQuestionId(id);
                          call.initTarget().initPromisedAnswer().setQuestionId(0);
                          call.initParams().getContent().initAsAnyStruct(64, 0);
                        }));
        break;
      case 2: {  // announces a gibibyte, or what is just allowed, and sends none of it
        uint32_t words = i == 0 ? (1u << 20) - 2 : 1u << 27, header[2] = {0, words};
        co_await stream.write(header, sizeof header);
        if (i == 0) co_await kj::Promise<void>(kj::NEVER_DONE);
        break;
      }
      case kReadsNothing:  // reads nothing and says nothing
        co_await kj::Promise<void>(kj::NEVER_DONE);
        break;
      case 4: {  // answers calls with as much as it likes, and answers calls that were not made
        co_await sayAll(stream, messages(i, 16, [](auto message, unsigned id) {
                          auto answer = message.initReturn();
                          answer.setAnswerId(id % 16);
                          auto results = answer.initResults();
                          results.getContent().initAsAnyStruct(8000, 0);
                          results.initCapTable(60)[0].setSenderHosted(id);
                        }));
        break;
      }
      case 5:  // offers more capabilities than anybody wants
        co_await sayAll(stream, messages(i, 2, [](auto message, unsigned id) {
                          auto table = message.initReturn().initResults().initCapTable(100'000);
                          for (auto n : kj::indices(table)) table[n].setSenderHosted(n);
                        }));
        break;
      default: {  // says what is no message
        auto noise = kj::heapArray<kj::byte>(65'536);
        for (auto n : kj::indices(noise)) noise[n] = (n * 2'654'435'761u + i) >> 13;
        co_await stream.write(noise.begin(), noise.size());
        break;
      }
    }
  }
}

// Answers every call, each with a message as large as it may be.
class TalksMuch final : public rpc::Machine::Server {
  kj::Promise<void> version(VersionContext context) override {
    context.getResults(capnp::MessageSize{kLong / 8 + 64, 0}).initTag(kLong);
    return kj::READY_NOW;
  }
};
class ItsNode final : public rpc::Node::Server {
  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(kj::heap<TalksMuch>());
    return kj::READY_NOW;
  }
};
class ItsCluster final : public rpc::Cluster::Server {
  kj::Promise<void> node(NodeContext context) override {
    context.getResults().setNode(kj::heap<ItsNode>());
    return kj::READY_NOW;
  }
  kj::Promise<void> withRoles(WithRolesContext context) override {
    context.getResults().setCluster(thisCap());
    return kj::READY_NOW;
  }
};

kj::Promise<void> until(kj::AsyncIoStream& stream) {
  kj::byte buffer[65'536];
  while (co_await stream.tryRead(buffer, 1, sizeof buffer) > 0) {
  }
}

kj::Promise<void> serveOne(kj::AsyncIoContext& io, kj::Own<kj::AsyncIoStream> raw, TlsEndpoint& tls,
                           unsigned kind, Tally& tally) {
  auto accepted = co_await tls.accept(kj::mv(raw), kj::str("apid"));
  auto& stream = *accepted.stream;
  ++tally.attacks;
  if (kind == kTalksMuch) {
    co_await serveConnection(io.provider->getTimer(), kj::mv(accepted.stream),
                             kj::heap<ItsCluster>())
        .ignoreResult();
    co_return;
  }
  auto doing = misbehave(stream, kind);
  if (kind != kReadsNothing) doing = doing.exclusiveJoin(until(stream));
  co_await doing.catch_([](kj::Exception&&) {});
  ++tally.refused;  // the other side hung up
}

struct Errors final : kj::TaskSet::ErrorHandler {
  void taskFailed(kj::Exception&&) override {}
};

kj::Promise<void> serveHostile(kj::AsyncIoContext& io, TlsEndpoint& tls, unsigned number,
                               Tally& tally) {
  Errors errors;
  kj::TaskSet tasks(errors);
  auto receiver = io.lowLevelProvider->wrapListenSocketFd(listenTcp(hostile(number), kApidPort));
  for (;;) {
    auto raw = co_await receiver->accept();
    tasks.add(serveOne(io, kj::mv(raw), tls, number / 2 % kKinds, tally));
  }
}

// A reader that names them all, again and again, and waits for none.
kj::Promise<void> makeItDial(kj::AsyncIoContext& io, TlsEndpoint& tls) {
  auto& timer = io.provider->getTimer();
  for (;;) {
    kj::Maybe<kj::Exception> failure;
    try {
      auto connection =
          co_await connectTls(*io.lowLevelProvider, timer, tls, "10.0.0.1", kApidPort, "10.0.0.1");
      auto cluster = connection->bootstrap().castAs<rpc::Cluster>();
      for (unsigned round = 0; round < 20; ++round) {
        kj::Vector<kj::Promise<void>> calls;
        for (unsigned i = 0; i < kServers; ++i) {
          auto request = cluster.nodeRequest();
          request.setAddress(hostile(i));
          auto call = request.send().getNode().machineRequest().send().getMachine();
          calls.add(
              timer
                  .timeoutAfter(500 * kj::MILLISECONDS, call.versionRequest().send().ignoreResult())
                  .catch_([](kj::Exception&&) {}));
        }
        co_await kj::joinPromises(calls.releaseAsArray());
      }
    } catch (...) {
      failure = kj::getCaughtExceptionAsKj();
    }
    if (failure != nullptr) co_await timer.afterDelay(50 * kj::MILLISECONDS);
  }
}

// Repeatedly sends calls of the largest permitted size to a server that reads nothing, or leaves
// another server's long answers unread.
kj::Promise<void> collude(kj::AsyncIoContext& io, TlsEndpoint& tls, unsigned number, Tally& tally) {
  auto& timer = io.provider->getTimer();
  bool sends = number % 2 == 0;
  auto server = hostile(2 * (sends ? kReadsNothing : kTalksMuch) + number / 2 % 2);
  ByHand calls;
  constexpr uint16_t kNode = 0, kMachine = 0, kVersion = 0, kTime = 8;  // ordinals
  auto node = calls.call<rpc::Cluster::NodeParams>(0, capnp::typeId<rpc::Cluster>(), kNode,
                                                   [&](auto params) { params.setAddress(server); });
  auto machine =
      calls.call<rpc::Node::MachineParams>(node, capnp::typeId<rpc::Node>(), kMachine, [](auto) {});
  auto interface = capnp::typeId<rpc::Machine>();
  for (unsigned i = 0; i < (sends ? 5 : 64); ++i) {  // the answers are what the server has to have
    if (sends) {
      calls.call<rpc::Machine::TimeParams>(machine, interface, kTime,
                                           [](auto params) { params.initServer(kLong); });
    } else {
      calls.call<rpc::Machine::VersionParams>(machine, interface, kVersion, [](auto) {});
    }
  }
  for (;;) {
    ++tally.attacks;
    co_await kj::evalNow([&]() -> kj::Promise<void> {
      auto stream = co_await rawStream(io, tls, "10.0.0.1", "10.0.0.1");
      co_await stream->write(calls.bytes().begin(), calls.bytes().size());
      co_await timer.afterDelay(5 * kj::SECONDS);
    }).catch_([&](kj::Exception&&) { ++tally.refused; });
    co_await timer.afterDelay(1 * kj::SECONDS);  // memory is the point, not the processor
  }
}

kj::Promise<void> attack(kj::AsyncIoContext& io, const Authority& authority, Tally& tally) {
  Authority foreign;
  TlsEndpoint reader(authority.client("evil", kj::arr("os:reader"_kj)));
  kj::Vector<kj::Own<TlsEndpoint>> ends;
  kj::Vector<kj::Promise<void>> all;
  for (unsigned i = 0; i < kServers; ++i) {
    auto address = hostile(i);
    auto& signer = i < 2 * kKinds ? authority : foreign;
    auto leaf = signer.issue("", nullptr, kj::arr(kj::StringPtr(address)));
    // It accepts the node's own certificate, like a real one.
    ends.add(kj::heap<TlsEndpoint>(Credentials{kj::str(authority.pair.certificate),
                                               kj::mv(leaf.certificate), kj::mv(leaf.key)}));
    all.add(serveHostile(io, *ends.back(), i, tally));
  }
  all.add(makeItDial(io, reader));
  for (unsigned i = 0; i < kAccomplices; ++i) all.add(collude(io, reader, i, tally));
  co_await kj::joinPromises(all.releaseAsArray());
}

// Catches: a host that apid was made to dial, and that ends it, makes it grow, or keeps it from
// answering others; calls to other nodes that fail meanwhile.
TEST_F(Pack, HostileServers) {
  OwnNetwork network;
  Authority authority;
  ApidProcess node(authority, "10.0.0.1"), other(authority, "10.0.0.2");
  Attacker attacker(*tally, [&](kj::AsyncIoContext& io) { return attack(io, authority, *tally); });
  Honest honest(*tally);
  TlsEndpoint reader(authority.client("honest", kj::arr("os:reader"_kj)));
  kj::Maybe<kj::Own<Connection>> connection;
  auto connect = [&]() -> kj::Promise<void> {
    connection = co_await connectTls(*honest.io.lowLevelProvider, honest.timer, reader, "10.0.0.1",
                                     kApidPort, "10.0.0.1");
  };
  auto version = [&](kj::StringPtr target) -> kj::Promise<void> {
    auto cluster = KJ_ASSERT_NONNULL(connection)->bootstrap().castAs<rpc::Cluster>();
    auto request = cluster.nodeRequest();
    request.setAddress(target);
    auto machine = request.send().getNode().machineRequest().send().getMachine();
    auto expected = kj::str("node ", target);
    auto answer = co_await machine.versionRequest().send();
    KJ_REQUIRE(answer.getTag() == expected, answer.getTag());
  };
  honest.wait(connect());
  honest.wait(version("10.0.0.2"));
  honest.add("a call", 20 * kj::MILLISECONDS, [&](unsigned) { return version("10.0.0.1"); });
  honest.add("a forwarded call", 20 * kj::MILLISECONDS,
             [&](unsigned) { return version("10.0.0.2"); });
  honest.run("hostile servers", node.apid, kMostGrowthKiB);
  EXPECT_TRUE(attacker.alive()) << "it did not attack to the end";
}

}  // namespace
}  // namespace talos::hostile
