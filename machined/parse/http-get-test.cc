// What a fetch tells while it runs; what its answers come to is in machined/config/config-fetch-test.cc.
#include "machined/parse/http-get.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>

#include <string>

namespace talos::parse {
namespace {

kj::Promise<void> serve(kj::AsyncIoStream& stream, std::string body) {
  char head[4096];
  co_await stream.tryRead(head, 1, sizeof head);
  auto start = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  co_await stream.write(start.data(), start.size());
  // Each is written when the one before was read.
  for (char c : body) co_await stream.write(&c, 1);
}

// Catches: a body in small pieces, as a slow network gives it, each of which is told, until the brain
// has heard more than it hears from an honest process.
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
  unsigned told = 0;
  size_t newest = 0;
  auto got = httpGet(kj::mv(pipe.ends[0]), place, nullptr, kj::UNIX_EPOCH,
                     [&](kj::StringPtr, size_t received) {
                       ++told;
                       newest = received;
                     })
                 .wait(scope);
  EXPECT_EQ(body.size(), got.get<kj::Array<char>>().size());
  EXPECT_LT(told, machined::kMostInterim / 2);
  EXPECT_GE(newest, body.size() - body.size() / 32);
}

}  // namespace
}  // namespace talos::parse
