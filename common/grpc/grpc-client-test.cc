#include "common/grpc/grpc-client.h"

#include <gmock/gmock.h>

#include "common/grpc/grpc-client-session.h"
#include "common/grpc/test-grpc-server.h"
#include "common/grpc/test-h2.h"
#include "common/testing/virtual-time.h"

namespace talos::grpc {
namespace {

using namespace grpc::testing;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class GrpcClientTest : public ::testing::Test {
 public:
  ~GrpcClientTest() noexcept override {}

 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ModelServer server;
  bool refuses = false;
  kj::Duration dialling = 0 * kj::SECONDS;
  Client client{timer, kj::str("model"), [this]() -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
                  if (refuses) return error(ErrorKind::kUnavailable, "connection refused");
                  if (dialling == 0 * kj::SECONDS) return server.dial();
                  return timer.afterDelay(dialling).then([this]() { return server.dial(); });
                }};

  static kj::Array<const kj::byte> bytes(const std::string& text) {
    return kj::heapArray(kj::arrayPtr(text.data(), text.size()).asBytes());
  }
  static std::string text(kj::ArrayPtr<const kj::byte> bytes) {
    return std::string(bytes.asChars().begin(), bytes.size());
  }
  kj::Promise<std::string> ask(kj::StringPtr path, std::string message,
                               kj::Duration deadline = 10 * kj::SECONDS) {
    Metadata metadata[] = {{"containerd-namespace", "system"}};
    auto answer = co_await client.unary(path, metadata, deadline, bytes(message));
    co_return text(answer);
  }
  // Returns "Kind: message" of a promise that rejects.
  template <typename T>
  std::string failure(kj::Promise<T> promise) {
    std::string result = "none";
    promise
        .then([](auto&&...) {},
              [&](kj::Exception&& e) {
                result = kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
              })
        .wait(scope);
    return result;
  }
  kj::Own<Call> open(kj::StringPtr path, kj::Maybe<kj::Duration> deadline = nullptr) {
    return client.open(path, nullptr, deadline).wait(scope);
  }
  // Returns the error of the first call of a connection whose server sends this frame.
  std::string said(const std::string& frames) {
    auto pipe = kj::newTwoWayPipe();
    auto session = kj::refcounted<ClientSession>(timer, kj::str("model"), kj::mv(pipe.ends[1]));
    auto call = session->open("/a.B/C", nullptr, nullptr);
    call->endOfMessages();
    auto drained = pipe.ends[0]->readAllBytes().eagerlyEvaluate(
        [](kj::Exception&&) -> kj::Array<kj::byte> { return nullptr; });
    auto all = settingsFrame() + frames;
    pipe.ends[0]->write(all.data(), all.size()).wait(scope);
    return failure(call->read());
  }
  std::string next(Call& call) {
    auto message = call.read().wait(scope);
    return message == nullptr ? "(end)" : text(KJ_ASSERT_NONNULL(message));
  }
};

// Catches: a header that gRPC servers want and that is missing, metadata that does not arrive, a
// connection for each call.
TEST_F(GrpcClientTest, AsksAndIsAnswered) {
  server.methods["/a.B/Echo"] = [](auto& x) {
    if (!x.ended) return;
    x.send(x.messages.front() + "!");
    x.finish();
  };
  EXPECT_EQ("hello!", ask("/a.B/Echo", "hello").wait(scope));
  EXPECT_EQ("!", ask("/a.B/Echo", "").wait(scope));
  EXPECT_EQ(1, server.dialled);
  auto& headers = server.exchanges.begin()->second.headers;
  EXPECT_EQ("POST", headers[":method"]);
  EXPECT_EQ("application/grpc", headers["content-type"]);
  EXPECT_EQ("trailers", headers["te"]);
  EXPECT_EQ("system", headers["containerd-namespace"]);
  EXPECT_EQ("10000m", headers["grpc-timeout"]);
}

// Catches: a status that is lost or of another kind; an answer that is accepted although its status
// is an error.
TEST_F(GrpcClientTest, StatusesAreErrors) {
  server.methods["/a.B/Missing"] = [](auto& x) { x.finish(5, "image \"x\": not found"); };
  server.methods["/a.B/Late"] = [](auto& x) {
    if (!x.ended) return;
    x.send("half");
    x.finish(13, "disk full");
  };
  server.methods["/a.B/Nothing"] = [](auto& x) { x.finish(); };
  server.methods["/a.B/Twice"] = [](auto& x) {
    if (!x.ended) return;
    x.send("1");
    x.send("2");
    x.finish();
  };
  EXPECT_EQ("NotFound: image \"x\": not found", failure(ask("/a.B/Missing", "")));
  EXPECT_EQ("Internal: disk full", failure(ask("/a.B/Late", "")));
  EXPECT_EQ("Internal: model has ended /a.B/Nothing without an answer",
            failure(ask("/a.B/Nothing", "")));
  EXPECT_EQ("Internal: model has answered /a.B/Twice twice", failure(ask("/a.B/Twice", "")));
  EXPECT_EQ("Unimplemented: unknown method", failure(ask("/a.B/Other", "")));
}

// Catches: a call that waits for ever; a call that continues at the server after the client dropped
// it.
TEST_F(GrpcClientTest, DeadlinesAndDroppedCallsEndAtTheServerToo) {
  server.methods["/a.B/Never"] = [](auto&) {};
  auto waiting = ask("/a.B/Never", "", 3 * kj::SECONDS);
  advance(timer, scope, 2 * kj::SECONDS);
  EXPECT_FALSE(waiting.poll(scope));
  advance(timer, scope, 2 * kj::SECONDS);
  EXPECT_EQ("DeadlineExceeded: model has not answered /a.B/Never in time",
            failure(kj::mv(waiting)));
  scope.poll();
  EXPECT_THAT(server.cancelled, ElementsAre(1));
  {
    auto dropped = open("/a.B/Never");
    scope.poll();
  }
  scope.poll();
  EXPECT_THAT(server.cancelled, ElementsAre(1, 3));
}

// Catches: a call past its deadline that continues at the server as long as the client holds it; a
// call whose deadline applies separately to the connection and to the answer.
TEST_F(GrpcClientTest, ADeadlineIsOfAllOfACall) {
  server.methods["/a.B/Never"] = [](auto&) {};
  auto held = open("/a.B/Never", 3 * kj::SECONDS);
  auto reading = held->read();
  advance(timer, scope, 4 * kj::SECONDS);
  EXPECT_THAT(failure(kj::mv(reading)), HasSubstr("DeadlineExceeded"));
  scope.poll();
  EXPECT_THAT(server.cancelled, ElementsAre(1));
  server.drop();
  scope.poll();
  dialling = 2 * kj::SECONDS;
  auto late = ask("/a.B/Never", "", 3 * kj::SECONDS);
  advance(timer, scope, 3100 * kj::MILLISECONDS);
  EXPECT_TRUE(late.poll(scope));
  EXPECT_THAT(failure(kj::mv(late)), HasSubstr("DeadlineExceeded"));
}

// Catches: a truncated answer that counts; a refusal by a temporarily unavailable server that looks
// as if the call had been carried out; a text as long as the server likes.
TEST_F(GrpcClientTest, EndsThatAreNone) {
  auto headers = [](const char* http, const std::string& status, uint8_t flags) {
    Fields fields = {{":status", http}, {"content-type", "application/grpc"}};
    if (!status.empty()) fields.push_back({"grpc-status", status});
    return headersFrame(1, fields, kEndHeaders | flags);
  };
  auto reset = [](uint32_t code) { return h2Frame(NGHTTP2_RST_STREAM, 0, 1, bigEndian(code, 4)); };
  EXPECT_EQ("Internal: model has truncated its answer to /a.B/C",
            said(headers("200", "", 0) + dataFrame(1, std::string("\0\0\0\0\5ab", 7), 0) +
                 headersFrame(1, {{"grpc-status", "0"}}, kEndHeaders | kEndStream)));
  EXPECT_THAT(said(reset(NGHTTP2_INTERNAL_ERROR)), HasSubstr("without a status"));
  EXPECT_THAT(said(reset(NGHTTP2_REFUSED_STREAM)), HasSubstr("Unavailable: model has ended"));
  std::string text(12'000, 'x');  // a frame has at most 16 KiB
  auto fields = Fields{{":status", "200"}, {"grpc-status", "13"}, {"grpc-message", text}};
  EXPECT_EQ(said(headersFrame(1, fields, kEndHeaders | kEndStream)).size(),
            kMostStatus + strlen("Internal: "));
  EXPECT_EQ("Internal: model has answered /a.B/C with HTTP status 404",
            said(headers("404", "", kEndStream)));
  EXPECT_THAT(said(headers("503", "", kEndStream)), HasSubstr("Unavailable: "));
}

// Catches: messages of a stream that wait for its end, writes after the first that are lost.
TEST_F(GrpcClientTest, StreamsInBothDirections) {
  server.methods["/a.B/Each"] = [](auto& x) {
    while (!x.messages.empty()) {
      x.send("re " + x.messages.front());
      x.messages.pop_front();
    }
    if (x.ended) x.finish();
  };
  auto call = open("/a.B/Each");
  call->write(bytes("a")).wait(scope);
  EXPECT_EQ("re a", next(*call));
  call->write(bytes("b")).wait(scope);
  EXPECT_EQ("re b", next(*call));
  call->endOfMessages();
  EXPECT_EQ("(end)", next(*call));
  EXPECT_THAT(server.cancelled, IsEmpty()) << "it had ended by itself";
}

// Catches: a message that is longer than a window stops for ever, in either direction.
TEST_F(GrpcClientTest, LongMessages) {
  server.methods["/a.B/Echo"] = [](auto& x) {
    if (!x.ended) return;
    x.send(x.messages.front());
    x.finish();
  };
  std::string message(5 << 20, 'x');
  EXPECT_EQ(message.size(), ask("/a.B/Echo", message).wait(scope).size());
}

// Catches: a slow reader that makes this process grow, or stops other calls; a reader that
// continues and gets nothing more.
TEST_F(GrpcClientTest, AStreamThatNobodyReadsIsStopped) {
  server.methods["/a.B/Flood"] = [](auto& x) {
    if (!x.ended) return;
    for (int i = 0; i < 64; ++i) x.send(std::string(100'000, 'f'));
    x.finish();
  };
  server.methods["/a.B/Echo"] = [](auto& x) {
    if (!x.ended) return;
    x.send(x.messages.front());
    x.finish();
  };
  auto flood = open("/a.B/Flood");
  flood->endOfMessages();
  scope.poll();
  EXPECT_EQ("other", ask("/a.B/Echo", "other").wait(scope));
  size_t came = server.exchanges.begin()->second.taken();
  EXPECT_LT(came, 2u << 20);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(100'000, next(*flood).size());
  EXPECT_EQ("(end)", next(*flood));
}

// Catches: a call that is silently made twice; a call that hangs when its server has gone; a client
// that does not connect again.
TEST_F(GrpcClientTest, ALostConnectionEndsItsCallsAndTheNextOneDials) {
  server.methods["/a.B/Never"] = [](auto&) {};
  server.methods["/a.B/Echo"] = [](auto& x) {
    if (!x.ended) return;
    x.send(x.messages.front());
    x.finish();
  };
  auto first = ask("/a.B/Never", ""), second = ask("/a.B/Never", "");
  scope.poll();
  server.drop();
  EXPECT_EQ("Unavailable: the connection to model was lost: closed", failure(kj::mv(first)));
  EXPECT_EQ("Unavailable: the connection to model was lost: closed", failure(kj::mv(second)));
  EXPECT_EQ("again", ask("/a.B/Echo", "again").wait(scope));
  EXPECT_EQ(2, server.dialled);
  server.drop();
  scope.poll();
  refuses = true;
  EXPECT_EQ("Unavailable: connection refused", failure(ask("/a.B/Echo", "")));
  refuses = false;
  EXPECT_EQ("there", ask("/a.B/Echo", "there").wait(scope));
}

// Catches: a server that died silently and still gets calls; an idle server that is taken for dead;
// unneeded pings.
TEST_F(GrpcClientTest, ASilentServerIsPingedAndThenGivenUp) {
  server.methods["/a.B/Never"] = [](auto&) {};
  Client client{timer,
                kj::str("model"),
                [this]() -> kj::Promise<kj::Own<kj::AsyncIoStream>> { return server.dial(); },
                {.silence = 12 * kj::SECONDS}};
  auto open = [&](kj::Maybe<kj::Duration> deadline) {
    return client.open("/a.B/Never", nullptr, deadline).wait(scope);
  };
  {
    auto watch = open(nullptr);
    auto reading = watch->read();
    advance(timer, scope, 5 * kj::SECONDS);
    EXPECT_EQ(0, server.pings);
    advance(timer, scope, 60 * kj::SECONDS);
    EXPECT_FALSE(reading.poll(scope)) << "it answers pings";
    EXPECT_EQ(10, server.pings);
    server.deaf = true;
    advance(timer, scope, 13 * kj::SECONDS);
    EXPECT_TRUE(reading.poll(scope));
    EXPECT_EQ("Unavailable: the connection to model was lost: no answer to a ping within 6 s",
              failure(kj::mv(reading)));
  }
  server.deaf = false;
  {
    auto watch = open(nullptr);
    auto reading = watch->read();
    advance(timer, scope, 4 * kj::SECONDS);
    server.deaf = true;
    auto hasty = open(1 * kj::SECONDS);
    auto late = hasty->read();
    advance(timer, scope, 4 * kj::SECONDS);
    EXPECT_FALSE(reading.poll(scope)) << "it was pinged 3 s ago";
    advance(timer, scope, 4 * kj::SECONDS);
    EXPECT_TRUE(reading.poll(scope));
  }
  server.deaf = false;
  auto hasty = open(1 * kj::SECONDS);
  auto late = hasty->read();
  EXPECT_EQ(3, server.dialled);
  server.deaf = true;
  advance(timer, scope, 2 * kj::SECONDS);
  EXPECT_THAT(failure(kj::mv(late)), HasSubstr("DeadlineExceeded"));
  advance(timer, scope, 6 * kj::SECONDS);  // no call is open, but one was over its deadline
  server.deaf = false;
  open(nullptr);
  EXPECT_EQ(4, server.dialled);
  auto pings = server.pings;
  advance(timer, scope, 60 * kj::SECONDS);
  EXPECT_EQ(pings, server.pings) << "nothing is waited for";
}

// Catches: a server's garbage that is not the end of the connection; more calls than the limit.
TEST_F(GrpcClientTest, GarbageOfAServerEndsTheConnection) {
  auto pipe = kj::newTwoWayPipe();
  auto session = kj::refcounted<ClientSession>(timer, kj::str("model"), kj::mv(pipe.ends[1]));
  auto call = session->open("/a.B/C", nullptr, nullptr);
  auto drained = pipe.ends[0]->readAllBytes().eagerlyEvaluate(
      [](kj::Exception&&) -> kj::Array<kj::byte> { return nullptr; });
  pipe.ends[0]->write("HTTP/1.1 400 Bad Request\r\n\r\n", 28).wait(scope);
  EXPECT_THAT(failure(call->read()), HasSubstr("Unavailable: the connection to model was lost: "));
  EXPECT_FALSE(session->usable());

  server.methods["/a.B/Never"] = [](auto&) {};
  kj::Vector<kj::Own<Call>> calls;
  for (unsigned i = 0; i < kMostCalls; ++i) calls.add(open("/a.B/Never"));
  EXPECT_EQ("ResourceExhausted: 512 calls to model are open, which is the limit",
            failure(client.open("/a.B/Never", nullptr, nullptr)));
  calls.clear();
  EXPECT_EQ("none", failure(client.open("/a.B/Never", nullptr, nullptr)));
}

}  // namespace
}  // namespace talos::grpc
