// A server with its limits in this process, reached through a pipe instead of a socket: for fuzz
// targets. For any input, the server must end the connection or answer, come to rest, and answer
// the next honest client.
#pragma once

#include <capnp/rpc-twoparty.h>
#include <kj/async-io.h>
#include <kj/timer.h>

#include "common/wire/rpc-server.h"
#include "tests/testbeds/conversation.h"

namespace talos::fuzz {

class PipeServer {
 public:
  // `open` returns the bootstrap capability of a connection.
  PipeServer(kj::WaitScope& scope, kj::TimerImpl& timer,
             kj::Function<capnp::Capability::Client()> open)
      : scope(scope), timer(timer), open(kj::mv(open)) {}

  // Sends the bytes, reads and drops the answers, and disconnects.
  void hostile(kj::ArrayPtr<const kj::byte> bytes) { converse(bytes); }

  // Sends the right conversation in the same way and checks the numbers of answers with results and
  // with failures: a conversation that is to be damaged must be right first.
  void check(kj::ArrayPtr<const kj::byte> right, unsigned results, unsigned failures) {
    auto answers = testbeds::answersIn(converse(right));
    KJ_ASSERT(answers.results == results && answers.failures.size() == failures, answers.results,
              kj::strArray(answers.failures, "; "));
  }

  void honest(kj::FunctionParam<void(capnp::Capability::Client, kj::WaitScope&)> use) {
    auto pipe = kj::newTwoWayPipe();
    auto serving = serveConnection(timer, kj::mv(pipe.ends[0]), open()).eagerlyEvaluate(nullptr);
    {
      capnp::TwoPartyClient client(*pipe.ends[1]);
      use(client.bootstrap(), scope);
    }
    pipe.ends[1] = nullptr;
    settle();
  }

 private:
  kj::WaitScope& scope;
  kj::TimerImpl& timer;
  kj::Function<capnp::Capability::Client()> open;

  // Runs the loop until nothing is left to do, even after other tasks have had their turn.
  void settle() {
    do {
      KJ_ASSERT(scope.poll(1'000'000) < 1'000'000, "the server does not come to rest");
      timer.advanceTo(timer.now());
    } while (scope.poll() > 0);
  }

  kj::Vector<kj::byte> converse(kj::ArrayPtr<const kj::byte> bytes) {
    ServerLimits limits;
    limits.questions = 64;
    limits.messageWords = 1 << 16;
    auto pipe = kj::newTwoWayPipe();
    auto serving =
        serveConnection(timer, kj::mv(pipe.ends[0]), open(), limits).eagerlyEvaluate(nullptr);
    auto& end = *pipe.ends[1];
    kj::Vector<kj::byte> heard;
    auto reading = drain(end, heard).eagerlyEvaluate([](kj::Exception&&) {});
    auto writing = end.write(bytes.begin(), bytes.size())
                       .then([&end]() { end.shutdownWrite(); })
                       .eagerlyEvaluate([](kj::Exception&&) {});
    settle();
    timer.advanceTo(timer.now() + 10 * kj::SECONDS);
    settle();
    writing = nullptr;
    reading = nullptr;
    pipe.ends[1] = nullptr;
    settle();
    serving = nullptr;
    settle();
    return heard;
  }

  static kj::Promise<void> drain(kj::AsyncIoStream& stream, kj::Vector<kj::byte>& heard) {
    kj::byte buffer[4096];
    for (;;) {
      auto n = co_await stream.tryRead(buffer, 1, sizeof buffer);
      if (n == 0) co_return;
      if (heard.size() < (1u << 20)) heard.addAll(buffer, buffer + n);
    }
  }
};

// A testbed behind a PipeServer, which answers the right conversation with `results` results.
template <typename Testbed>
class FuzzedTestbed {
 public:
  explicit FuzzedTestbed(unsigned results) { server.check(right, results, 0); }

  // Sends hostile bytes as the input says, and then runs an honest client.
  void run(kj::ArrayPtr<const kj::byte> input) {
    server.hostile(testbeds::hostileBytes(right, input));
    server.honest([this](capnp::Capability::Client bootstrap, kj::WaitScope& waitScope) {
      bed.use(kj::mv(bootstrap)).wait(waitScope);
    });
  }

 private:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Testbed bed{timer};
  PipeServer server{scope, timer, [this]() { return bed.open(); }};
  kj::Array<kj::byte> right = bed.conversation();
};

}  // namespace talos::fuzz
