// The messages of a fetch while it runs; its results are tested in
// machined/config/config-fetch-test.cc.
#include "machined/confined/parser/http-get.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>

#include <string>

#include "common/base/error.h"

namespace talos::parse {
namespace {

kj::Promise<void> serve(kj::AsyncIoStream& stream, std::string body) {
  char head[4096];
  co_await stream.tryRead(head, 1, sizeof head);
  auto start = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  co_await stream.write(start.data(), start.size());
  // Each byte is written after the one before was read.
  for (char c : body) co_await stream.write(&c, 1);
}

// Catches: a body in small pieces, as from a slow network, each of which is reported, until there
// are more messages than an honest process may send.
TEST(HttpGetTest, ALargeBodyInSmallPieces) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  auto pipe = kj::newTwoWayPipe();
  std::string body(20'000, 'a');
  auto serving = serve(*pipe.ends[1], body).eagerlyEvaluate(nullptr);
  machined::HttpSource place;
  place.host = kj::str("a.example");
  place.authority = kj::str("a.example");
  place.target = kj::str("/c");
  unsigned announced = 0;
  size_t newest = 0;
  auto got = httpGet(kj::mv(pipe.ends[0]), {place, nullptr, kj::UNIX_EPOCH,
                                            [&](kj::StringPtr, size_t received) {
                                              ++announced;
                                              newest = received;
                                            }})
                 .wait(scope);
  EXPECT_EQ(body.size(), got.get<kj::Array<char>>().size());
  EXPECT_LT(announced, machined::kMostInterim / 2);
  EXPECT_GE(newest, body.size() - body.size() / 32);
}

struct PiecesTest : testing::Test {
  ~PiecesTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  machined::HttpSource place;
  uint64_t begun = 0, announced = 0;
  std::string got, requestHead;

  // Returns the error, or the outcome, for this answer of the server.
  std::string fetch(std::string answer, uint64_t from) {
    place.host = kj::str("a.example");
    place.authority = kj::str("a.example");
    place.target = kj::str("/c");
    auto pipe = kj::newTwoWayPipe();
    auto serving = answerWith(kj::mv(pipe.ends[1]), answer).eagerlyEvaluate(nullptr);
    got.clear();
    begun = announced = 0;
    HttpBody body{[&](uint64_t first, uint64_t size) {
                    begun = first;
                    announced = size;
                  },
                  [&](kj::ArrayPtr<const kj::byte> bytes) {
                    EXPECT_LE(bytes.size(), machined::kMostPieceBytes);
                    got.append(bytes.asChars().begin(), bytes.size());
                  }};
    std::string end = "all";
    httpGetPieces(kj::mv(pipe.ends[0]),
                  {place, nullptr, kj::UNIX_EPOCH, [](kj::StringPtr, size_t) {}}, from,
                  kj::mv(body))
        .then(
            [&](kj::Maybe<machined::HttpSource> moved) {
              KJ_IF_MAYBE (to, moved) end = to->shown.cStr();
            },
            [&](kj::Exception&& e) { end = kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr(); })
        .wait(scope);
    return end;
  }
  kj::Promise<void> answerWith(kj::Own<kj::AsyncIoStream> stream, std::string answer) {
    char head[4096];
    auto size = co_await stream->tryRead(head, 1, sizeof head);
    requestHead = std::string(head, size);
    co_await stream->write(answer.data(), answer.size());
  }
};

// Catches: a large body that is kept in memory or lost in part; a range that is not requested, or
// another range that is accepted, so that the pieces do not fit together.
TEST_F(PiecesTest, ABodyFromItsBeginAndFromLater) {
  std::string body(200'001, 'b');
  EXPECT_EQ(fetch("HTTP/1.1 200 OK\r\nContent-Length: 200001\r\n\r\n" + body, 0), "all");
  EXPECT_EQ(got, body);
  EXPECT_EQ(announced, 200'001u);
  EXPECT_EQ(requestHead.find("Range"), std::string::npos);
  EXPECT_EQ(fetch("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 7-9/10\r\n"
                  "Content-Length: 3\r\n\r\nxyz",
                  7),
            "all");
  EXPECT_NE(requestHead.find("Range: bytes=7-"), std::string::npos) << requestHead;
  EXPECT_EQ(got, "xyz");
  EXPECT_EQ(begun, 7u);
  EXPECT_EQ(announced, 10u);
  EXPECT_EQ(fetch("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 7), "all");
  EXPECT_EQ(begun, 0u) << "a server that knows no ranges begins anew";
  for (auto other : {"bytes 5-9/10", "bytes */10", "octets 7-9/10", "bytes 7"}) {
    auto end = fetch(std::string("HTTP/1.1 206 Partial Content\r\nContent-Range: ") + other +
                         "\r\nContent-Length: 3\r\n\r\nxyz",
                     7);
    EXPECT_EQ(end, "Unavailable: the server sent another range than requested");
    EXPECT_EQ(got, "");
  }
}

// Catches: half a body that counts as a whole one; an error page that is taken for the body.
TEST_F(PiecesTest, IncompleteBodiesAndErrorPagesAreRefused) {
  EXPECT_EQ(fetch("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", 0),
            "Unavailable: the answer was cut off");
  EXPECT_EQ(fetch("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", 0),
            "NotFound: the server answered 404 Not Found");
  EXPECT_EQ(fetch("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", 0),
            "PermissionDenied: the server answered 403 Forbidden");
  EXPECT_EQ(fetch("HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno", 0),
            "Unavailable: the server answered 503 Busy");
  EXPECT_EQ(got, "");
  EXPECT_EQ(
      fetch("HTTP/1.1 302 Found\r\nLocation: https://b.example/d\r\nContent-Length: 0\r\n\r\n", 0),
      "https://b.example/d");
}

}  // namespace
}  // namespace talos::parse
