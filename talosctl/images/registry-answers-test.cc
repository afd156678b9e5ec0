#include "talosctl/images/registry-answers.h"

#include <gmock/gmock.h>

#include <string>

#include "common/base/error.h"

namespace talos::talosctl {
namespace {

std::string shownPlace(const WebPlace& place) {
  return kj::str(place.secure ? "https " : "http ", place.authority(), " ", place.host, " ",
                 place.port, " ", place.target)
      .cStr();
}
std::string placeOf(kj::StringPtr url) {
  std::string shown;
  auto failure = kj::runCatchingExceptions([&] { shown = shownPlace(readPlace(url)); });
  KJ_IF_MAYBE (e, failure) return kj::str("refused: ", nameOf(kindOf(*e))).cStr();
  return shown;
}

// Catches: a signed URL of a store that is sent with other characters; a URL that splits a request.
TEST(RegistryAnswers, Places) {
  EXPECT_EQ("https a.example a.example 443 /", placeOf("https://a.example"));
  EXPECT_EQ("http 10.5.0.1:5000 10.5.0.1 5000 /v2/", placeOf("http://10.5.0.1:5000/v2/"));
  EXPECT_EQ("https [fd00::1]:8443 fd00::1 8443 /a", placeOf("https://[fd00::1]:8443/a"));
  EXPECT_EQ("https a.example a.example 443 /b?x=%2F+~&y=a%20b",
            placeOf("https://a.example:443/b?x=%2F+~&y=a%20b#part"));
  for (auto url : {"", "ftp://a", "https://", "https:///a", "https://a:0/", "https://a:99999/",
                   "https://u:p@a/", "https://a/b c", "https://a/\r\nX: y", "https://[a]/",
                   "https://a:1:2/", "https://a:b/", "https://::1/"}) {
    EXPECT_EQ("refused: InvalidArgument", placeOf(url)) << url;
  }
  auto from = readPlace("https://a.example/v2/b");
  EXPECT_EQ("https a.example a.example 443 /c?d", shownPlace(redirectedPlace(from, "/c?d")));
  EXPECT_EQ("https b.example b.example 443 /c",
            shownPlace(redirectedPlace(from, "https://b.example/c")));
  for (auto location : {"http://a.example/c", "//b.example/c", "c", "/c\n"}) {
    EXPECT_TRUE(kj::runCatchingExceptions([&] { redirectedPlace(from, location); }) != nullptr)
        << location;
  }
}

// Catches: a registry such as Docker Hub, whose token is not fetched.
TEST(RegistryAnswers, Challenges) {
  auto shown = [](kj::StringPtr header) -> std::string {
    KJ_IF_MAYBE (c, readChallenge(header)) {
      return kj::str(c->bearer, " ", c->realm, " ", c->service, " ", c->scope).cStr();
    }
    return "none";
  };
  EXPECT_EQ("true https://auth.docker.io/token registry.docker.io repository:a/b:pull",
            shown("Bearer realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\","
                  "scope=\"repository:a/b:pull\""));
  EXPECT_EQ("true https://a  ", shown("bearer realm=\"https://a"));
  EXPECT_EQ("false   ", shown("Basic realm=\"x\""));
  for (auto header : {"", "Digest a=b", "Bearer ", "Bearer x", "Bearer =", "Bearer realm=\"\""}) {
    EXPECT_EQ("none", shown(header)) << header;
  }
}

// Catches: credentials that go to another registry.
TEST(RegistryAnswers, Credentials) {
  auto of = [](kj::StringPtr registry) -> std::string {
    auto text = R"({"auths":{"https://index.docker.io/v1/":{"auth":"YTpi"},
        "r.example:5000":{"username":"c","password":"d:e"},"bad.example":{"auth":"!"},
        "empty.example":{}},"credsStore":"x"})"_kj;
    return credentialsIn(text, registry).orDefault(kj::str("none")).cStr();
  };
  EXPECT_EQ("a:b", of("docker.io"));
  EXPECT_EQ("c:d:e", of("r.example:5000"));
  for (auto registry : {"r.example", "bad.example", "empty.example", "other"}) {
    EXPECT_EQ("none", of(registry)) << registry;
  }
}

// Catches: a layer that is left out of the cache; a name of a blob that leads out of it.
TEST(RegistryAnswers, Manifests) {
  auto digest = kj::str("sha256:", kj::repeat('a', 64));
  auto image =
      readManifest(kj::str(R"({"config":{"digest":")", digest,
                           R"(","size":7},"layers":[{"digest":")", digest, R"(","size":8}]})"));
  EXPECT_FALSE(image.isIndex);
  ASSERT_EQ(2u, image.parts.size());
  EXPECT_EQ(8u, image.parts[1].size);
  auto index = readManifest(kj::str(R"({"manifests":[{"digest":")", digest,
                                    R"(","platform":{"os":"linux","architecture":"arm64",)",
                                    R"("variant":"v8"}}]})"));
  EXPECT_TRUE(index.isIndex);
  EXPECT_STREQ("linux/arm64/v8", index.parts[0].platform.cStr());
  EXPECT_TRUE(isPlatform(index.parts[0].platform, "linux/arm64"));
  EXPECT_FALSE(isPlatform(index.parts[0].platform, "linux/arm"));
  EXPECT_FALSE(isPlatform("", "linux/amd64"));
  for (auto text : {"", "{}", "[]", R"({"layers":[{"digest":"../../x"}]})", R"({"layers":[]})",
                    R"({"manifests":[{}]})"}) {
    auto failure = kj::runCatchingExceptions([&] { readManifest(kj::StringPtr(text)); });
    EXPECT_EQ(ErrorKind::kInvalidArgument, kindOf(KJ_ASSERT_NONNULL(failure))) << text;
  }
}

}  // namespace
}  // namespace talos::talosctl
