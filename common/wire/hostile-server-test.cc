// A malicious server, and the client that has dialled it: real sockets, messages by hand.
#include <capnp/rpc.capnp.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "common/testing/printing.h"
#include "common/wire/rpc-server.h"
#include "rpc/node.capnp.h"

namespace talos {
namespace {

using Fill = kj::Function<void(capnp::rpc::Message::Builder, unsigned)>;

struct HostileServer : testing::Test {
  ~HostileServer() noexcept override {
    connection = nullptr;
    removeTree(directory);
  }
  // Must outlive the connection, which is charged to it until its end.
  Budget budget{{.perClient = 8u << 20, .inTotal = 32u << 20}};
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  kj::String directory = makeDirectory();
  kj::String path = kj::str(directory, "/hostile.sock");
  kj::AutoCloseFd listening = listenUnix(path, 0600);
  kj::Own<kj::AsyncIoStream> server;
  kj::Maybe<kj::Own<Connection>> connection;

  static kj::String makeDirectory() {
    char name[] = "/tmp/hostile-XXXXXX";
    return kj::str(mkdtemp(name));
  }
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return timer.timeoutAfter(20 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
  rpc::Machine::Client connect(DialLimits limits = {}) {
    auto receiver = io.lowLevelProvider->wrapListenSocketFd(dup(listening));
    auto accepting = receiver->accept();
    connection =
        wait(connectUnix(*io.lowLevelProvider, timer, path, 5 * kj::SECONDS, kj::mv(limits)));
    server = wait(kj::mv(accepting));
    return KJ_ASSERT_NONNULL(connection)->bootstrap().castAs<rpc::Machine>();
  }
  // Sends so many of these messages, until the client disconnects. Returns how many it accepted.
  unsigned flood(unsigned count, Fill fill) {
    unsigned sent = 0;
    auto sending = [&]() -> kj::Promise<void> {
      for (; sent < count; ++sent) {
        capnp::MallocMessageBuilder message;
        fill(message.initRoot<capnp::rpc::Message>(), sent);
        auto flat = capnp::messageToFlatArray(message);
        auto bytes = flat.asBytes();
        co_await server->write(bytes.begin(), bytes.size());
      }
    };
    // Reads the client's answers: a server that does not read is another test.
    auto reading = [&]() -> kj::Promise<void> {
      kj::byte buffer[4096];
      while (co_await server->tryRead(buffer, 1, sizeof buffer) > 0) {
      }
    };
    wait(sending()
             .exclusiveJoin(reading())
             .exclusiveJoin(KJ_ASSERT_NONNULL(connection)->onDisconnect())
             .catch_([](kj::Exception&&) {}));
    return sent;
  }
  bool alive() { return KJ_ASSERT_NONNULL(connection)->alive(); }
  kj::Exception failureOf(kj::Promise<void> promise) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { wait(kj::mv(promise)); })) return kj::mv(*e);
    return KJ_EXCEPTION(FAILED, "nothing failed");
  }
  void expectLost(rpc::Machine::Client& machine, kj::StringPtr cause) {
    auto e = failureOf(machine.versionRequest().send().ignoreResult());
    EXPECT_EQ(kindOf(e), ErrorKind::kUnavailable) << messageOf(e).cStr();
    EXPECT_EQ(messageOf(e), kj::str(path, ": ", cause));
    EXPECT_FALSE(alive());
    wait(KJ_ASSERT_NONNULL(connection)->onDisconnect());
  }
};

// Catches: a server that requests the client's bootstrap again and again, and finishes nothing.
TEST_F(HostileServer, QuestionsWithoutEnd) {
  auto machine = connect();
  auto took =
      flood(200'000, [](auto message, unsigned i) { message.initBootstrap().setQuestionId(i); });
  EXPECT_LT(took, 200'000u);
  expectLost(machine, "more than 4096 calls at once on one connection");
}

// Catches: a client that the library aborts because it calls over a connection that the server has
// closed, as a command does that calls one node after the other.
TEST_F(HostileServer, GoesBetweenTwoCalls) {
  auto machine = connect();
  server = nullptr;
  auto& ended = *KJ_ASSERT_NONNULL(connection);
  wait(ended.onDisconnect());
  EXPECT_FALSE(alive());
  for (int i = 0; i < 2; ++i) {
    auto again = ended.bootstrap().castAs<rpc::Machine>();
    auto e = failureOf(again.versionRequest().send().ignoreResult());
    EXPECT_EQ(kindOf(e), ErrorKind::kUnavailable) << messageOf(e).cStr();
    EXPECT_EQ(messageOf(e), kj::str(path, ": the connection was lost"));
  }
}

// Catches: the same with calls of capabilities that it got.
TEST_F(HostileServer, CallsWithoutEnd) {
  auto machine = connect();
  auto took = flood(200'000, [](auto message, unsigned i) {
    if (i == 0) return message.initBootstrap().setQuestionId(0);
    auto call = message.initCall();
    call.setQuestionId(i);
    call.initTarget().initPromisedAnswer().setQuestionId(0);
    call.initParams().getContent().initAsAnyStruct(0, 0);
  });
  EXPECT_LT(took, 200'000u);
  expectLost(machine, "more than 4096 calls at once on one connection");
}

// Catches: a message with more capabilities than honest peers send, each of which costs a table
// entry.
TEST_F(HostileServer, AMessageFullOfCapabilities) {
  auto machine = connect();
  flood(1, [](auto message, unsigned) {
    auto call = message.initCall();
    call.initTarget().setImportedCap(0);
    auto table = call.initParams().initCapTable(100'000);
    for (auto i : kj::indices(table)) table[i].setSenderHosted(i);
  });
  expectLost(machine, "100000 capabilities in one message; at most 64");
}

// Catches: a message whose announced size is believed.
TEST_F(HostileServer, AHeaderOfAGibibyte) {
  auto machine = connect();
  uint32_t header[2] = {0, (1u << 30) / sizeof(capnp::word)};
  wait(server->write(header, sizeof header));
  expectLost(machine, "a message is larger than 8388608 bytes");
}

// Catches: servers that announce large messages and send none of their bytes, while a client keeps
// the memory of each; a charge that remains after a message was received.
TEST_F(HostileServer, AnnouncedMessagesAreCharged) {
  auto account = budget.account("one");
  auto connectCharged = [&]() {
    DialLimits limits;
    limits.account = kj::addRef(*account);
    return connect(kj::mv(limits));
  };
  auto announce = [&](uint32_t bytes) {
    const uint32_t header[2] = {0, uint32_t(bytes / sizeof(capnp::word))};
    wait(server->write(header, sizeof header));
  };
  {
    auto other = account->hold(3u << 20);
    auto machine = connectCharged();
    announce(6u << 20);
    expectLost(machine,
               "the calls of this client use more than 8388608 bytes, over all its connections");
  }
  auto machine = connectCharged();
  announce(6u << 20);
  auto rest = kj::heapArray<kj::byte>(6u << 20);
  memset(rest.begin(), 0, rest.size());
  wait(server->write(rest.begin(), rest.size()));
  auto end = timer.now() + 20 * kj::SECONDS;
  auto isFree = [&]() {
    return kj::runCatchingExceptions([&]() { account->hold(8u << 20); }) == nullptr;
  };
  while (!isFree() && timer.now() < end) wait(timer.afterDelay(1 * kj::MILLISECONDS));
  EXPECT_TRUE(isFree());
}

// Catches: a limit that honest answers exceed, or that limits reading within them.
TEST_F(HostileServer, AnAnswerOfAlmostTheLimitIsWhole) {
  auto machine = connect();
  auto asking = machine.castAs<rpc::Services>().restartRequest().send().then([](auto&& answer) {
    size_t size = 0;
    for (int i = 0; i < 3; ++i) size = answer.getResponse().size();  // read more than once
    return size;
  });
  capnp::MallocMessageBuilder message;
  auto answer = message.initRoot<capnp::rpc::Message>().initReturn();
  answer.setAnswerId(1);  // the first question is the bootstrap
  auto text = kj::str(kj::repeat('x', (8u << 20) - 4096));
  answer.initResults().getContent().initAs<rpc::Services::RestartResults>().setResponse(text);
  auto words = capnp::messageToFlatArray(message);
  auto writing =
      server->write(words.asBytes().begin(), words.asBytes().size()).eagerlyEvaluate(nullptr);
  EXPECT_EQ(wait(kj::mv(asking)), text.size());
}

// Catches: a deadlock in which each side of a connection waits until the other one reads what it
// has sent. The side that called must continue to read answers.
TEST_F(HostileServer, AnswersAreReadWhileMuchWaitsToBeSent) {
  auto machine = connect();
  kj::Vector<kj::Promise<void>> calls;
  auto text = kj::str(kj::repeat('x', 1u << 20));
  for (int i = 0; i < 12; ++i) {
    auto request = machine.castAs<rpc::Services>().restartRequest();
    request.setId(text);
    calls.add(request.send().ignoreResult());
  }
  capnp::MallocMessageBuilder message;
  auto answer = message.initRoot<capnp::rpc::Message>().initReturn();
  answer.setAnswerId(1);  // the first question is the bootstrap
  answer.initResults().getContent().initAs<rpc::Services::RestartResults>();
  auto words = capnp::messageToFlatArray(message);
  wait(server->write(words.asBytes().begin(), words.asBytes().size()));
  wait(kj::mv(calls[0]));
  EXPECT_TRUE(alive());
}

// Catches: calls that pile up for a server that does not read, without end.
TEST_F(HostileServer, WhatItDoesNotReadDoesNotPileUp) {
  auto machine = connect();
  kj::Vector<kj::Promise<void>> calls;
  auto text = kj::str(kj::repeat('x', 1u << 20));
  for (int i = 0; i < 40; ++i) {
    auto request = machine.castAs<rpc::Services>().restartRequest();
    request.setId(text);
    calls.add(request.send().ignoreResult());
  }
  expectLost(machine, "the peer does not read what is sent to it");
}

}  // namespace
}  // namespace talos
