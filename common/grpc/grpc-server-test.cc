#include "common/grpc/grpc-server.h"

#include <gmock/gmock.h>

#include "common/grpc/grpc-client.h"
#include "common/grpc/test-server-session.h"

namespace talos::grpc {
namespace {

using namespace testing;
using ::testing::HasSubstr;

class GrpcServerTest : public SessionTest {
 public:
  ~GrpcServerTest() noexcept override {}

 protected:
  Client client{timer, kj::str("server"),
                [this]() -> kj::Promise<kj::Own<kj::AsyncIoStream>> { return connect(); }};

  std::string ask(kj::StringPtr path, const std::string& message,
                  kj::ArrayPtr<const Metadata> metadata = nullptr) {
    return outcome(client.unary(path, metadata, 10 * kj::SECONDS, bytes(message)));
  }
  // Returns the answer, or "Kind: message".
  std::string outcome(kj::Promise<kj::Array<kj::byte>> promise) {
    return waitFor(promise.then([](kj::Array<kj::byte> answer) { return textOf(answer); },
                                [](kj::Exception&& e) {
                                  return std::string(
                                      kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr());
                                }));
  }
  std::string next(Call& call) {
    auto message = waitFor(call.read());
    return message == nullptr ? "(end)" : textOf(KJ_ASSERT_NONNULL(message));
  }
};

// Catches: a header that does not reach the handler; values of a header in another order; an empty
// message that is dropped; an answer without the headers that clients check.
TEST_F(GrpcServerTest, AsksAndIsAnswered) {
  methods.table["/a.B/Echo"] = echo;
  methods.table["/a.B/Nodes"] = [](GrpcCall& call) -> kj::Promise<GrpcStatus> {
    auto nodes = kj::strArray(call.metadata("nodes"), ",");
    auto none = call.metadata("node").size();
    co_await call.send(bytes(kj::str(nodes, " ", none).cStr()));
    co_return GrpcStatus();
  };
  EXPECT_EQ(ask("/a.B/Echo", "hello"), "hello");
  EXPECT_EQ(ask("/a.B/Echo", ""), "");
  Metadata nodes[] = {{"nodes", "10.0.0.3"}, {"nodes", "10.0.0.2"}};
  EXPECT_EQ(ask("/a.B/Nodes", "", nodes), "10.0.0.3,10.0.0.2 0");
  auto by = rawClient(call(1, "/a.B/Echo", "x"));
  EXPECT_EQ(by->fields[1][":status"], "200");
  EXPECT_EQ(by->fields[1]["content-type"], "application/grpc");
  EXPECT_EQ(by->data[1], grpcMessage("x"));
  EXPECT_EQ(by->status(1), "0");
  EXPECT_EQ(by->reset(1), -1) << "it had said everything";
}

// Catches: a status that is lost, a text that is not ASCII, an exception that ends the connection,
// an error that takes two frames where clients look for one.
TEST_F(GrpcServerTest, StatusesArrive) {
  methods.table["/a.B/Missing"] = [](GrpcCall&) -> kj::Promise<GrpcStatus> {
    return GrpcStatus{5, kj::str("60 % of \"größe\" is not there")};
  };
  methods.table["/a.B/Throws"] = [](GrpcCall&) -> kj::Promise<GrpcStatus> {
    fail(ErrorKind::kConflict, "was changed");
  };
  methods.table["/a.B/Late"] = [](GrpcCall& call) -> kj::Promise<GrpcStatus> {
    co_await call.send(bytes("half"));
    fail(ErrorKind::kInternal, "disk full");
  };
  methods.table["/a.B/Long"] = [](GrpcCall&) -> kj::Promise<GrpcStatus> {
    return GrpcStatus{3, kj::str(kj::repeat('x', 100'000))};
  };
  EXPECT_EQ(ask("/a.B/Missing", ""), "NotFound: 60 % of \"größe\" is not there");
  EXPECT_EQ(ask("/a.B/Throws", ""), "FailedPrecondition: was changed");
  EXPECT_EQ(ask("/a.B/Late", ""), "Internal: disk full");
  EXPECT_EQ(ask("/a.B/Other", ""), "Unimplemented: unknown method");
  EXPECT_EQ(ask("/a.B/Long", "").size(), strlen("InvalidArgument: ") + 8192);
  auto by = rawClient(call(1, "/a.B/Missing"));
  EXPECT_EQ(by->count(NGHTTP2_HEADERS), 1u);
  EXPECT_EQ(by->data.count(1), 0u);
}

// Catches: a stream that sends nothing until its first message; a stream that is not ended;
// messages that wait for each other.
TEST_F(GrpcServerTest, StreamsInBothDirections) {
  methods.table["/a.B/Echo"] = echo;
  methods.table["/a.B/Watch"] = [](GrpcCall& call) -> kj::Promise<GrpcStatus> {
    call.begin();
    return kj::NEVER_DONE;
  };
  auto by = rawClient(call(1, "/a.B/Watch"));
  EXPECT_EQ(by->fields[1][":status"], "200");
  EXPECT_EQ(by->status(1), "");
  auto echoing = client.open("/a.B/Echo", nullptr, nullptr).wait(scope);
  echoing->write(bytes("a")).wait(scope);
  EXPECT_EQ(next(*echoing), "a");
  echoing->write(bytes("b")).wait(scope);
  EXPECT_EQ(next(*echoing), "b");
  echoing->endOfMessages();
  EXPECT_EQ(next(*echoing), "(end)");
}

// Catches: a handler that continues for a client that has disconnected, or has cancelled the call.
TEST_F(GrpcServerTest, CancelledCallsAreDropped) {
  methods.table["/a.B/Never"] = never;
  {
    auto call = client.open("/a.B/Never", nullptr, nullptr).wait(scope);
    scope.poll();
    EXPECT_EQ(methods.running, 1u);
  }
  scope.poll();
  EXPECT_EQ(methods.running, 0u);
  auto by = rawClient(call(1, "/a.B/Never") + call(3, "/a.B/Never"));
  EXPECT_EQ(methods.running, 2u);
  by->disconnect();
  scope.poll();
  EXPECT_EQ(methods.running, 0u);
  EXPECT_EQ(error, "");
}

// Catches: a deadline that only the client enforces; a deadline of another unit; a deadline that
// waits for a client that does not read.
TEST_F(GrpcServerTest, TheServerKeepsDeadlines) {
  methods.table["/a.B/Never"] = never;
  methods.table["/a.B/Begun"] = [](GrpcCall& call) -> kj::Promise<GrpcStatus> {
    call.begin();
    return kj::NEVER_DONE;
  };
  methods.table["/a.B/Flood"] = [](GrpcCall& call) -> kj::Promise<GrpcStatus> {
    for (;;) co_await call.send(kj::heapArray<kj::byte>(100'000));
  };
  auto timed = [](int32_t stream, const char* path, const char* timeout) {
    return headersFrame(stream, request(path, {{"grpc-timeout", timeout}}),
                        kEndHeaders | kEndStream);
  };
  auto by = rawClient(timed(1, "/a.B/Never", "2S") + timed(3, "/a.B/Begun", "3000m") +
                      timed(5, "/a.B/Flood", "4000000u") + timed(7, "/a.B/Never", "1H"));
  advance(timer, scope, 1900 * kj::MILLISECONDS);
  EXPECT_EQ(by->status(1), "");
  advance(timer, scope, 200 * kj::MILLISECONDS);
  EXPECT_EQ(by->status(1), "4: no answer within the time of the call");
  EXPECT_EQ(by->status(3), "");
  advance(timer, scope, 1 * kj::SECONDS);
  EXPECT_EQ(by->status(3), "4: no answer within the time of the call");
  EXPECT_EQ(by->reset(5), -1);
  advance(timer, scope, 1 * kj::SECONDS);
  EXPECT_EQ(by->reset(5), NGHTTP2_CANCEL) << "a message was sent in part";
  EXPECT_EQ(methods.running, 1u);
  EXPECT_EQ(error, "(open)");
}

// Catches: a handler that learns of the deadline when it is too late to answer, much too early, or
// although the call has no deadline.
TEST_F(GrpcServerTest, ADeadlineIsNear) {
  methods.table["/a.B/SoFar"] = [](GrpcCall& call) -> kj::Promise<GrpcStatus> {
    co_await call.nearDeadline();
    co_return GrpcStatus{0, kj::str()};
  };
  auto timed = [](int32_t stream, const char* timeout) {
    return headersFrame(stream, request("/a.B/SoFar", {{"grpc-timeout", timeout}}),
                        kEndHeaders | kEndStream);
  };
  auto by = rawClient(timed(1, "2S") + timed(3, "30S") + call(5, "/a.B/SoFar"));
  advance(timer, scope, 1790 * kj::MILLISECONDS);
  EXPECT_EQ(by->status(1), "");
  advance(timer, scope, 20 * kj::MILLISECONDS);
  EXPECT_EQ(by->status(1), "0");
  advance(timer, scope, 27 * kj::SECONDS);
  EXPECT_EQ(by->status(3), "");
  advance(timer, scope, 300 * kj::MILLISECONDS);
  EXPECT_EQ(by->status(3), "0");
  advance(timer, scope, 1000 * kj::SECONDS);
  EXPECT_EQ(by->status(5), "");
}

// Catches: a message that is longer than a window stops for ever, in either direction.
TEST_F(GrpcServerTest, LongMessages) {
  methods.table["/a.B/Echo"] = echo;
  std::string message(5 << 20, 'x');
  EXPECT_EQ(ask("/a.B/Echo", message).size(), message.size());
}

// Catches: a request of many messages that stalls after more than a window; a request that is
// received completely before the handler requests it.
TEST_F(GrpcServerTest, HandlersTakeARequestAtTheirPace) {
  unsigned taken = 0, sent = 0;
  auto gate = kj::newPromiseAndFulfiller<void>();
  methods.table["/a.B/Take"] = [&](GrpcCall& call) -> kj::Promise<GrpcStatus> {
    co_await gate.promise;
    while (co_await call.receive() != nullptr) ++taken;
    co_return GrpcStatus();
  };
  auto call = client.open("/a.B/Take", nullptr, nullptr).wait(scope);
  auto writing = [](Call& call, unsigned& sent) -> kj::Promise<void> {
    for (; sent < 200; ++sent) co_await call.write(bytes(std::string(16'000, 'x')));
    call.endOfMessages();
  }(*call, sent);
  settle();
  EXPECT_FALSE(writing.poll(scope));
  EXPECT_LT(sent, 20u);
  gate.fulfiller->fulfill();
  EXPECT_EQ(next(*call), "(end)");
  EXPECT_EQ(taken, 200u);
}

// Catches: a client that does not read and makes the server grow, stops other calls, or gets
// nothing more once it reads.
TEST_F(GrpcServerTest, SendersWaitForReaders) {
  unsigned sent = 0;
  methods.table["/a.B/Flood"] = [&](GrpcCall& call) -> kj::Promise<GrpcStatus> {
    for (; sent < 64; ++sent) co_await call.send(kj::heapArray<kj::byte>(100'000));
    co_return GrpcStatus();
  };
  methods.table["/a.B/Echo"] = echo;
  auto flood = client.open("/a.B/Flood", nullptr, nullptr).wait(scope);
  flood->endOfMessages();
  scope.poll();
  EXPECT_LT(sent, 24u);
  EXPECT_EQ(ask("/a.B/Echo", "other"), "other");
  for (int i = 0; i < 64; ++i) EXPECT_EQ(next(*flood).size(), 100'000u);
  EXPECT_EQ(next(*flood), "(end)");
}

// Catches: many calls that each have little waiting and together exhaust the memory; a handler that
// gets no error.
TEST_F(GrpcServerTest, AnswersThatNobodyReadsAreBounded) {
  limits.mostQueued = 1u << 20;
  methods.table["/a.B/Big"] = [](GrpcCall& call) -> kj::Promise<GrpcStatus> {
    co_await call.send(kj::heapArray<kj::byte>(400'000));
    co_return GrpcStatus();
  };
  auto by = rawClient(h2Frame(NGHTTP2_SETTINGS, 0, 0, std::string("\0\4\0\0\0\0", 6)) +
                      call(1, "/a.B/Big") + call(3, "/a.B/Big") + call(5, "/a.B/Big"));
  EXPECT_EQ(by->status(1), "");
  EXPECT_EQ(
      by->status(5),
      "8: the client does not read: 800138 bytes of answers wait to be sent; at most 1048576");
  EXPECT_EQ(methods.running, 2u);
  // Once the client reads there is room again.
  send(*by, h2Frame(NGHTTP2_WINDOW_UPDATE, 0, 0, bigEndian(1 << 24, 4)) +
                h2Frame(NGHTTP2_WINDOW_UPDATE, 0, 1, bigEndian(1 << 24, 4)) +
                h2Frame(NGHTTP2_WINDOW_UPDATE, 0, 3, bigEndian(1 << 24, 4)));
  EXPECT_EQ(by->data[1].size() + by->data[3].size(), 800'010u);
  send(*by, call(7, "/a.B/Big") + h2Frame(NGHTTP2_WINDOW_UPDATE, 0, 7, bigEndian(1 << 24, 4)));
  EXPECT_EQ(by->status(7), "0");
}

// Catches: a request that is not a gRPC call and reaches the handler, or ends the connection of
// others.
TEST_F(GrpcServerTest, InvalidRequestsAreRefusedWithoutTheHandler) {
  methods.table["/a.B/Echo"] = echo;
  methods.table["/a.B/Never"] = never;
  auto with = [](const Fields& more) {
    return headersFrame(1, request("/a.B/Echo", more), kEndHeaders | kEndStream);
  };
  auto changed = [](const char* name, const char* value) {
    auto fields = request("/a.B/Echo");
    for (auto& f : fields) {
      if (f.first == name) f.second = value;
    }
    return headersFrame(1, fields, kEndHeaders | kEndStream);
  };
  auto message = [](const std::string& bytes) {
    return headersFrame(1, request("/a.B/Never")) + dataFrame(1, bytes);
  };
  struct Row {
    const char* name;
    std::string bytes;
    const char *http, *status;
  };
  Row rows[] = {
      {"another type", changed("content-type", "text/html"), "415",
       "3: content-type: \"text/html\" is not a type of gRPC; use application/grpc"},
      {"a longer name", changed("content-type", "application/grpcx"), "415", "3: content-type"},
      {"a web page", changed(":method", "GET"), "405", "12: the HTTP method of gRPC calls is POST"},
      {"an encoding", with({{"grpc-encoding", "gzip"}}), "200",
       "12: grpc-encoding: \"gzip\" is not supported; use \"identity\""},
      {"no encoding", with({{"grpc-encoding", "identity"}}), "200", "0"},
      {"a subtype", changed("content-type", "application/grpc+proto"), "200", "0"},
      {"no time", with({{"grpc-timeout", "5"}}), "200", "3: grpc-timeout: \"5\" is not a time"},
      {"a long time", with({{"grpc-timeout", "123456789S"}}), "200", "3: grpc-timeout"},
      {"years", with({{"grpc-timeout", "99999999H"}}), "200", "0"},
      {"long headers", with({{"x", std::string(40'000, 'x')}}), "200",
       "8: the headers of the call are "},
      {"compressed", message(std::string("\1\0\0\0\1x", 6)), "200",
       "3: a message is compressed, which is not supported"},
      {"a gibibyte", message(std::string("\0\x40\0\0\0", 5)), "200",
       "8: a message has 1073741824 bytes; at most 8388608 are accepted"},
      {"cut", message(std::string("\0\0\0\0\5abc", 8)), "200",
       "3: the request ends within a message"},
      {"cut in its header", message(std::string("\0\0", 2)), "200",
       "3: the request ends within a message"},
  };
  for (auto& row : rows) {
    std::string frames = row.bytes;
    if (frames.size() > 16'384) {  // more than a frame may have
      auto block = frames.substr(9);
      frames = h2Frame(NGHTTP2_HEADERS, kEndStream, 1, block.substr(0, 16'000)) +
               h2Frame(NGHTTP2_CONTINUATION, 0, 1, block.substr(16'000, 16'000)) +
               h2Frame(NGHTTP2_CONTINUATION, kEndHeaders, 1, block.substr(32'000));
    }
    auto by = rawClient(frames + call(3, "/a.B/Echo", "other"));
    EXPECT_EQ(by->fields[1][":status"], row.http) << row.name;
    EXPECT_EQ(by->status(1).substr(0, strlen(row.status)), row.status) << row.name;
    EXPECT_EQ(by->data[3], grpcMessage("other")) << row.name;
    EXPECT_EQ(methods.running, 0u) << row.name;
    EXPECT_EQ(error, "(open)") << row.name;
  }
}

// Catches: many calls of which each announces as much as one may.
TEST_F(GrpcServerTest, RequestsTogetherAreBounded) {
  methods.table["/a.B/Never"] = never;
  methods.table["/a.B/Echo"] = echo;
  std::string all;
  for (int i = 0; i < 4; ++i) {
    all += headersFrame(2 * i + 1, request("/a.B/Never")) +
           dataFrame(2 * i + 1, std::string("\0\0\x7f\xff\xff", 5), 0);
  }
  auto by = rawClient(all);
  EXPECT_EQ(by->status(3), "");
  EXPECT_EQ(by->status(5), "8: the requests on this connection are more than 16777216 bytes");
  EXPECT_EQ(methods.running, 2u);
  send(*by, h2Frame(NGHTTP2_RST_STREAM, 0, 1, bigEndian(NGHTTP2_CANCEL, 4)) +
                call(9, "/a.B/Echo", std::string(10'000, 'x')));
  EXPECT_EQ(by->status(9), "0") << "what is reset makes room";
}

// Catches: a message that is begun and kept for ever; a message that is ended because its handler
// is slow, or because it is large.
TEST_F(GrpcServerTest, AMessageThatHasBegunGoesOn) {
  methods.table["/a.B/Never"] = never;
  methods.table["/a.B/Echo"] = echo;
  auto header = std::string("\0\0\x10\0\0", 5);
  auto by = rawClient(headersFrame(1, request("/a.B/Echo")) + dataFrame(1, header, 0) +
                      headersFrame(3, request("/a.B/Echo")) + dataFrame(3, header, 0) +
                      headersFrame(5, request("/a.B/Never")) +
                      dataFrame(5, grpcMessage("whole") + header, 0));
  for (int i = 0; i < 8; ++i) {
    advance(timer, scope, 10 * kj::SECONDS);
    std::string part;
    for (int k = 0; k < 8; ++k) part += dataFrame(3, std::string(16'000, 'x'), 0);
    send(*by, part + dataFrame(1, "x", 0));
  }
  EXPECT_EQ(by->status(1), "4: a message of the request made no progress");
  EXPECT_EQ(by->status(3), "");
  EXPECT_EQ(by->status(5), "");
  EXPECT_EQ(methods.running, 2u);
}

// Catches: calls of a client's other connections that are not counted; a call that is still charged
// after its end.
TEST_F(GrpcServerTest, CallsCountAgainstTheAccount) {
  account = budget.account("somebody");
  methods.table["/a.B/Never"] = never;
  methods.table["/a.B/Echo"] = echo;
  auto of = kj::heap(account->hold(7u << 20));
  std::string all;
  for (int i = 0; i < 70; ++i) all += headersFrame(2 * i + 1, request("/a.B/Never"));
  auto by = rawClient(all);
  EXPECT_EQ(methods.running, 64u);  // of 16 KiB each
  EXPECT_THAT(by->status(129), HasSubstr("8: "));
  by->disconnect();
  scope.poll();
  EXPECT_EQ(methods.running, 0u);
  of = nullptr;
  auto large = rawClient(
      headersFrame(1, request("/a.B/Never")) + dataFrame(1, std::string("\0\0\x6f\xff\xff", 5), 0) +
      headersFrame(3, request("/a.B/Never")) + dataFrame(3, std::string("\0\0\x1f\xff\xff", 5), 0));
  EXPECT_THAT(large->status(3), HasSubstr("8: "));
  EXPECT_EQ(large->status(1), "");
  large->disconnect();
  scope.poll();
  EXPECT_EQ(ask("/a.B/Echo", "small"), "small");
}

// Catches: a client with much waiting on many connections, also by the other protocol, of which it
// reads nothing: it may have its share of the waiting bytes, and loses the connection with most of
// them.
TEST_F(GrpcServerTest, QueuesCountAgainstTheAccount) {
  account = budget.account("somebody");
  methods.table["/a.B/Big"] = [](GrpcCall& call) -> kj::Promise<GrpcStatus> {
    co_await call.send(kj::heapArray<kj::byte>(5u << 20));
    co_return GrpcStatus();
  };
  methods.table["/a.B/Echo"] = echo;
  struct Shorter final : Budget::Queue {
    size_t queued() const override { return 7u << 19; }
    void cutOff() override { ADD_FAILURE() << "another queue is longer"; }
  } shorter;
  account->add(shorter);
  KJ_DEFER(account->remove(shorter));
  auto by = rawClient(h2Frame(NGHTTP2_SETTINGS, 0, 0, std::string("\0\4\0\0\0\0", 6)) +
                      call(1, "/a.B/Big"));
  EXPECT_EQ(error, "(open)");
  std::string much;  // it is looked at once in so many bytes
  for (int i = 0; i < 80; ++i) much += dataFrame(7, std::string(16'000, 'x'), 0);
  send(*by, headersFrame(7, request("/a.B/Echo")) +
                dataFrame(7, std::string("\0\0\x1f\0\0", 5), 0) + much);
  EXPECT_EQ(by->goaway(), NGHTTP2_ENHANCE_YOUR_CALM);
  by->disconnect();
  scope.poll();
  EXPECT_EQ(error, "the client reads its answers too slowly");
  EXPECT_EQ(methods.running, 0u);
}

// Catches: a shutdown that cuts off calls being answered; a client that gets no GOAWAY; a server
// that waits for ever for a client that stays.
TEST_F(GrpcServerTest, StopsInOrder) {
  auto gate = kj::newPromiseAndFulfiller<void>();
  methods.table["/a.B/Slow"] = [&](GrpcCall& call) -> kj::Promise<GrpcStatus> {
    co_await gate.promise;
    co_await call.send(bytes("done"));
    co_return GrpcStatus();
  };
  methods.table["/a.B/Echo"] = echo;
  auto by = rawClient(call(1, "/a.B/Slow"));
  stop->fulfill();
  scope.poll();
  EXPECT_EQ(by->goaway(), NGHTTP2_NO_ERROR);
  EXPECT_EQ(by->frames.back().type, NGHTTP2_PING);
  // Calls on their way are answered; later ones are not started.
  send(*by, call(3, "/a.B/Echo", "late") + h2Frame(NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, "12345678"));
  EXPECT_EQ(by->data[3], grpcMessage("late"));
  EXPECT_EQ(by->count(NGHTTP2_GOAWAY), 2u);
  send(*by, call(5, "/a.B/Echo", "too late"));
  EXPECT_EQ(by->data.count(5), 0u);
  EXPECT_FALSE(by->ended);
  gate.fulfiller->fulfill();
  scope.poll();
  EXPECT_EQ(by->data[1], grpcMessage("done"));
  EXPECT_EQ(by->status(1), "0");
  EXPECT_TRUE(by->ended);
  EXPECT_EQ(error, "(open)");
  by->disconnect();
  scope.poll();
  EXPECT_EQ(error, "");
}

// Catches: an end that waits although the last call was given up.
TEST_F(GrpcServerTest, StopsWhenTheLastCallIsGivenUp) {
  methods.table["/a.B/Never"] = never;
  auto by = rawClient(call(1, "/a.B/Never"));
  stop->fulfill();
  scope.poll();
  send(*by, h2Frame(NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, "12345678"));
  EXPECT_FALSE(by->ended);
  send(*by, h2Frame(NGHTTP2_RST_STREAM, 0, 1, bigEndian(NGHTTP2_CANCEL, 4)));
  EXPECT_TRUE(by->ended);
}

// Catches: a client that answers no PING and holds up the end.
TEST_F(GrpcServerTest, StopsWithoutAnAnswer) {
  auto by = rawClient("");
  stop->fulfill();
  advance(timer, scope, 1100 * kj::MILLISECONDS);
  EXPECT_EQ(by->count(NGHTTP2_GOAWAY), 2u);
  EXPECT_TRUE(by->ended);
}

}  // namespace
}  // namespace talos::grpc
