// The bytes of a hostile gRPC server: any, and a right answer to the first call that is damaged.
// link: common-grpc nghttp2
#include <kj/async-io.h>
#include <kj/debug.h>

#include "common/grpc/grpc-client-session.h"
#include "tests/fuzz/fuzz-target.h"
#include "tests/testbeds/conversation.h"

namespace {

using namespace talos;

// SETTINGS; HEADERS of stream 1 with :status 200; DATA with one message; trailers with grpc-status
// 0 and a text.
constexpr kj::byte kRight[] = {0,   0,   0,   4,   0,   0,   0,   0,   0,          //
                               0,   0,   1,   1,   4,   0,   0,   0,   1,   0x88,  //
                               0,   0,   8,   0,   0,   0,   0,   0,   1,   0,    0,  0,   0,   3,
                               'a', 'b', 'c',  //
                               0,   0,   32,  1,   5,   0,   0,   0,   1,   0,    11, 'g', 'r', 'p',
                               'c', '-', 's', 't', 'a', 't', 'u', 's', 1,   '0',  0,  12,  'g', 'r',
                               'p', 'c', '-', 'm', 'e', 's', 's', 'a', 'g', 'e',  2,  '%', '4'};

kj::Promise<unsigned> readAll(grpc::Call& call) {
  unsigned messages = 0;
  while (co_await call.read() != nullptr) ++messages;
  co_return messages;
}

// Returns the number of messages that the first call got; nullptr if it failed.
kj::Maybe<unsigned> converse(kj::ArrayPtr<const kj::byte> bytes) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  kj::TimerImpl timer(kj::origin<kj::TimePoint>());
  auto pipe = kj::newTwoWayPipe();
  auto session =
      kj::refcounted<grpc::ClientSession>(timer, kj::str("server"), kj::mv(pipe.ends[1]));
  auto first = session->open("/a.B/C", nullptr, 5 * kj::SECONDS);
  auto second = session->open("/a.B/D", nullptr, nullptr);
  first->endOfMessages();
  kj::byte message[64] = {};
  auto writing = second->write(kj::heapArray<const kj::byte>(message)).eagerlyEvaluate(nullptr);
  kj::Maybe<unsigned> result;
  auto answer = readAll(*first)
                    .then([&](unsigned count) { result = count; }, [](kj::Exception&&) {})
                    .eagerlyEvaluate(nullptr);
  auto other = readAll(*second).ignoreResult().eagerlyEvaluate([](kj::Exception&&) {});
  auto& end = *pipe.ends[0];
  auto drained = end.readAllBytes().ignoreResult().eagerlyEvaluate([](kj::Exception&&) {});
  auto sent = end.write(bytes.begin(), bytes.size())
                  .then([&]() { end.shutdownWrite(); })
                  .eagerlyEvaluate([](kj::Exception&&) {});
  KJ_ASSERT(scope.poll(100'000) < 100'000, "the client does not come to rest");
  timer.advanceTo(timer.now() + 10 * kj::SECONDS);
  KJ_ASSERT(scope.poll(100'000) < 100'000, "the client does not come to rest");
  KJ_ASSERT(answer.poll(scope) && other.poll(scope), "a call outlives its connection");
  KJ_ASSERT(session->openCalls() == 0);
  return result;
}

}  // namespace

FUZZ_TARGET(grpc) {
  static bool right = [] {
    auto got = converse(kRight);
    KJ_ASSERT(got != nullptr && KJ_ASSERT_NONNULL(got) == 1, "what is damaged must be right");
    return true;
  }();
  (void)right;
  auto bytes = talos::testbeds::hostileBytes(kRight, kj::arrayPtr(data, size));
  converse(bytes);
  return 0;
}
