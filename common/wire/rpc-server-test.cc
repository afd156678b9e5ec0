#include "common/wire/rpc-server.h"

#include <capnp/rpc-twoparty.h>
#include <capnp/rpc.capnp.h>
#include <capnp/serialize.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "rpc/node.capnp.h"

namespace talos {
namespace {

// Returns its caller's identity as the tag; reboot() never returns.
class CountingMachine final : public rpc::Machine::Server {
 public:
  CountingMachine(kj::String who, unsigned& calls,
                  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>>& rebootCalled)
      : who(kj::mv(who)), calls(calls), rebootCalled(rebootCalled) {}

 protected:
  kj::Promise<void> version(VersionContext context) override {
    ++calls;
    context.getResults().setTag(who);
    return kj::READY_NOW;
  }
  kj::Promise<void> memory(MemoryContext context) override {
    ++calls;
    for (auto field : context.getResults().initFields(1000)) field.setName("a name of some length");
    return kj::READY_NOW;
  }
  kj::Promise<void> reboot(RebootContext context) override {
    KJ_IF_MAYBE (fulfiller, rebootCalled) {
      (*fulfiller)->fulfill();
    }
    return kj::NEVER_DONE;
  }

 private:
  kj::String who;
  unsigned& calls;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>>& rebootCalled;
};

// Messages of a client, made by hand: the first question, which has the id 0, ...
kj::Array<capnp::word> bootstrapByHand() {
  capnp::MallocMessageBuilder message;
  message.initRoot<capnp::rpc::Message>().initBootstrap().setQuestionId(0);
  return capnp::messageToFlatArray(message);
}
// ... and a call on its result.
kj::Array<capnp::word> memoryByHand(unsigned question) {
  capnp::MallocMessageBuilder message;
  auto call = message.initRoot<capnp::rpc::Message>().initCall();
  call.setQuestionId(question);
  call.initTarget().initPromisedAnswer().setQuestionId(0);
  call.setInterfaceId(capnp::typeId<rpc::Machine>());
  call.setMethodId(2);
  call.initParams().getContent().initAsAnyStruct(0, 0);
  return capnp::messageToFlatArray(message);
}

struct Server : testing::Test {
  ~Server() noexcept override {
    serving = nullptr;
    removeTree(directory);
  }
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  kj::String directory = makeDirectory();
  kj::String path = kj::str(directory, "/test.sock");
  kj::Maybe<kj::Promise<void>> serving;
  ServerLimits limits;
  unsigned calls = 0;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> rebootCalled;

  static kj::String makeDirectory() {
    char name[] = "/tmp/server-test-XXXXXX";
    return kj::str(mkdtemp(name));
  }
  void serve(kj::AutoCloseFd listening) {
    serving = serveUnix(
                  *io.lowLevelProvider, timer, kj::mv(listening),
                  [this](const UnixPeer& peer) -> capnp::Capability::Client {
                    return kj::heap<CountingMachine>(kj::str(peer.uid, " ", peer.pid), calls,
                                                     rebootCalled);
                  },
                  limits)
                  .eagerlyEvaluate(nullptr);
  }
  void serve() { serve(listenUnix(path, 0600)); }

  // Waits for a promise. If it never resolves, the test fails by its deadline instead of hanging.
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return timer.timeoutAfter(20 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
  kj::Own<Connection> connect() { return wait(connectUnix(*io.lowLevelProvider, timer, path)); }
  kj::String version(capnp::Capability::Client machine) {
    return kj::str(wait(machine.castAs<rpc::Machine>().versionRequest().send().then(
        [](auto&& response) { return kj::str(response.getTag()); })));
  }
  template <typename T>
  kj::Exception failureOf(kj::Promise<T> promise) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { wait(kj::mv(promise)); })) {
      return kj::mv(*e);
    }
    return KJ_EXCEPTION(FAILED, "nothing failed");
  }
  kj::Own<kj::AsyncIoStream> rawConnect() {
    return wait(wait(io.provider->getNetwork().parseAddress(kj::str("unix:", path)))->connect());
  }
  // Reads until the other side closes.
  void expectClosed(kj::AsyncIoStream& stream) {
    kj::byte buffer[4096];
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                   while (wait(stream.tryRead(buffer, 1, sizeof buffer)) > 0) {
                   }
                 })) {
      EXPECT_EQ(e->getType(), kj::Exception::Type::DISCONNECTED) << kj::str(*e).cStr();
    }
  }
};

// Catches: a peer that is taken for another one.
TEST_F(Server, UnixPeerIsKnown) {
  serve();
  EXPECT_EQ(version(connect()->bootstrap()), kj::str(getuid(), " ", getpid()));
}

// Catches: a socket that others can reach, a stale file that blocks the start, a file that is lost.
TEST_F(Server, ListenUnixReplacesOnlySockets) {
  listenUnix(path, 0640);  // leaves the file, as a crash does
  auto again = listenUnix(path, 0600);
  struct stat info;
  ASSERT_EQ(stat(path.cStr(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_NE(fcntl(again.get(), F_GETFD) & FD_CLOEXEC, 0);

  auto file = kj::str(directory, "/precious");
  writeFileAtomically(file, "data"_kj.asArray(), 0600);
  EXPECT_NE(kj::runCatchingExceptions([&] { listenUnix(file, 0600); }), nullptr);
  EXPECT_EQ(readFile(file), "data"_kj);
}

// Catches: garbage that ends the listener or disturbs others.
TEST_F(Server, GarbageClosesOnlyItsConnection) {
  serve();
  auto honest = connect();
  auto machine = honest->bootstrap();
  version(machine);
  for (kj::StringPtr garbage :
       {"GET / HTTP/1.1\r\nHost: x\r\n\r\n"_kj, "\xff\xff\xff\xff\xff\xff\xff\xff"_kj,
        "\x00\x00\x00\x00\xff\xff\xff\x7f"_kj}) {
    auto stream = rawConnect();
    wait(stream->write(garbage.begin(), garbage.size()));
    stream->shutdownWrite();
    expectClosed(*stream);
  }
  version(machine);
  version(connect()->bootstrap());
}

// Catches: a message whose announced size is believed.
TEST_F(Server, MessageOverTheLimitClosesTheConnection) {
  limits.messageWords = 10'000;
  serve();
  auto stream = rawConnect();
  uint32_t header[2] = {0, 10'001};  // one segment, of so many words
  wait(stream->write(header, sizeof header));
  expectClosed(*stream);  // without the words having been sent
  version(connect()->bootstrap());
}

// Catches: a limit of connections that is not kept, or not given back.
TEST_F(Server, ConnectionsArePerPeerAndInTotal) {
  limits.connectionsPerPeer = 2;
  serve();
  auto first = connect(), second = connect();
  version(first->bootstrap());
  version(second->bootstrap());
  auto third = rawConnect();
  expectClosed(*third);
  version(first->bootstrap());
  second = nullptr;
  for (;;) {  // until the server has seen the end
    auto next = connect();
    auto answer = next->bootstrap().castAs<rpc::Machine>().versionRequest().send();
    bool served =
        wait(answer.then([](auto&&) { return true; }, [](kj::Exception&&) { return false; }));
    if (served) break;
  }
}

// Catches: answers that are never released and grow the tables of the server.
TEST_F(Server, TooManyUnfinishedCallsCloseTheConnection) {
  limits.questions = 100;
  serve();
  auto connection = connect();
  auto machine = connection->bootstrap().castAs<rpc::Machine>();
  kj::Vector<kj::Promise<void>> hanging;
  for (int i = 0; i < 99; i++) hanging.add(machine.rebootRequest().send().ignoreResult());
  auto last = failureOf(machine.versionRequest().send().ignoreResult());
  EXPECT_STREQ(messageOf(last).cStr(), "more than 100 calls at once on one connection");
  version(connect()->bootstrap());
}

// Catches: calls that are over counted as calls under way.
TEST_F(Server, ManyCallsOneAfterTheOther) {
  limits.questions = 10;
  serve();
  auto connection = connect();
  for (int i = 0; i < 100; i++) version(connection->bootstrap());
  auto machine = connection->bootstrap();
  for (int i = 0; i < 100; i++) version(machine);
  EXPECT_EQ(calls, 200u);
}

// Catches: capabilities that a peer collects and never releases; released ones counted as held.
TEST_F(Server, TooManyCapabilitiesCloseTheConnection) {
  class FakeNode final : public rpc::Node::Server {
   public:
    FakeNode(unsigned& calls, kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>>& rebootCalled)
        : calls(calls), rebootCalled(rebootCalled) {}

   protected:
    kj::Promise<void> machine(MachineContext context) override {
      context.getResults().setMachine(
          kj::heap<CountingMachine>(kj::str("new"), calls, rebootCalled));
      return kj::READY_NOW;
    }

   private:
    unsigned& calls;
    kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>>& rebootCalled;
  };
  limits.capabilities = 10;
  serving = serveUnix(
                *io.lowLevelProvider, timer, listenUnix(path, 0600),
                [this](const UnixPeer&) -> capnp::Capability::Client {
                  return kj::heap<FakeNode>(calls, rebootCalled);
                },
                limits)
                .eagerlyEvaluate(nullptr);
  auto connection = connect();
  auto node = connection->bootstrap().castAs<rpc::Node>();
  auto get = [&] {
    return wait(node.machineRequest().send().then([](auto&& r) { return r.getMachine(); }));
  };
  for (int i = 0; i < 100; i++) {
    version(get());                                // given back at once
    wait(connection->bootstrap().whenResolved());  // always the same one
  }
  kj::Vector<rpc::Machine::Client> held;
  for (int i = 0; i < 9; i++) held.add(get());
  version(held[0]);
  // Noticed with the first message after the answer that was one too many.
  auto e = kj::runCatchingExceptions([&] {
    for (int i = 0; i < 3; i++) held.add(get());
  });
  ASSERT_TRUE(e != nullptr);
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(e)),
            "more than 10 unreleased capabilities on one connection"_kj);
}

// Catches: answers that accumulate in the server for a peer that calls and does not read.
TEST_F(Server, NothingMoreIsReadFromAPeerThatDoesNotRead) {
  limits.queuedBytes = 1 << 20;
  limits.questions = 1 << 20;
  serve();
  // A client that never reads: calls written by hand, each answered with some 48 KB and finished at
  // once.
  auto stream = rawConnect();
  kj::Vector<kj::byte> bytes;
  bytes.addAll(bootstrapByHand().asBytes());
  const unsigned kCalls = 2000;
  for (unsigned i = 1; i <= kCalls; i++) bytes.addAll(memoryByHand(i).asBytes());
  auto writing = stream->write(bytes.begin(), bytes.size()).eagerlyEvaluate(nullptr);
  unsigned before;
  do {
    before = calls;
    io.waitScope.poll();
  } while (calls != before || calls == 0);
  EXPECT_GT(calls, 10u);
  EXPECT_LT(calls, kCalls / 4);  // all answers together have 96 MB
  // Once the client reads, everything arrives.
  kj::byte buffer[65536];
  while (calls < kCalls) ASSERT_GT(wait(stream->tryRead(buffer, 1, sizeof buffer)), 0u);
}

// Catches: a call that is carried out although its answer can no longer be sent; a client that is
// disconnected before its first call.
TEST_F(Server, NothingIsBegunBehindTheEnd) {
  int ends[2];
  KJ_SYSCALL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends));
  auto wrap = [&](int fd) { return io.lowLevelProvider->wrapSocketFd(kj::AutoCloseFd(fd)); };
  auto peer = wrap(ends[0]);
  auto served = serveConnection(timer, wrap(ends[1]),
                                kj::heap<CountingMachine>(kj::str("this"), calls, rebootCalled),
                                limits, kj::READY_NOW)
                    .eagerlyEvaluate(nullptr);
  auto send = [&](kj::Array<capnp::word> message) {
    wait(peer->write(message.asBytes().begin(), message.asBytes().size()));
  };
  EXPECT_FALSE(served.poll(io.waitScope)) << "it waits for the first question";
  send(bootstrapByHand());
  EXPECT_FALSE(served.poll(io.waitScope)) << "it waits for its end to be seen";
  expectClosed(*peer);
  send(memoryByHand(1));
  wait(kj::mv(served));
  EXPECT_EQ(calls, 0u);
}

// Catches: an end that cuts off an answer which waits to be written.
TEST_F(Server, ALargeAnswerIsWholeBeforeTheEnd) {
  struct Ending final : rpc::Machine::Server {
    kj::PromiseFulfillerPair<void> stop = kj::newPromiseAndFulfiller<void>();
    kj::Promise<void> version(VersionContext context) override {
      context.getResults().setTag(kj::str(kj::repeat('x', 4 << 20)));
      stop.fulfiller->fulfill();
      return kj::READY_NOW;
    }
  };
  int ends[2];
  KJ_SYSCALL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends));
  auto wrap = [&](int fd) { return io.lowLevelProvider->wrapSocketFd(kj::AutoCloseFd(fd)); };
  auto peer = wrap(ends[0]);
  auto machine = kj::heap<Ending>();
  auto stop = kj::mv(machine->stop.promise);
  auto served = serveConnection(timer, wrap(ends[1]), kj::mv(machine), limits, kj::mv(stop))
                    .eagerlyEvaluate(nullptr);
  capnp::TwoPartyClient client(*peer);
  EXPECT_EQ(version(client.bootstrap()).size(), 4u << 20);
  wait(client.onDisconnect());
}

// Catches: an error without the place, or a wait without an end.
TEST_F(Server, ConnectionToAMissingServerFailsWithItsAddress) {
  auto e = failureOf(connectUnix(*io.lowLevelProvider, timer, path));
  EXPECT_EQ(kindOf(e), ErrorKind::kUnavailable);
  EXPECT_EQ(messageOf(e), kj::str(path, ": No such file or directory"));
  {
    auto stale = listenUnix(path, 0600);
  }
  auto refused = failureOf(connectUnix(*io.lowLevelProvider, timer, path));
  EXPECT_EQ(messageOf(refused), kj::str(path, ": Connection refused"));
}

// Catches: a listener that spins or hangs for ever when its descriptor is not a socket.
TEST_F(Server, RejectsWhenTheSocketDoesNotListen) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  auto serving = serveUnix(*io.lowLevelProvider, timer, kj::AutoCloseFd(fd),
                           [](const UnixPeer&) -> capnp::Capability::Client { return nullptr; });
  EXPECT_NE(failureOf(kj::mv(serving)).getDescription(), "nothing failed"_kj);
}

// Catches: a capability that stays broken after its server was started again, or one that hides a
// lost call.
TEST_F(Server, ReconnectingSurvivesARestart) {
  auto listening = listenUnix(path, 0600);
  auto machine = reconnecting(*io.lowLevelProvider, timer, kj::str(path)).castAs<rpc::Machine>();
  serve(kj::AutoCloseFd(dup(listening.get())));
  version(machine);
  auto arrived = kj::newPromiseAndFulfiller<void>();
  rebootCalled = kj::mv(arrived.fulfiller);
  auto lost = machine.rebootRequest().send();
  wait(kj::mv(arrived.promise));
  serving = nullptr;  // the daemon dies; the socket outlives it
  auto e = failureOf(lost.ignoreResult());
  EXPECT_EQ(kindOf(e), ErrorKind::kUnavailable);
  EXPECT_EQ(messageOf(e), kj::str(path, ": the connection was lost"));
  serve(kj::AutoCloseFd(dup(listening.get())));
  EXPECT_EQ(version(machine), kj::str(getuid(), " ", getpid()));
}

// Catches: a failed dialling that is remembered.
TEST_F(Server, ReconnectingDialsAgainAfterAFailure) {
  auto machine = reconnecting(*io.lowLevelProvider, timer, kj::str(path)).castAs<rpc::Machine>();
  EXPECT_EQ(kindOf(failureOf(machine.versionRequest().send().ignoreResult())),
            ErrorKind::kUnavailable);
  serve();
  version(machine);
}

// Catches: a connection that stays open although no capability uses it.
TEST_F(Server, DroppingAReconnectingCapabilityClosesItsConnection) {
  struct FakeConnection final : Connection {
    explicit FakeConnection(bool& gone) : gone(gone) {}
    ~FakeConnection() noexcept(false) { gone = true; }
    capnp::Capability::Client bootstrap() override { return nullptr; }
    kj::Promise<void> onDisconnect() override { return kj::NEVER_DONE; }
    bool alive() const override { return true; }
    bool& gone;
  };
  bool gone = false;
  unsigned dialed = 0;
  {
    auto machine = reconnecting([&]() -> kj::Promise<Dialed> {
      ++dialed;
      return Dialed{kj::heap<FakeConnection>(gone),
                    kj::heap<CountingMachine>(kj::str("fake"), calls, rebootCalled)};
    });
    EXPECT_EQ(dialed, 0u);  // only when it is needed
    EXPECT_EQ(version(machine), "fake"_kj);
    EXPECT_EQ(version(machine), "fake"_kj);
    EXPECT_EQ(dialed, 1u);
    EXPECT_FALSE(gone);
  }
  wait(kj::evalLast([] {}));
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace talos
