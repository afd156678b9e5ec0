#include "registryd/cache-server.h"

#include <gmock/gmock.h>
#include <kj/compat/http.h>

#include "common/base/sha256.h"
#include "common/testing/test-port.h"
#include "common/testing/test-tree.h"
#include "common/wire/rpc-server.h"

namespace talos::registryd {
namespace {

using machined::TestTree;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct CacheServerTest : public ::testing::Test {
  ~CacheServerTest() noexcept override {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  TestTree tree;
  kj::String first = tree.at("first"), second = tree.at("second");
  kj::StringPtr roots[2] = {first, second};
  uint16_t port = freePort();
  kj::Promise<void> serving =
      serveCache(timer, io.lowLevelProvider->wrapListenSocketFd(listenTcp("127.0.0.1", port)),
                 roots)
          .eagerlyEvaluate(nullptr);

  // Returns what the server sends for these lines.
  std::string ask(std::string request) {
    request += "\r\n\r\n";
    auto address = io.provider->getNetwork().parseAddress("127.0.0.1", port).wait(io.waitScope);
    auto stream = address->connect().wait(io.waitScope);
    stream->write(request.data(), request.size()).wait(io.waitScope);
    stream->shutdownWrite();
    return stream->readAllText().wait(io.waitScope).cStr();
  }
  std::string get(const std::string& target, const std::string& more = "") {
    return ask("GET " + target + " HTTP/1.1\r\nHost: x" + more);
  }
};

const auto kBlobDigest = kj::str(kj::repeat('b', 64));

// Catches: an image that a medium has and that is not served; one whose type or digest is missing
// for a tag.
TEST_F(CacheServerTest, ServesTheFirstRootThatHasTheFile) {
  EXPECT_THAT(get("/v2/a/manifests/1?ns=r.example"), StartsWith("HTTP/1.1 404"));
  constexpr kj::StringPtr kManifest = R"({"layers":[]})"_kj;
  tree.directory("second/manifests/r.example/a/reference");
  tree.file("second/manifests/r.example/a/reference/1", kManifest);
  Sha256 sum;
  sum.add(kManifest.asBytes());
  auto answer = get("/v2/a/manifests/1?ns=r.example");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(answer, HasSubstr("application/vnd.oci.image.manifest.v1+json"));
  EXPECT_THAT(answer, HasSubstr(kj::str("sha256:", sum.hex()).cStr()));
  EXPECT_TRUE(answer.ends_with(kManifest.cStr()));
  auto head = ask("HEAD /v2/a/manifests/1?ns=r.example HTTP/1.1\r\nHost: x");
  EXPECT_THAT(head, HasSubstr("Content-Length: 13"));
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  EXPECT_THAT(get("/v2/"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(get("/healthz"), StartsWith("HTTP/1.1 200"));
}

// Catches: a pull that continues with the wrong bytes.
TEST_F(CacheServerTest, SendsARangeOfABlob) {
  tree.directory("first/blob");
  tree.file(kj::str("first/blob/sha256-", kBlobDigest), "0123456789");
  auto target = "/v2/a/blobs/sha256:" + std::string(kBlobDigest.cStr());
  EXPECT_TRUE(get(target).ends_with("\r\n\r\n0123456789"));
  auto part = get(target, "\r\nRange: bytes=7-");
  EXPECT_THAT(part, StartsWith("HTTP/1.1 206"));
  EXPECT_THAT(part, HasSubstr("Content-Range: bytes 7-9/10"));
  EXPECT_TRUE(part.ends_with("\r\n\r\n789"));
  EXPECT_THAT(get(target, "\r\nRange: bytes=10-"), StartsWith("HTTP/1.1 416"));
}

// Catches: a file that is served because a link of the medium leads to it; a folder or a damaged
// manifest that ends the server.
TEST_F(CacheServerTest, WhatIsNoFileOfTheCacheIsMissing) {
  tree.file("secret", "secret");
  tree.directory("first/blob");
  tree.link(kj::str("first/blob/sha256-", kBlobDigest), tree.at("secret"));
  auto blob = "/v2/a/blobs/sha256:" + std::string(kBlobDigest.cStr());
  EXPECT_THAT(get(blob), StartsWith("HTTP/1.1 404"));
  tree.directory("first/manifests/r.example/a/reference/folder");
  tree.file("first/manifests/r.example/a/reference/damaged", "{");
  for (auto tag : {"folder", "damaged", "absent"}) {
    EXPECT_THAT(get("/v2/a/manifests/" + std::string(tag) + "?ns=r.example"),
                StartsWith("HTTP/1.1 404"));
  }
  EXPECT_THAT(ask("DELETE " + blob + " HTTP/1.1\r\nHost: x"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(get("/v2/../../secret"), StartsWith("HTTP/1.1 404"));
}

}  // namespace
}  // namespace talos::registryd
