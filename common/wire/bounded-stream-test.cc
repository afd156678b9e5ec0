// Clients that send allowed messages, and too many of them: small ones, ones that start no call, or
// ones whose answers are kept.
#include "common/wire/bounded-stream.h"

#include <capnp/rpc-twoparty.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/testing/printing.h"
#include "common/wire/rpc-server.h"
#include "rpc/node.capnp.h"

namespace talos {
namespace {

constexpr size_t kMiB = 1u << 20;

template <typename Fill>
void add(kj::Vector<kj::byte>& bytes, Fill&& fill) {
  capnp::MallocMessageBuilder message;
  fill(message.initRoot<capnp::rpc::Message>());
  bytes.addAll(capnp::messageToFlatArray(message).asBytes());
}
void addBootstrap(kj::Vector<kj::byte>& bytes, uint32_t question) {
  add(bytes, [&](auto message) { message.initBootstrap().setQuestionId(question); });
}
void addFinish(kj::Vector<kj::byte>& bytes, uint32_t question) {
  add(bytes, [&](auto message) {
    auto finish = message.initFinish();
    finish.setQuestionId(question);
    finish.setReleaseResultCaps(true);
  });
}
// Adds a call to the bootstrap capability, which is question 0.
void addCall(kj::Vector<kj::byte>& bytes, uint32_t question) {
  add(bytes, [&](auto message) {
    auto call = message.initCall();
    call.setQuestionId(question);
    call.initTarget().initPromisedAnswer().setQuestionId(0);
    call.setInterfaceId(capnp::typeId<rpc::Node>());
  });
}

// Sends these bytes, then endless parts, and reads nothing; bytes written to it are accepted.
struct Endless final : kj::AsyncIoStream {
  using Part = void (*)(kj::Vector<kj::byte>& bytes, uint32_t number);
  Part part;
  kj::Vector<kj::byte> bytes;
  size_t at = 0;
  uint32_t number = 0;

  explicit Endless(Part part) : part(part) { addBootstrap(bytes, 0); }
  kj::Promise<size_t> tryRead(void* buffer, size_t, size_t most) override {
    while (bytes.size() - at < most) part(bytes, ++number);
    memcpy(buffer, bytes.begin() + at, most);
    at += most;
    if (at < kMiB) return most;
    auto rest = kj::heapArray(bytes.asPtr().slice(at, bytes.size()));
    bytes.clear();
    bytes.addAll(rest);
    at = 0;
    return most;
  }
  kj::Promise<void> write(const void*, size_t) override { return kj::READY_NOW; }
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>>) override {
    return kj::READY_NOW;
  }
  kj::Promise<void> whenWriteDisconnected() override { return kj::NEVER_DONE; }
  void shutdownWrite() override {}
};

struct CountingNode final : capnp::Capability::Server {
  unsigned& calls;
  explicit CountingNode(unsigned& calls) : calls(calls) {}
  DispatchCallResult dispatchCall(
      uint64_t, uint16_t,
      capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> context) override {
    ++calls;
    context.getResults().initAsAnyStruct(0, 0);
    return {kj::READY_NOW, false, false};
  }
};

struct BoundedStream : testing::Test {
  ~BoundedStream() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Budget budget{{.perClient = 8 * kMiB, .inTotal = 64 * kMiB}};
  unsigned calls = 0;

  kj::Promise<kj::Maybe<kj::String>> serve(Endless::Part part) {
    return serveConnection(timer, kj::heap<Endless>(part), kj::heap<CountingNode>(calls), {},
                           kj::NEVER_DONE, budget.account("a"))
        .eagerlyEvaluate(nullptr);
  }
};

// Catches: small messages by the thousand before the loop looks for other clients, for each of the
// connections of one.
TEST_F(BoundedStream, SmallMessagesOfAllConnectionsShareATurn) {
  kj::Vector<kj::Promise<kj::Maybe<kj::String>>> connections;
  for (unsigned i = 0; i < 8; ++i) {
    connections.add(serve([](auto& bytes, uint32_t number) {
      addCall(bytes, number);
      addFinish(bytes, number);
    }));
  }
  for (unsigned turn = 0; turn < 20; ++turn) {
    auto before = calls;
    ASSERT_LT(scope.poll(20'000), 20'000u) << "the loop does not come to look for others";
    EXPECT_LE(calls - before, Turns::kUnits);
    timer.advanceTo(timer.now() + 1 * kj::MICROSECONDS);
  }
  EXPECT_GT(calls, 10 * Turns::kUnits / 4) << "nothing is left for calls";
}

// Catches: messages that cost no more than their bytes and have no limit, because they are not
// calls.
TEST_F(BoundedStream, MessagesThatStartNoCallAreLimited) {
  struct Row {
    const char* name;
    Endless::Part part;
  };
  Row rows[] = {
      {"Resolve",
       [](auto& bytes, uint32_t number) {
         add(bytes, [&](auto message) {
           auto resolve = message.initResolve();
           resolve.setPromiseId(number);
           resolve.initException().setReason("x");
         });
       }},
      {"Unimplemented",
       [](auto& bytes, uint32_t) {
         add(bytes, [&](auto message) { message.initUnimplemented().initResolve(); });
       }},
      {"unknown", [](auto& bytes,
                     uint32_t) { add(bytes, [&](auto message) { message.initObsoleteSave(); }); }},
      {"Bootstrap",
       [](auto& bytes, uint32_t number) {
         addBootstrap(bytes, number);
         addFinish(bytes, number);
       }},
  };
  for (auto& row : rows) {
    auto serving = serve(row.part);
    unsigned turns = 0;
    for (; turns < 1000 && !serving.poll(scope); ++turns) {
      timer.advanceTo(timer.now() + 5 * kj::MILLISECONDS);
    }
    EXPECT_LT(turns, 1000u) << row.name;
    if (turns == 1000) continue;
    auto error = serving.wait(scope);
    EXPECT_EQ(error.orDefault(kj::str()), "too many messages that start no call"_kj) << row.name;
  }
}

// Catches: a budget that honest clients use up, which make calls and end them, and obtain
// capabilities and drop them.
TEST_F(BoundedStream, CallsAndTheirEndsAreNotLimited) {
  auto serving = serve([](auto& bytes, uint32_t number) {
    addCall(bytes, number);
    addFinish(bytes, number);
  });
  for (unsigned i = 0; i < 1000; ++i) {
    timer.advanceTo(timer.now() + 1 * kj::MICROSECONDS);
    ASSERT_FALSE(serving.poll(scope));
  }
  EXPECT_GT(calls, 20'000u);
}

// A capability alone.
struct SmallNode final : capnp::Capability::Server {
  DispatchCallResult dispatchCall(
      uint64_t, uint16_t,
      capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> context) override {
    auto results = context.getResults().initAsAnyStruct(0, 1).getPointerSection();
    results[0].setAs<capnp::Capability>(kj::heap<SmallNode>());
    return {kj::READY_NOW, false, false};
  }
};

// A megabyte beside a capability.
struct LargeNode final : capnp::Capability::Server {
  DispatchCallResult dispatchCall(
      uint64_t, uint16_t,
      capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> context) override {
    auto results = context.getResults().initAsAnyStruct(0, 2).getPointerSection();
    results[0].setAs<capnp::Capability>(kj::heap<LargeNode>());
    results[1].initAs<capnp::Data>(kMiB);
    return {kj::READY_NOW, false, false};
  }
};

// Catches: answers that a client was sent and keeps, for as long as it likes, all of whose bytes
// stay on this side.
TEST_F(BoundedStream, AnswersThatAreKeptAreCharged) {
  auto pipe = kj::newTwoWayPipe();
  auto account = budget.account("a");
  auto free = [&](size_t bytes) {
    return kj::runCatchingExceptions([&]() { account->hold(bytes); }) == nullptr;
  };
  auto serving = serveConnection(timer, kj::mv(pipe.ends[0]), kj::heap<LargeNode>(), {},
                                 kj::NEVER_DONE, kj::addRef(*account))
                     .eagerlyEvaluate(nullptr);
  capnp::TwoPartyClient client(*pipe.ends[1]);
  auto node = client.bootstrap().castAs<rpc::Node>();
  using Answer = capnp::Response<rpc::Node::MachineResults>;
  kj::Vector<Answer> kept;
  auto call = [&]() {
    kj::Promise<Answer> answer = node.machineRequest().send();
    if (!answer.poll(scope)) timer.advanceTo(timer.now() + 10 * kj::SECONDS);
    kept.add(answer.wait(scope));
  };
  call();
  EXPECT_TRUE(free(5 * kMiB));
  EXPECT_FALSE(free(6 * kMiB)) << "two copies of a megabyte are kept";
  kept.clear();
  scope.poll();
  EXPECT_TRUE(free(8 * kMiB));
  auto failure = kj::runCatchingExceptions([&] {
    for (unsigned i = 0; i < 10; ++i) call();
  });
  EXPECT_TRUE(failure != nullptr);
  EXPECT_LE(kept.size(), 4u);
  timer.advanceTo(timer.now() + 10 * kj::SECONDS);
  auto error = serving.wait(scope);
  EXPECT_EQ(KJ_ASSERT_NONNULL(error),
            "the calls of this client use more than 8388608 bytes, over all its connections"_kj);
}

// Catches: kept answers that cost nothing because each is small: with all that a call leaves in
// every layer they use as much memory as calls under way.
TEST_F(BoundedStream, SmallAnswersThatAreKeptAreCharged) {
  auto pipe = kj::newTwoWayPipe();
  auto serving = serveConnection(timer, kj::mv(pipe.ends[0]), kj::heap<SmallNode>(), {},
                                 kj::NEVER_DONE, budget.account("a"))
                     .eagerlyEvaluate(nullptr);
  capnp::TwoPartyClient client(*pipe.ends[1]);
  auto node = client.bootstrap().castAs<rpc::Node>();
  kj::Vector<capnp::Response<rpc::Node::MachineResults>> kept;
  auto failure = kj::runCatchingExceptions([&] {
    for (unsigned i = 0; i < 1000; ++i) {
      auto answer = node.machineRequest().send();
      timer.advanceTo(timer.now() + 1 * kj::MILLISECONDS);
      kept.add(answer.wait(scope));
    }
  });
  EXPECT_TRUE(failure != nullptr);
  EXPECT_LE(kept.size(), 8 * kMiB / (16u << 10));
  timer.advanceTo(timer.now() + 10 * kj::SECONDS);
  auto error = serving.wait(scope);
  EXPECT_EQ(KJ_ASSERT_NONNULL(error),
            "the calls of this client use more than 8388608 bytes, over all its connections"_kj);
}

}  // namespace
}  // namespace talos
