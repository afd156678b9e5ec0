#include "manifestd/manifest-source.h"

#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos::manifestd {
namespace {

kj::String whyNot(kj::FunctionParam<void()> work) {
  return messageOf(KJ_ASSERT_NONNULL(kj::runCatchingExceptions([&]() { work(); })));
}

constexpr kj::StringPtr kDigest =
    "a948904f2f0f479b8f8197694b30184b0d2ed1c1cd2a1ec0fb85d299a192a447"_kj;  // "hello world\n"

TEST(ManifestSource, PartsOfAUrl) {
  auto parts = [](kj::StringPtr url) {
    auto source = readSource(url);
    return kj::str(source.secure(), " ", source.host(), " ", source.port(), " ", source.target(),
                   " ", source.shown);
  };
  EXPECT_EQ(parts("https://example.com/a/b.yaml"),
            "true example.com 443 /a/b.yaml https://example.com/a/b.yaml"_kj);
  EXPECT_EQ(parts("http://10.0.0.1:8080/m.yaml?token=x#f"),
            "false 10.0.0.1 8080 /m.yaml?token=x http://10.0.0.1:8080/m.yaml"_kj);
  EXPECT_EQ(parts("https://[fd00::1]:6443/"), "true fd00::1 6443 / https://[fd00::1]:6443/"_kj);
}

TEST(ManifestSource, TheChecksumIsNotSent) {
  auto source = readSource(kj::str("https://a/m.yaml?checksum=sha256:", kDigest, "&x=y"));
  EXPECT_EQ(KJ_ASSERT_NONNULL(source.sha256), kDigest);
  EXPECT_EQ(source.target(), "/m.yaml?x=y"_kj);
}

// Catches: a manifest that was tampered with and is created all the same.
TEST(ManifestSource, WhatHasAnotherDigestIsRefused) {
  auto source = readSource(kj::str("https://a/m.yaml?checksum=sha256:", kDigest));
  EXPECT_EQ(readManifest(source, "hello world\n"_kj), "- hello world\n"_kj);
  EXPECT_EQ(whyNot([&]() { readManifest(source, "hello"_kj); }),
            kj::str("its SHA-256 is "
                    "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824, not ",
                    kDigest, " as the checksum says"));
}

TEST(ManifestSource, WhatIsNoUrlOfAManifestIsRefused) {
  for (auto wrong : {"", "m.yaml", "ftp://a/m.yaml", "git::https://a/b", "https:///m.yaml"}) {
    EXPECT_EQ(whyNot([&]() { readSource(wrong); }),
              kj::str("\"", wrong, "\" is not a valid URL of a manifest; use http:// or https://"));
  }
  EXPECT_EQ(whyNot([] { readSource("https://u:secret@a/"); }),
            "\"https://u:***@a/\" has a user name; use cluster.extraManifestHeaders to log in"_kj);
  EXPECT_EQ(whyNot([] { readSource("https://a/m?checksum=md5:1"); }),
            "\"https://a/m\" has no valid checksum; use checksum=sha256:<64 digits of hex>"_kj);
  EXPECT_EQ(whyNot([] { readSource("ftp://a/m?token=secret"); }),
            "\"ftp://a/m\" is not a valid URL of a manifest; use http:// or https://"_kj);
}

// Catches: a token of a URL in a public text; two manifests that become one.
TEST(ManifestSource, IdsDoNotShowWhatMayBeSecret) {
  EXPECT_EQ(manifestId("05", "https://a/b/m.yaml"), "05-https://a/b/m.yaml"_kj);
  auto one = manifestId("99", "https://a/m.yaml?token=AAA");
  EXPECT_EQ(one.slice(0, one.size() - 8), "99-https://a/m.yaml-"_kj);
  for (char c : one.slice(one.size() - 8)) EXPECT_TRUE(isxdigit(c)) << one.cStr();
  EXPECT_NE(one, manifestId("99", "https://a/m.yaml?token=AAB"));
  EXPECT_EQ(one, manifestId("99", "https://a/m.yaml?token=AAA"));
  EXPECT_EQ(shownUrl("https://u:p@a/m#x"), "https://u:***@a/m"_kj);
}

TEST(ManifestSource, ServersSendUsOnButNotToLess) {
  auto source = readSource(kj::str("https://a/x/m.yaml?checksum=sha256:", kDigest));
  auto next = redirected(source, "../y.yaml");
  EXPECT_EQ(next.shown, "https://a/y.yaml"_kj);
  EXPECT_EQ(KJ_ASSERT_NONNULL(next.sha256), kDigest);
  EXPECT_EQ(redirected(source, "https://b/z").host(), "b"_kj);
  EXPECT_EQ(redirected(source, "/a%3Fb%0A?token=x").shown, "https://a/a%3Fb%0A"_kj);
  // A parameter of the other server, which signs its URLs, is kept.
  EXPECT_EQ(redirected(source, "/z?checksum=crc32").target(), "/z?checksum=crc32"_kj);
  EXPECT_NE(kj::runCatchingExceptions([&]() { redirected(source, "http://a/"); }), nullptr);
  EXPECT_NE(kj::runCatchingExceptions([&]() { redirected(source, "file:///etc"); }), nullptr);
}

// Catches: a server that ends the program, by a redirect to an address without its closing bracket.
TEST(ManifestSource, AnAddressNeedsBothBrackets) {
  auto source = readSource("https://a/m.yaml"_kj);
  for (auto host : {"[", "[]", "[fd00::1", "[:80", "[fd00::1:80"}) {
    EXPECT_EQ(whyNot([&] { redirected(source, kj::str("https://", host)); }),
              kj::str("\"https://", host, "\" has no valid host and port"));
  }
  EXPECT_EQ(redirected(source, "https://[fd00::1]:80/").host(), "fd00::1"_kj);
}

// Catches: a URL whose error is an assertion of the library, by a part of its path that is "." or
// ".." after decoding.
TEST(ManifestSource, EncodedDotsInThePathAreRefused) {
  auto source = readSource("https://a/x");
  for (auto path : {"/%2e/a", "%2E%2e/a", "/a/.%2e"}) {
    auto refusal = kj::str("\"", path, "\" has \".\" or \"..\" percent-encoded in its path");
    EXPECT_EQ(whyNot([&] { redirected(source, path); }), refusal);
    auto whole = kj::str("https://a", path[0] == '/' ? "" : "/", path);
    EXPECT_NE(whyNot([&] { readSource(whole); }).findFirst('%'), nullptr) << whole.cStr();
  }
  EXPECT_EQ(readSource("https://a/b/../c/./d").target(), "/c/d"_kj);
}

TEST(ManifestSource, DocumentsBecomeAList) {
  auto source = readSource("https://a/m.yaml");
  EXPECT_EQ(readManifest(source, "# c\n---\na: 1\n---\n---\nb: [2]\n"_kj),
            "- a: 1\n- b:\n    - 2\n"_kj);
  EXPECT_TRUE(whyNot([&]() { readManifest(source, "a: [\n"_kj); }).startsWith("https://a/m.yaml:"));
}

}  // namespace
}  // namespace talos::manifestd
