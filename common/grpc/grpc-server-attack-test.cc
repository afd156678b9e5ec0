// Attacks of a client on the session, within the rules of HTTP/2 or beyond them: each ends with an
// error, costs a bounded number of handlers and frames, and an honest connection beside it is
// answered.
#include <gmock/gmock.h>
#include <malloc.h>

#include "common/grpc/h2-frame-budget.h"
#include "common/grpc/test-server-session.h"

namespace talos::grpc {
namespace {

using namespace testing;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int kCalm = NGHTTP2_ENHANCE_YOUR_CALM, kProtocol = NGHTTP2_PROTOCOL_ERROR;
constexpr auto kNoData = "the client sends too many frames without data";

std::string ping() {
  return h2Frame(NGHTTP2_PING, 0, 0, "12345678");
}
std::string credit(int32_t stream, uint32_t bytes) {
  return h2Frame(NGHTTP2_WINDOW_UPDATE, 0, stream, bigEndian(bytes, 4));
}
std::string reset(int32_t stream) {
  return h2Frame(NGHTTP2_RST_STREAM, 0, stream, bigEndian(NGHTTP2_CANCEL, 4));
}

class GrpcServerAttackTest : public SessionTest {
 public:
  ~GrpcServerAttackTest() noexcept override {}

 protected:
  void SetUp() override {
    methods.table["/a.B/Never"] = never;
    methods.table["/a.B/Echo"] = echo;
  }
};

// Catches: a flood that the server answers as long as it lasts; a flood that ends without an error;
// a handler for each stream of a flood.
TEST_F(GrpcServerAttackTest, FloodsEndTheConnectionWithAnError) {
  using Part = std::string (*)(int);
  struct Row {
    const char* name;
    std::string first;
    Part part;
    int goaway;
    const char* error;
    unsigned handlers;  // at most
  };
  auto open = headersFrame(1, request("/a.B/Never"));
  Row rows[] = {
      {"rapid reset", "",
       [](int i) { return headersFrame(2 * i + 1, request("/a.B/Never")) + reset(2 * i + 1); },
       kCalm, kNoData, 1100},
      {"streams that the server has to reset", "",
       [](int i) {
         return headersFrame(2 * i + 1, request("/a.B/Never")) + credit(2 * i + 1, 0x7fffffff);
       },
       kCalm, kNoData, 1100},
      {"more streams than may be open", "",
       [](int i) { return headersFrame(2 * i + 1, request("/a.B/Never")); }, kCalm, kNoData, 1024},
      {"PING", "", [](int) { return ping(); }, kCalm, kNoData, 0},
      {"SETTINGS", "", [](int) { return settingsFrame(); }, kCalm, kNoData, 0},
      {"acknowledged SETTINGS", "", [](int) { return settingsFrame(NGHTTP2_FLAG_ACK); }, kProtocol,
       "not valid HTTP/2: PROTOCOL_ERROR", 0},
      {"PRIORITY", "",
       [](int i) { return h2Frame(NGHTTP2_PRIORITY, 0, 2 * i + 1, std::string("\0\0\0\0\1", 5)); },
       kCalm, kNoData, 0},
      {"WINDOW_UPDATE", open, [](int) { return credit(0, 1); }, kCalm, kNoData, 1},
      {"empty DATA", open, [](int) { return dataFrame(1, "", 0); }, kCalm, kNoData, 1},
      {"DATA of a byte", open + dataFrame(1, std::string("\0\0\x10\0\0", 5), 0),
       [](int) { return dataFrame(1, "x", 0); }, kCalm, kNoData, 1},
      {"CONTINUATION", headersFrame(1, request("/a.B/Never"), 0),
       [](int) { return h2Frame(NGHTTP2_CONTINUATION, 0, 1, "\x82"); }, kProtocol,
       "not valid HTTP/2: Too many CONTINUATION frames following a HEADER frame", 0},
  };
  for (auto& row : rows) {
    methods.started = 0;
    auto by = rawClient(row.first);
    for (int i = 0; i < 10'000 && error == "(open)" && by->goaway() < 0; ++i) {
      send(*by, row.part(i));
    }
    EXPECT_EQ(by->goaway(), row.goaway) << row.name;
    EXPECT_LE(methods.started, row.handlers) << row.name;
    EXPECT_EQ(methods.running, 0u) << row.name;
    by->disconnect();
    scope.poll();
    EXPECT_EQ(error, row.error) << row.name;
    auto honest = rawClient(call(1, "/a.B/Echo", "x"));
    EXPECT_EQ(honest->status(1), "0") << row.name;
  }
}

// Catches: fewer calls that a client may open at once than it was offered.
TEST_F(GrpcServerAttackTest, AllOfferedCallsAtOnce) {
  std::string all;
  for (unsigned i = 0; i < limits.calls; ++i) {
    all += headersFrame(2 * i + 1, request("/a.B/Never"), kEndHeaders | kEndStream);
  }
  auto by = rawClient(all + ping());
  EXPECT_EQ(by->goaway(), -1);
  EXPECT_EQ(methods.running, limits.calls);
}

// Catches: an attacker that never reads, while the answers to its cheap requests accumulate.
TEST_F(GrpcServerAttackTest, FloodsOfAClientThatDoesNotRead) {
  auto pipe = kj::newOneWayPipe();
  auto nobody = kj::newOneWayPipe();
  struct Deaf final : kj::AsyncIoStream {  // sends what is piped in, and reads nothing
    kj::Own<kj::AsyncInputStream> in;
    explicit Deaf(kj::Own<kj::AsyncInputStream> in) : in(kj::mv(in)) {}
    kj::Promise<size_t> tryRead(void* buffer, size_t least, size_t most) override {
      return in->tryRead(buffer, least, most);
    }
    kj::Promise<void> write(const void*, size_t) override { return kj::NEVER_DONE; }
    kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>>) override {
      return kj::NEVER_DONE;
    }
    kj::Promise<void> whenWriteDisconnected() override { return kj::NEVER_DONE; }
    void shutdownWrite() override {}
  };
  std::string end = "(open)";
  auto serving =
      serveGrpc(timer, kj::heap<Deaf>(kj::mv(pipe.in)), methods, limits)
          .then([&](kj::Maybe<kj::String> text) { end = text.orDefault(kj::str()).cStr(); })
          .eagerlyEvaluate(nullptr);
  std::string all = hello();
  for (int i = 0; i < 6'000; ++i) all += call(2 * i + 1, "/a.B/Unknown");
  auto saying = pipe.out->write(all.data(), all.size()).eagerlyEvaluate([](kj::Exception&&) {});
  scope.poll();
  advance(timer, scope, 3 * kj::SECONDS);  // the client does not read its error
  EXPECT_EQ(end, kNoData);
}

// Catches: calls that are refused and stay with their headers, because their client does not read
// the refusal; messages of no bytes that cost nothing. Both count against the client's account.
TEST_F(GrpcServerAttackTest, RefusedCallsAreChargedUntilTheyAreRead) {
  account = budget.account("somebody");
  auto free = [&](size_t bytes) {
    return kj::runCatchingExceptions([&]() { account->hold(bytes); }) == nullptr;
  };
  auto pipe = kj::newTwoWayPipe();  // this end is never read
  auto serving =
      serveGrpc(timer, kj::mv(pipe.ends[0]), methods, limits, kj::NEVER_DONE, kj::addRef(*account))
          .ignoreResult()
          .eagerlyEvaluate(nullptr);
  auto fields = request("/a.B/Echo");
  for (auto& f : fields) {
    if (f.first == "content-type") f.second = "x";
  }
  std::string all = hello();
  for (int i = 0; i < 256; ++i) all += headersFrame(2 * i + 1, fields);
  auto saying = pipe.ends[1]->write(all.data(), all.size()).eagerlyEvaluate(nullptr);
  settle();
  EXPECT_TRUE(free(4u << 20));
  EXPECT_FALSE(free((4u << 20) + 1)) << "256 of 16 KiB";
  serving = nullptr;
  EXPECT_TRUE(free(8u << 20));
  std::string empty;
  for (int i = 0; i < 10'000; ++i) empty += std::string(5, '\0');
  std::string frames;
  for (size_t at = 0; at < empty.size(); at += 10'000) {
    frames += dataFrame(1, empty.substr(at, 10'000), 0);
  }
  auto by = rawClient(headersFrame(1, request("/a.B/Never")) + frames);
  EXPECT_EQ(methods.running, 1u);
  EXPECT_FALSE(free((8u << 20) - 10'000 * 64));
}

// Catches: a client that lets megabytes wait for ever, and shows that it is alive; a slow client
// that is mistaken for such a client.
TEST_F(GrpcServerAttackTest, AClientThatReadsNothingIsDisconnected) {
  methods.table["/a.B/Big"] = [](GrpcCall& call) -> kj::Promise<GrpcStatus> {
    co_await call.send(kj::heapArray<kj::byte>(4u << 20));
    co_return GrpcStatus();
  };
  auto asked = h2Frame(NGHTTP2_SETTINGS, 0, 0, std::string("\0\4\0\0\0\0", 6)) +
               call(1, "/a.B/Big") + call(3, "/a.B/Big") + call(5, "/a.B/Big");
  auto by = rawClient(asked);
  for (int i = 0; i < 10; ++i) {  // it takes little
    advance(timer, scope, 9 * kj::SECONDS);
    send(*by, credit(1, 1000));
  }
  EXPECT_EQ(by->goaway(), -1);
  for (int i = 0; i < 3; ++i) {
    send(*by, ping());
    advance(timer, scope, 9 * kj::SECONDS);
  }
  EXPECT_EQ(by->goaway(), kCalm);
  by->disconnect();
  settle();
  EXPECT_EQ(error, "the client does not read its answers");
  EXPECT_EQ(methods.running, 0u);
}

// Catches: answers that wait for a client and are charged only after a mebibyte was received,
// although small requests have large answers. A partly sent answer still occupies all of its
// memory.
TEST_F(GrpcServerAttackTest, QueuedAnswersAreCharged) {
  constexpr size_t kMiB = 1u << 20, kLimit = 8 * kMiB;
  account = budget.account("somebody");
  auto free = [&](size_t bytes) {
    return kj::runCatchingExceptions([&]() { account->hold(bytes); }) == nullptr;
  };
  methods.table["/a.B/Big"] = [](GrpcCall& call) -> kj::Promise<GrpcStatus> {
    co_await call.send(kj::heapArray<kj::byte>(3 * kMiB));
    co_return GrpcStatus();
  };
  auto by = rawClient(call(1, "/a.B/Big") + call(3, "/a.B/Big"));
  EXPECT_TRUE(free(2 * kMiB - 100'000));
  EXPECT_FALSE(free(2 * kMiB)) << "six mebibytes wait";
  send(*by, call(5, "/a.B/Big") + credit(0, 1u << 30));
  EXPECT_THAT(by->status(5), HasSubstr("8: the calls of this client use more than 8388608 bytes"));
  send(*by, credit(1, 3 * kMiB - 100'000));
  EXPECT_GT(by->data[1].size(), 2 * kMiB);
  EXPECT_FALSE(free(2 * kMiB)) << "nothing was freed yet";
  send(*by, credit(1, kMiB));
  EXPECT_EQ(by->status(1), "0");
  EXPECT_TRUE(free(5 * kMiB - 100'000));
  EXPECT_FALSE(free(5 * kMiB));
  send(*by, reset(3));
  EXPECT_TRUE(free(kLimit));
}

// Catches: headers that become large only when they are unpacked and are kept, or cost as much time
// as they have bytes then; a few too many that end the calls of others on the connection.
TEST_F(GrpcServerAttackTest, HeadersThatUnpackToMoreThanTheLimitAreRefused) {
  auto block = hpack(request("/a.B/Echo")) + hpack({{"x", std::string(4000, 'x')}}, true);
  auto times = [](unsigned n) { return std::string(n, '\xbe'); };  // 4 KB each
  auto by = rawClient(h2Frame(NGHTTP2_HEADERS, kEndHeaders | kEndStream, 1, block + times(10)) +
                      call(3, "/a.B/Echo", "other"));
  EXPECT_THAT(by->status(1), HasSubstr("8: the headers of the call are "));
  EXPECT_EQ(by->data[3], grpcMessage("other"));
  EXPECT_EQ(methods.started, 1u);
  auto before = mallinfo2().uordblks;
  send(*by, h2Frame(NGHTTP2_HEADERS, kEndStream, 5, block + times(20)));  // not complete
  EXPECT_LT(mallinfo2().uordblks, before + (60u << 10));
  EXPECT_EQ(by->goaway(), -1);
  send(*by, h2Frame(NGHTTP2_CONTINUATION, kEndHeaders, 5, times(12'000)));
  EXPECT_EQ(by->goaway(), kCalm);
  by->disconnect();
  scope.poll();
  EXPECT_EQ(error, "the headers of a call are more than 131072 bytes");
}

// Catches: header blocks that are counted only when they begin a call: trailers are unpacked and
// checked byte for byte as well, and repeat at will.
TEST_F(GrpcServerAttackTest, HpackBombInTrailers) {
  auto block = hpack({{"x", std::string(4000, 'x')}}, true);
  auto by = rawClient(headersFrame(1, request("/a.B/Never")));
  send(*by,
       h2Frame(NGHTTP2_HEADERS, kEndHeaders | kEndStream, 1, block + std::string(12'000, '\xbe')));
  EXPECT_EQ(by->goaway(), kCalm);
  by->disconnect();
  scope.poll();
  EXPECT_EQ(error, "the headers of a call are more than 131072 bytes");
  EXPECT_EQ(methods.running, 0u);
}

// Catches: blocks that stay below the limit, one after the other: 40 bytes that unpack to 100 KB.
TEST_F(GrpcServerAttackTest, UnpackedHeadersCostTheirSize) {
  auto large = hpack({{"x", std::string(4000, 'x')}}, true);
  for (bool trailers : {false, true}) {
    auto by = rawClient(call(1, "/a.B/Echo") + h2Frame(NGHTTP2_HEADERS, kEndHeaders, 3,
                                                       hpack(request("/a.B/Echo")) + large));
    int32_t stream = 5;
    for (; stream < 2000 && by->goaway() < 0; stream += 2) {
      auto bomb = std::string(25, '\xbe');
      auto first = hpack(request("/a.B/Echo"));
      send(*by, h2Frame(NGHTTP2_HEADERS, kEndHeaders | (trailers ? 0 : kEndStream), stream,
                        trailers ? first : first + bomb));
      if (!trailers) continue;
      send(*by, h2Frame(NGHTTP2_HEADERS, kEndHeaders | kEndStream, stream, bomb));
    }
    EXPECT_EQ(by->goaway(), kCalm) << (trailers ? "trailers" : "headers");
    EXPECT_LT(stream, 300) << "some ten megabytes were unpacked";
    by->disconnect();
    scope.poll();
    EXPECT_EQ(error, kNoData);
  }
}

// Catches: a client that always has something to say, and keeps everything else from its turn.
TEST_F(GrpcServerAttackTest, AClientWithoutPausesDoesNotLockOutOthers) {
  struct Endless final : kj::AsyncIoStream {
    std::string bytes = hello();  // and then of a type that is ignored
    kj::Promise<size_t> tryRead(void* buffer, size_t, size_t most) override {
      while (bytes.size() < most) bytes += h2Frame(0x77, 0, 0, std::string(4000, 'x'));
      memcpy(buffer, bytes.data(), most);
      bytes.erase(0, most);
      return most;
    }
    kj::Promise<void> write(const void*, size_t) override { return kj::READY_NOW; }
    kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>>) override {
      return kj::READY_NOW;
    }
    kj::Promise<void> whenWriteDisconnected() override { return kj::NEVER_DONE; }
    void shutdownWrite() override {}
  };
  auto endless = serveGrpc(timer, kj::heap<Endless>(), methods, limits)
                     .ignoreResult()
                     .eagerlyEvaluate(nullptr);
  RawH2Client honest(connect());
  auto saying = honest.send(hello() + call(1, "/a.B/Echo", "x")).eagerlyEvaluate(nullptr);
  EXPECT_LT(scope.poll(10'000), 10'000u) << "the loop does not come to look for others";
  EXPECT_EQ(honest.status(1), "0");
}

// Catches: a stream that stays because its client never ends it.
TEST_F(GrpcServerAttackTest, AnAnsweredCallIsOver) {
  auto by = rawClient(headersFrame(1, request("/a.B/Unknown")) + call(3, "/a.B/Echo", "x"));
  EXPECT_EQ(by->status(1), "12: unknown method");
  EXPECT_EQ(by->reset(1), NGHTTP2_NO_ERROR);
  EXPECT_EQ(by->reset(3), -1);
}

// Catches: bytes that are not HTTP/2 on a connection that hangs, or ends without an error to the
// client.
TEST_F(GrpcServerAttackTest, InvalidHttp2IsRefused) {
  struct Row {
    const char* name;
    std::string bytes;
    const char* error;
  };
  Row rows[] = {
      {"a huge frame", hello() + std::string("\xff\xff\xff\0\0\0\0\0\1", 9),
       "not valid HTTP/2: FRAME_SIZE_ERROR"},
      {"another preface", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "not valid HTTP/2: "},
      {"PUSH_PROMISE",
       hello() + h2Frame(NGHTTP2_PUSH_PROMISE, kEndHeaders, 1, std::string("\0\0\0\2", 4)),
       "not valid HTTP/2: PROTOCOL_ERROR"},
      {"HPACK that is none",
       hello() + h2Frame(NGHTTP2_HEADERS, kEndHeaders, 1, std::string(20, '\xff')),
       "not valid HTTP/2: COMPRESSION_ERROR"},
      {"data of no stream", hello() + dataFrame(1, "x"), "not valid HTTP/2: PROTOCOL_ERROR"},
      {"a stream of the server", hello() + headersFrame(2, request("/a.B/Echo")),
       "not valid HTTP/2: PROTOCOL_ERROR"},
      {"headers within headers",
       hello() + headersFrame(1, request("/a.B/Echo"), 0) + headersFrame(3, request("/a.B/Echo")),
       "not valid HTTP/2: PROTOCOL_ERROR"},
  };
  for (auto& row : rows) {
    RawH2Client by(connect());
    send(by, row.bytes);
    EXPECT_GT(by.goaway(), 0) << row.name;
    EXPECT_TRUE(by.ended) << row.name;
    EXPECT_EQ(error, "(open)") << row.name << ": it is not given time to read";
    by.disconnect();
    scope.poll();
    EXPECT_THAT(error, HasSubstr(row.error)) << row.name;
  }
}

// Catches: a frame type of a later HTTP/2 that is taken for an attack, or kept in memory.
TEST_F(GrpcServerAttackTest, UnknownFramesAreIgnored) {
  auto by = rawClient(h2Frame(0x77, 0, 0, std::string(10'000, 'x')) + call(1, "/a.B/Echo", "x") +
                      h2Frame(0x77, 0, 1, "x"));
  EXPECT_EQ(by->status(1), "0");
  EXPECT_EQ(by->goaway(), -1);
}

// Catches: one who is turned away and stays.
TEST_F(GrpcServerAttackTest, ARefusedClientIsDisconnected) {
  auto by = rawClient(dataFrame(1, "x"));
  EXPECT_EQ(error, "(open)");
  advance(timer, scope, 2100 * kj::MILLISECONDS);
  EXPECT_THAT(error, HasSubstr("not valid HTTP/2"));
}

// Catches: a budget that honest clients use up: a dashboard that is left and entered again; a
// client that measures round trips with a PING for each frame of a long answer; keepalive; credit
// in small portions.
TEST_F(GrpcServerAttackTest, HonestClientsStayWithinTheBudget) {
  methods.table["/a.B/Long"] = [](GrpcCall& call) -> kj::Promise<GrpcStatus> {
    for (int i = 0; i < 1000; ++i) co_await call.send(kj::heapArray<kj::byte>(32'768));
    co_return GrpcStatus();
  };
  auto by = rawClient("");
  int32_t stream = 1;
  for (int round = 0; round < 60; ++round) {
    std::string opened, left;
    for (int i = 0; i < 29; ++i, stream += 2) {
      opened += headersFrame(stream, request("/a.B/Never"), kEndHeaders | kEndStream);
      left += reset(stream);
    }
    send(*by, opened);
    send(*by, left + ping());
    advance(timer, scope, 1 * kj::SECONDS);
  }
  EXPECT_EQ(methods.started, 60u * 29);
  send(*by, call(stream, "/a.B/Long"));
  size_t credited = 0;
  while (by->data[stream].size() > credited) {
    for (; by->data[stream].size() > credited; credited += 8192) {
      send(*by, ping() + credit(stream, 8192) + credit(0, 8192));
    }
  }
  EXPECT_EQ(by->data[stream].size(), 1000u * 32'773);
  EXPECT_EQ(by->status(stream), "0");
  EXPECT_EQ(by->goaway(), -1);
}

// Catches: a budget that fills without limit over time, or from empty data frames.
TEST(FrameBudget, IsABucket) {
  auto now = kj::origin<kj::TimePoint>();
  FrameBudget budget(now, 24);
  EXPECT_TRUE(budget.spend(FrameBudget::kBurst + 24, now));
  EXPECT_FALSE(budget.spend(1, now));
  EXPECT_TRUE(budget.spend(FrameBudget::kPerSecond - 1, now + 1 * kj::SECONDS));
  EXPECT_FALSE(budget.spend(1, now + 1999 * kj::MILLISECONDS));
  EXPECT_TRUE(budget.spend(FrameBudget::kBurst + 24, now + 365 * kj::DAYS));
  EXPECT_FALSE(budget.spend(1, now + 365 * kj::DAYS));
  budget.earn(5);
  EXPECT_TRUE(budget.spend(4, now + 365 * kj::DAYS));
  EXPECT_LT(FrameBudget::worthOf(100), 0);
  EXPECT_GT(FrameBudget::worthOf(16'384), 10);
}

}  // namespace
}  // namespace talos::grpc
