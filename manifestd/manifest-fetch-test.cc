#include "manifestd/manifest-fetch.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <kj/debug.h>

#include <string>

#include "common/base/error.h"

namespace talos::manifestd {
namespace {

struct ManifestFetchTest : testing::Test {
  ~ManifestFetchTest() noexcept override {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Own<kj::ConnectionReceiver> listener =
      io.provider->getNetwork().parseAddress("127.0.0.1").wait(io.waitScope)->listen();
  kj::Function<TlsVerifier&()> verifier = []() -> TlsVerifier& {
    KJ_FAIL_REQUIRE("the server has no TLS");
  };

  // Returns the error of a fetch with the header "Authorization: Bearer 0123456789", which the
  // server answers with this head.
  std::string failure(kj::StringPtr head) {
    auto answer = kj::str(head, "\r\nContent-Length: 0\r\n\r\n");
    kj::Own<kj::AsyncIoStream> stream;
    auto serving = listener->accept()
                       .then([&](kj::Own<kj::AsyncIoStream> accepted) {
                         stream = kj::mv(accepted);
                         return stream->write(answer.begin(), answer.size());
                       })
                       .eagerlyEvaluate(nullptr);
    kj::Vector<std::pair<kj::String, kj::String>> headers;
    headers.add(kj::str("Authorization"), kj::str("Bearer 0123456789"));
    auto source = readSource(kj::str("http://127.0.0.1:", listener->getPort(), "/m.yaml"));
    DialDependencies dialing{*io.lowLevelProvider, io.unixEventPort, io.provider->getTimer()};
    auto fetching = fetchManifest(dialing, kj::mv(source), headers, verifier);
    auto error = kj::runCatchingExceptions([&] { fetching.wait(io.waitScope); });
    return messageOf(KJ_ASSERT_NONNULL(error)).cStr();
  }
};

// Catches: a server that writes to the terminal of the reader; a status text without a bound.
TEST_F(ManifestFetchTest, TheStatusTextIsAField) {
  EXPECT_EQ("the server answered 404 no?[31m page", failure("HTTP/1.1 404 no\x1b[31m page"));
  auto longest = "HTTP/1.1 500 " + std::string(1000, 'x');
  EXPECT_EQ("the server answered 500 " + std::string(200, 'x'), failure(longest.c_str()));
}

// Catches: a token in the status of a node, because the server repeats it; a part of it, because it
// stands where a long text is cut.
TEST_F(ManifestFetchTest, HidesHeadersThatComeBack) {
  EXPECT_EQ("the server answered 403 *** is not known, nor ***",
            failure("HTTP/1.1 403 Bearer 0123456789 is not known, nor 0123456789"));
  auto cut = "HTTP/1.1 403 " + std::string(195, 'a') + "0123456789";
  EXPECT_EQ(std::string::npos, failure(cut.c_str()).find("01"));
  auto redirected = failure("HTTP/1.1 302 Found\r\nLocation: ftp://example.org/0123456789/m.yaml");
  EXPECT_NE(std::string::npos, redirected.find("ftp://example.org/***/m.yaml")) << redirected;
}

}  // namespace
}  // namespace talos::manifestd
