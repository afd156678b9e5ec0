// A served connection of gRPC in the test's event loop and time.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "common/grpc/grpc-server.h"
#include "common/grpc/test-h2.h"
#include "common/testing/virtual-time.h"

namespace talos::grpc::testing {

inline kj::Array<kj::byte> bytes(const std::string& text) {
  return kj::heapArray(kj::arrayPtr(text.data(), text.size()).asBytes());
}
inline std::string textOf(kj::ArrayPtr<const kj::byte> bytes) {
  return std::string(bytes.asChars().begin(), bytes.size());
}

// A handler whose methods are functions of the test.
class Methods final : public GrpcHandler {
 public:
  std::map<std::string, std::function<kj::Promise<GrpcStatus>(GrpcCall&)>> table;
  unsigned running = 0, started = 0;

  kj::Promise<GrpcStatus> call(GrpcCall& call) override {
    auto found = table.find(call.path().cStr());
    if (found == table.end()) return GrpcStatus{12, kj::str("unknown method")};
    ++running;
    ++started;
    return found->second(call).attach(kj::defer([this]() { --running; }));
  }
};

inline kj::Promise<GrpcStatus> echo(GrpcCall& call) {
  for (;;) {
    auto message = co_await call.receive();
    KJ_IF_MAYBE (m, message) {
      co_await call.send(kj::mv(*m));
    } else {
      co_return GrpcStatus();
    }
  }
}
inline kj::Promise<GrpcStatus> never(GrpcCall&) {
  return kj::NEVER_DONE;
}

class SessionTest : public ::testing::Test {
 public:
  ~SessionTest() noexcept override {}

 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Methods methods;
  GrpcLimits limits;
  Budget budget{{.perClient = 8u << 20, .inTotal = 64u << 20}};
  kj::Own<Budget::Account> account;
  kj::Own<kj::PromiseFulfiller<void>> stop;
  kj::Promise<void> serving = nullptr;
  std::string error;  // the connection's last error: "(open)" while it is open, "" after an orderly
                      // end

  kj::Own<kj::AsyncIoStream> connect() {
    auto pipe = kj::newTwoWayPipe();
    auto paf = kj::newPromiseAndFulfiller<void>();
    stop = kj::mv(paf.fulfiller);
    error = "(open)";
    auto own = account.get() == nullptr ? kj::Own<Budget::Account>() : kj::addRef(*account);
    serving =
        serveGrpc(timer, kj::mv(pipe.ends[0]), methods, limits, kj::mv(paf.promise), kj::mv(own))
            .then([this](kj::Maybe<kj::String> e) { error = e.orDefault(kj::str()).cStr(); })
            .eagerlyEvaluate(nullptr);
    return kj::mv(pipe.ends[1]);
  }
  kj::Own<RawH2Client> rawClient(std::string bytes) {
    auto client = kj::heap<RawH2Client>(connect());
    send(*client, hello() + bytes);
    return client;
  }
  void send(RawH2Client& client, std::string bytes) {
    auto sending = client.send(kj::mv(bytes)).eagerlyEvaluate([](kj::Exception&&) {});
    settle();
    sent.push_back(kj::mv(sending));
  }
  // Runs the loop until it has nothing left to do at this time: a server that yields continues at
  // the same time.
  void settle() {
    for (scope.poll(); timer.nextEvent().orDefault(kj::maxValue) <= timer.now(); scope.poll()) {
      timer.advanceTo(timer.now());
    }
  }
  template <typename T>
  T waitFor(kj::Promise<T> promise) {
    settle();
    return promise.wait(scope);
  }
  std::vector<kj::Promise<void>> sent;
};

}  // namespace talos::grpc::testing
