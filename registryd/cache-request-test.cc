#include "registryd/cache-request.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"

namespace talos::registryd {
namespace {

const auto kHex = kj::str(kj::repeat('1', 64));

std::string pathOf(kj::StringPtr target) {
  KJ_IF_MAYBE (request, readRequest(target)) return request->path.cStr();
  return "refused";
}

// Catches: a request of containerd that finds nothing in a cache that has it.
TEST(CacheRequest, ReadsWhatContainerdAsks) {
  EXPECT_EQ("manifests/registry.k8s.io/pause/reference/3.10",
            pathOf("/v2/pause/manifests/3.10?ns=registry.k8s.io"));
  EXPECT_EQ("manifests/10.5.0.1_5000_/a/manifests/reference/1",
            pathOf("/v2/a/manifests/manifests/1?ns=10.5.0.1%3A5000"));
  EXPECT_EQ(kj::str("manifests/docker.io/a/b/digest/sha256-", kHex).cStr(),
            pathOf(kj::str("/v2/a/b/manifests/sha256:", kHex, "?x=1&ns=docker.io")));
  EXPECT_EQ(kj::str("blob/sha256-", kHex).cStr(),
            pathOf(kj::str("/v2/a/b/blobs/sha256:", kHex, "?ns=docker.io")));
  EXPECT_TRUE(KJ_ASSERT_NONNULL(readRequest("/healthz")).kind == CacheRequest::Kind::kHealth);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(readRequest("/v2/?ns=a")).kind == CacheRequest::Kind::kBase);
}

// Catches: a request that reads a file outside of the cache.
TEST(CacheRequest, RefusesPathsThatAreNoImages) {
  for (auto target : {"/", "", "/v2/../manifests/1?ns=a.b", "/v2/a/manifests/../x?ns=a.b",
                      "/v2/a/manifests/..?ns=a.b", "/v2/a/manifests/1?ns=..",
                      "/v2/a/manifests/1?ns=a/b", "/v2/a/manifests/1?ns=%2e%2e%2fetc",
                      "/v2/a/manifests/1", "/v2/a/manifests/1?ns=", "/v2/a/manifests/1?ns=%",
                      "/v2//manifests/1?ns=a.b", "/v2/manifests/1?ns=a.b", "/v2/a/blobs/../../x",
                      "/v2/a/blobs/sha256:1", "/v2/a/blobs/latest", "/v2/a/tags/list",
                      "/v3/a/manifests/1?ns=a.b", "http://a/v2/a/manifests/1?ns=a.b"}) {
    EXPECT_EQ("refused", pathOf(target)) << target;
  }
  EXPECT_EQ("refused", pathOf(kj::str("/v2/", kj::repeat('a', 3000), "/manifests/1?ns=a.b")));
}

// Catches: bytes that are sent twice or not at all when an interrupted pull continues.
TEST(CacheRequest, Ranges) {
  auto range = [](kj::StringPtr text) -> std::string {
    KJ_IF_MAYBE (r, readRange(text, 10)) return kj::str(r->begin, " ", r->end).cStr();
    return "none";
  };
  EXPECT_EQ("0 10", range("bytes=0-"));
  EXPECT_EQ("7 10", range("bytes=7-"));
  EXPECT_EQ("7 8", range("bytes=7-7"));
  EXPECT_EQ("7 10", range("bytes=7-99"));
  for (auto text : {"", "bytes=", "bytes=-1", "bytes=10-", "bytes=7-6", "bytes=a-", "bytes=1-2,3-4",
                    "bytes=99999999999999999999-", "items=0-"}) {
    EXPECT_EQ("none", range(text)) << text;
  }
}

// Catches: an index that clients read as an image, and text of the medium in a header.
TEST(CacheRequest, MediaTypes) {
  auto typeOf = [](kj::StringPtr text) { return std::string(mediaTypeOf(text).cStr()); };
  EXPECT_EQ("application/vnd.docker.distribution.manifest.v2+json",
            typeOf(R"({"mediaType":"application/vnd.docker.distribution.manifest.v2+json"})"));
  EXPECT_EQ("application/vnd.oci.image.index.v1+json", typeOf(R"({"manifests":[]})"));
  EXPECT_EQ("application/vnd.oci.image.manifest.v1+json",
            typeOf(R"({"mediaType":"a\r\nX: y","layers":[]})"));
  for (auto text : {"", "{}", "[]", "{"}) {
    EXPECT_TRUE(kj::runCatchingExceptions([&] { mediaTypeOf(kj::StringPtr(text)); }) != nullptr);
  }
}

}  // namespace
}  // namespace talos::registryd
