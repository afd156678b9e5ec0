#include "common/image-cache/cache-layout.h"

#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos::imagecache {
namespace {

const auto kDigest = kj::str("sha256:", kj::repeat('a', 64));

// Catches: a short name of Docker Hub, or a registry with a port, that is looked for elsewhere.
TEST(CacheLayout, ReadsNamesAsUsersWriteThem) {
  struct {
    kj::StringPtr text, full;
  } names[] = {
      {"busybox", "docker.io/library/busybox:latest"},
      {"a/busybox:1", "docker.io/a/busybox:1"},
      {"index.docker.io/a/b:1", "docker.io/a/b:1"},
      {"registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"},
      {"localhost/a", "localhost/a:latest"},
      {"10.5.0.1:5000/a/b_c/d-e:v1.2_x", "10.5.0.1:5000/a/b_c/d-e:v1.2_x"},
  };
  for (auto& name : names) {
    EXPECT_EQ(name.full, parseImageName(name.text).text()) << name.text.cStr();
  }
  auto pinned = parseImageName(kj::str("registry.k8s.io/pause:3.10@", kDigest));
  EXPECT_EQ("3.10", pinned.tag);
  EXPECT_EQ(kDigest, pinned.reference());
  EXPECT_EQ("", parseImageName(kj::str("registry.k8s.io/pause@", kDigest)).tag);
}

// Catches: a name that leads out of the cache, or to a hidden file.
TEST(CacheLayout, RefusesWhatIsNoName) {
  for (auto text : {"",
                    "/a",
                    "a/",
                    "a//b",
                    "../a",
                    "registry.k8s.io/../a",
                    "registry.k8s.io/.a",
                    "a:",
                    "a:.b",
                    "a:b/c",
                    "A/b",
                    "registry.k8s.io/A",
                    "a@sha256:1",
                    "a@",
                    "[::1]:5000/a",
                    "host:port/a",
                    "-a.b/c",
                    "a b",
                    "a:b:c",
                    "a/b\n"}) {
    auto failure = kj::runCatchingExceptions([&] { parseImageName(text); });
    KJ_IF_MAYBE (e, failure) {
      EXPECT_EQ(ErrorKind::kInvalidArgument, kindOf(*e));
    } else {
      ADD_FAILURE() << text;
    }
  }
  EXPECT_FALSE(isDigest(kj::str("sha256:", kj::repeat('A', 64))));
  EXPECT_FALSE(isTag(".."));
  EXPECT_FALSE(isTag(kj::str(kj::repeat('a', 129))));
}

// Catches: another layout than the one of the caches that exist.
TEST(CacheLayout, PathsAreThoseOfTheOriginal) {
  EXPECT_EQ(kj::str("blob/sha256-", kj::repeat('a', 64)), blobPath(kDigest));
  EXPECT_EQ("manifests/registry.k8s.io/pause/reference/3.10",
            manifestPath("registry.k8s.io", "pause", "3.10"));
  EXPECT_EQ(kj::str("manifests/10.5.0.1_5000_/a/b/digest/sha256-", kj::repeat('a', 64)),
            manifestPath("10.5.0.1:5000", "a/b", kDigest));
}

}  // namespace
}  // namespace talos::imagecache
