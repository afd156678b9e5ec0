// The bytes of a hostile client of the second face: any, any after a right beginning, and a right
// conversation of several calls that is damaged.
// link: common-grpc nghttp2
#include <kj/async-io.h>
#include <kj/debug.h>

#include "common/grpc/grpc-server.h"
#include "common/grpc/test-h2.h"
#include "tests/fuzz/fuzz-target.h"
#include "tests/testbeds/conversation.h"

namespace {

using namespace talos;
using namespace talos::grpc::testing;

const std::string& rightBytes() {
  static const std::string bytes =
      hello() + settingsFrame(NGHTTP2_FLAG_ACK) + call(1, "/a.B/Echo", "hello") +
      headersFrame(3, request("/a.B/Echo", {{"nodes", "10.0.0.2"}, {"grpc-timeout", "5S"}})) +
      dataFrame(3, grpcMessage("a") + grpcMessage(""), 0) +
      h2Frame(NGHTTP2_WINDOW_UPDATE, 0, 0, bigEndian(1 << 20, 4)) +
      headersFrame(5, request("/a.B/Never", {{"grpc-timeout", "1S"}}), kEndHeaders | kEndStream) +
      headersFrame(7, request("/a.B/Stream"), 0) +
      h2Frame(NGHTTP2_CONTINUATION, kEndHeaders, 7, hpack({{"x", "y"}}, true)) +
      dataFrame(7, grpcMessage("")) + h2Frame(NGHTTP2_PING, 0, 0, "12345678") +
      headersFrame(9, request("/a.B/Never")) +
      h2Frame(NGHTTP2_RST_STREAM, 0, 9, bigEndian(NGHTTP2_CANCEL, 4)) + dataFrame(3, "");
  return bytes;
}
kj::ArrayPtr<const kj::byte> bytesOf(const std::string& text) {
  return kj::arrayPtr(text.data(), text.size()).asBytes();
}

struct Methods final : grpc::GrpcHandler {
  unsigned running = 0, ok = 0;

  kj::Promise<grpc::GrpcStatus> call(grpc::GrpcCall& call) override {
    ++running;
    return work(call).attach(kj::defer([this]() { --running; }));
  }
  kj::Promise<grpc::GrpcStatus> work(grpc::GrpcCall& call) {
    KJ_ASSERT(call.path().size() <= 32u << 10);
    if (call.path() == "/a.B/Never")
      co_return co_await kj::Promise<grpc::GrpcStatus>(kj::NEVER_DONE);
    if (call.path() == "/a.B/Stream") {
      call.begin();
      for (unsigned i = 0; i < 3; ++i) co_await call.send(kj::heapArray<kj::byte>(40'000));
    }
    for (;;) {
      auto message = co_await call.receive();
      KJ_IF_MAYBE (m, message) {
        co_await call.send(kj::mv(*m));
      } else {
        break;
      }
    }
    ++ok;
    co_return grpc::GrpcStatus();
  }
};

// How many calls were carried out.
unsigned converse(kj::ArrayPtr<const kj::byte> bytes) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  kj::TimerImpl timer(kj::origin<kj::TimePoint>());
  Methods methods;
  bool over = false;
  auto pipe = kj::newTwoWayPipe();
  auto serving = grpc::serveGrpc(timer, kj::mv(pipe.ends[0]), methods)
                     .then([&](kj::Maybe<kj::String>) { over = true; })
                     .eagerlyEvaluate(nullptr);
  auto& end = *pipe.ends[1];
  auto drained = end.readAllBytes().ignoreResult().eagerlyEvaluate([](kj::Exception&&) {});
  auto sent = end.write(bytes.begin(), bytes.size()).eagerlyEvaluate([](kj::Exception&&) {});
  auto settle = [&]() {
    do {
      KJ_ASSERT(scope.poll(100'000) < 100'000, "the server does not come to rest");
      timer.advanceTo(timer.now());  // the server continues after it has given other tasks their
                                     // turn
    } while (scope.poll() > 0);
  };
  settle();
  timer.advanceTo(timer.now() + 10 * kj::SECONDS);
  settle();
  auto ok = methods.ok;
  sent = nullptr;
  end.shutdownWrite();
  settle();
  KJ_ASSERT(over, "a connection outlives its client");
  KJ_ASSERT(methods.running == 0, "a call outlives its connection");
  return ok;
}

}  // namespace

FUZZ_TARGET(grpcserver) {
  static bool right = [] {
    KJ_ASSERT(converse(bytesOf(rightBytes())) == 3, "what is damaged must be right");
    return true;
  }();
  (void)right;
  auto input = kj::arrayPtr(data, size);
  if (size > 0 && data[0] % 3 == 1) {
    auto begun = hello() + std::string(input.slice(1, size).asChars().begin(), size - 1);
    converse(bytesOf(begun));
  } else {
    converse(testbeds::hostileBytes(bytesOf(rightBytes()), input));
  }
  return 0;
}
