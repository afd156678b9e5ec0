#include "common/net/http-url.h"

#include <gtest/gtest.h>

#include <string>

namespace talos {
namespace {

std::string shown(kj::StringPtr text) {
  KJ_IF_MAYBE (url, parseHttpUrl(text)) {
    return kj::str(url->secure ? "s " : "", url->authority, " ", url->host, " ", url->port, " ",
                   url->target)
        .cStr();
  }
  return "-";
}

// Catches: a request to another host or port than the URL names, or for another path.
TEST(HttpUrl, IsReadAsAClientOfHttpReadsIt) {
  const std::pair<const char*, const char*> rows[] = {
      {"http://192.0.2.1", "192.0.2.1 192.0.2.1 80 /"},
      {"http://192.0.2.1/", "192.0.2.1 192.0.2.1 80 /"},
      {"https://a.example.org", "s a.example.org a.example.org 443 /"},
      {"https://a.example.org:8443/x/y?z=1#part",
       "s a.example.org:8443 a.example.org 8443 /x/y?z=1"},
      {"http://a?b", "a a 80 /?b"},
      {"http://a#b?c/d", "a a 80 /"},
      {"http://[2001:db8::1]/x", "[2001:db8::1] 2001:db8::1 80 /x"},
      {"https://[2001:db8::1]:444", "s [2001:db8::1]:444 2001:db8::1 444 /"},
      {"http://a/b@c:d", "a a 80 /b@c:d"},
  };
  for (auto& [text, url] : rows) EXPECT_EQ(url, shown(text)) << text;
}

// Catches: a request for a text that is not a URL; a password that every reader sees.
TEST(HttpUrl, OtherTextsAreNone) {
  for (auto text :
       {"", "http://", "https:///a", "ftp://a/", "a", "//a/b", "http://u:p@a/", "http://u@a/",
        "http://a:0/", "http://a:65536/", "http://a:/", "http://a b/", "http://a/b c",
        "http://a/\n", "http://[::1", "http://::1/", "http://?a", "HTTP://a/"}) {
    EXPECT_EQ("-", shown(text)) << text;
  }
}

TEST(HostPort, DividesHostAndPort) {
  auto divided = [](kj::StringPtr text) -> std::string {
    KJ_IF_MAYBE (both, parseHostPort(text)) return kj::str(both->host, " ", both->port).cStr();
    return "-";
  };
  EXPECT_EQ("192.0.2.1 22", divided("192.0.2.1:22"));
  EXPECT_EQ("a.example.org 1", divided("a.example.org:1"));
  EXPECT_EQ("2001:db8::1 65535", divided("[2001:db8::1]:65535"));
  for (auto text :
       {"", "a", "a:", ":1", "a:0", "2001:db8::1:22", "[2001:db8::1]", "[a]:1", "a:b"}) {
    EXPECT_EQ("-", divided(text)) << text;
  }
}

// Catches: a key that is sent without TLS although the endpoint says so; another port than it
// names.
TEST(GrpcEndpoint, IsPlainOnlyWithoutASchemeOrWithGrpc) {
  auto shown = [](kj::StringPtr text) -> std::string {
    KJ_IF_MAYBE (at, parseGrpcEndpoint(text)) {
      return kj::str(at->secure ? "s " : "", at->authority, " ", at->host, " ", at->port).cStr();
    }
    return "-";
  };
  const std::pair<const char*, const char*> rows[] = {
      {"192.0.2.1:4050", "192.0.2.1:4050 192.0.2.1 4050"},
      {"kms.example.org:4050", "kms.example.org:4050 kms.example.org 4050"},
      {"[2001:db8::1]:4050", "[2001:db8::1]:4050 2001:db8::1 4050"},
      {"grpc://kms.example.org:4050", "kms.example.org:4050 kms.example.org 4050"},
      {"grpc://kms.example.org:4050/", "kms.example.org:4050 kms.example.org 4050"},
      {"grpcs://kms.example.org:4050", "s kms.example.org:4050 kms.example.org 4050"},
      {"https://kms.example.org:4050", "s kms.example.org:4050 kms.example.org 4050"},
      {"https://kms.example.org", "s kms.example.org:443 kms.example.org 443"},
      {"https://[2001:db8::1]/", "s [2001:db8::1]:443 2001:db8::1 443"},
      {"tls+1://a:1", "s a:1 a 1"},
  };
  for (auto& [text, endpoint] : rows) EXPECT_EQ(endpoint, shown(text)) << text;
  for (auto text : {"",
                    "kms.example.org",
                    "kms.example.org/",
                    "a:1/",
                    "192.0.2.1:",
                    ":4050",
                    "a:0",
                    "a:65536",
                    "2001:db8::1:4050",
                    "GRPC://a:1",
                    "grpc://a",
                    "grpcs://a",
                    "://a:1",
                    "1a://a:1",
                    "a b://a:1",
                    "https://",
                    "https://a:1/x",
                    "https://a:1?x",
                    "https://u@a:1",
                    "https://u:p@a:1",
                    "https://a:1//",
                    "https://a:1#x",
                    "grpc:a:1",
                    "https://https://a:1"}) {
    EXPECT_EQ("-", shown(text)) << text;
  }
}

}  // namespace
}  // namespace talos
