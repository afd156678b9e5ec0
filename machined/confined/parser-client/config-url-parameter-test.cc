#include "machined/confined/parser-client/config-url-parameter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/encoding.h>

#include <string>

#include "common/base/error.h"
#include "common/tls/pki.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

KernelArguments parse(kj::StringPtr text) {
  return KernelArguments(text.asArray());
}

UrlVariables known() {
  return {kj::str("u-1"), kj::str("S 1"), kj::str("52:54:00:aa:bb:cc"), kj::str("n1")};
}

HttpSource http(kj::StringPtr url) {
  auto source = configSource(parse(kj::str("talos.config=", url)), known());
  return kj::mv(KJ_ASSERT_NONNULL(source).get<HttpSource>());
}

template <typename F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const kj::Exception& e) {
    EXPECT_EQ(ErrorKind::kInvalidArgument, kindOf(e));
    return messageOf(e).cStr();
  }
  return "accepted";
}
std::string refused(kj::StringPtr url) {
  return refusal([&]() { configSource(parse(kj::str("talos.config=", url)), {}); });
}

// Catches: `none` (as installs without a URL write it) taken for a URL, which loops instead of
// maintenance.
TEST(ConfigSource, NoneIsNoSource) {
  EXPECT_TRUE(configSource(parse("a=b"), {}) == nullptr);
  EXPECT_TRUE(configSource(parse("talos.config="), {}) == nullptr);
  EXPECT_TRUE(configSource(parse("talos.config=none"), {}) == nullptr);
}

// Catches: a port, an IPv6 address or the query lost on the way; the query in a log.
TEST(ConfigSource, Parts) {
  auto s = http("http://10.5.0.1:8080/a/b?x=1&uuid=");
  EXPECT_EQ("10.5.0.1", s.host);
  EXPECT_EQ(8080, s.port);
  EXPECT_EQ("10.5.0.1:8080", s.authority);
  EXPECT_EQ("/a/b?x=1&uuid=u-1", s.target);
  EXPECT_EQ("http://10.5.0.1:8080/a/b", s.shown);
  EXPECT_FALSE(s.secure);
  auto six = http("http://[fd00::1]/c");
  EXPECT_EQ("fd00::1", six.host);
  EXPECT_EQ(80, six.port);
  EXPECT_EQ("[fd00::1]", six.authority);
  auto name = http("https://config.example.org");
  EXPECT_EQ("config.example.org", name.host);
  EXPECT_EQ(443, name.port);
  EXPECT_EQ("/", name.target);
  EXPECT_TRUE(name.secure);
}

// Catches: a uuid that was given and is replaced; a uuid without '=' that is not replaced; a path
// that is not sent as it was written.
TEST(ConfigSource, PathAndQueryAreSentAsWritten) {
  EXPECT_EQ("/c?uuid=given", http("http://10.5.0.1/c?uuid=given").target);
  EXPECT_EQ("/c?uuid=u-1", http("http://10.5.0.1/c?uuid").target);
  EXPECT_EQ("/a//b%2Fc/?x&y=%20", http("http://10.5.0.1/a//b%2Fc/?x&y=%20").target);
  EXPECT_EQ("/c", http("http://10.5.0.1/c#there").target);
}

// Catches: a variable replaced in a path, where it may be part of a file's name; a value that could
// end the query or begin another key; a variable that is sent to the server as it was written, or
// as nothing.
TEST(ConfigSource, VariablesAreReplacedInTheQueryOnly) {
  EXPECT_EQ("/c?h=n1&m=52%3A54%3A00%3Aaa%3Abb%3Acc&s=S%201",
            http("http://10.5.0.1/c?h=${hostname}&m=${MAC}&s=${serial}").target);
  EXPECT_EQ("/c?id=a-u-1-n1.", http("http://10.5.0.1/c?id=a-${uuid}-${hostname}.").target);
  EXPECT_EQ("/${uuid}/c?x=1", http("http://10.5.0.1/${uuid}/c?x=1").target);
  EXPECT_THAT(refused("http://10.5.0.1/c?x=${code}"),
              HasSubstr("\"${code}\" is not a variable; use ${uuid}"));
  EXPECT_THAT(refused("http://10.5.0.1/c?x=${uuid"), HasSubstr("without a \"}\""));
  auto unknown = kj::runCatchingExceptions(
      [] { configSource(parse("talos.config=http://10.5.0.1/c?x=${mac}&secret=1"), {}); });
  auto& error = KJ_ASSERT_NONNULL(unknown);
  EXPECT_EQ(kindOf(error), ErrorKind::kUnavailable);
  EXPECT_EQ(messageOf(error),
            "kernel parameter talos.config=http://10.5.0.1/c: ${mac} of this "
            "machine is not known");
}

// Catches: a file or a volume taken for a server.
TEST(ConfigSource, FilesAndVolumes) {
  auto file = configSource(parse("talos.config=file:///a/config.yaml"), {});
  EXPECT_EQ("/a/config.yaml", KJ_ASSERT_NONNULL(file).get<FileSource>().path);
  auto iso = configSource(parse("talos.config=metal-iso"), {});
  EXPECT_EQ("metal-iso", KJ_ASSERT_NONNULL(iso).get<VolumeSource>().label);
}

// Catches: a bad parameter that is ignored, or refused without naming the valid values; a token of
// the query on the console.
TEST(ConfigSource, InvalidParameterIsRefusedWithTheValidValues) {
  EXPECT_THAT(refused("ftp://10.5.0.1/c"), HasSubstr("the scheme \"ftp\" is not supported"));
  EXPECT_THAT(refused("tftp://10.5.0.1/c"), HasSubstr("\"tftp\" is not supported"));
  EXPECT_THAT(refused("nonsense"), HasSubstr("not a valid URL; use http://"));
  EXPECT_THAT(refused("file://c"), HasSubstr("not an absolute path of a file"));
  EXPECT_THAT(refused("file:///c/"), HasSubstr("not an absolute path of a file"));
  EXPECT_THAT(refused("http:///c"), testing::Not("accepted"));
  EXPECT_THAT(refused("http://10.5.0.1:0/c"), HasSubstr("port"));
  EXPECT_THAT(refused("http://10.5.0.1:70000/c"), HasSubstr("port"));
  EXPECT_THAT(refused("http://[::1/c"), testing::Not("accepted"));
  EXPECT_THAT(refused("http://[::g]/c"), testing::Not("accepted"));
  EXPECT_THAT(refused("http://a:b:80/c"), HasSubstr("neither a host name nor an address"));
  auto host = [](size_t length) { return kj::str("http://", kj::repeat('a', length), "/c"); };
  EXPECT_THAT(refused(host(253)), "accepted");
  EXPECT_THAT(refused(host(254)), HasSubstr("neither a host name nor an address"));
  EXPECT_THAT(refused("http://me:secret@h/c"), HasSubstr("user name"));
  for (auto url : {"http://me:secret@h/c", "ftp://me:secret@h", "http://me:s@secret@h/a@b",
                   "me:secret@h/c", "ftp://h/c?token=secret", "ftp://h/c#secret"}) {
    EXPECT_THAT(refused(url), testing::Not(HasSubstr("secret"))) << url;
  }
}

std::string redirect(kj::StringPtr from, kj::StringPtr location) {
  std::string result;
  auto problem = refusal([&]() {
    auto to = redirected(http(from), location);
    result = kj::str(to.secure ? "https " : "http ", to.host, " ", to.port, " ", to.target).cStr();
  });
  return result.empty() ? problem : result;
}

// Catches: a relative redirect that loses its folder or its server; a secure fetch that is led into
// the open; headers smuggled by way of a target.
TEST(Redirect, RedirectIsResolvedAgainstItsSource) {
  auto from = "http://h:8080/a/b?x=1"_kj;
  EXPECT_EQ("http h 8080 /a/c", redirect(from, "c"));
  EXPECT_EQ("http h 8080 /c?y=2", redirect(from, "/c?y=2"));
  EXPECT_EQ("http i 80 /c", redirect(from, "//i/c"));
  EXPECT_EQ("https i 443 /c", redirect(from, "https://i/c"));
  EXPECT_EQ("https j 1 /", redirect("https://h/", "https://j:1"));
  EXPECT_THAT(redirect("https://h/", "http://h/c?token"),
              HasSubstr("from https to http://h/c, which"));
  EXPECT_THAT(redirect("https://h/", "http://me:secret@h/c"),
              testing::AllOf(HasSubstr("from https to"), testing::Not(HasSubstr("secret"))));
  EXPECT_THAT(redirect(from, "file:///etc/shadow"), HasSubstr("neither http nor https"));
  EXPECT_THAT(redirect(from, "/c d"), HasSubstr("a blank or control character"));
  EXPECT_THAT(redirect(from, "http://x:99999/"), HasSubstr("port"));
}

// Catches: one of several authorities lost; an invalid one skipped without an error.
TEST(Authorities, OfTheCommandLine) {
  EXPECT_TRUE(configAuthorities(parse("talos.config=x")) == nullptr);
  auto a = pki::makeAuthority({.organization = "a"}).certificate;
  auto b = pki::makeAuthority({.organization = "b"}).certificate;
  // The body of a PEM block is the base64 of DER.
  std::string der;
  for (char c : b) {
    if (c != '\n') der += c;
  }
  der = der.substr(27, der.size() - 27 - 25);
  auto pem = kj::encodeBase64(a.asBytes());
  auto both =
      configAuthorities(parse(kj::str("talos.config.ca=", pem, " talos.config.ca=", der.c_str())));
  auto text = kj::str(KJ_ASSERT_NONNULL(both));
  EXPECT_THAT(text.cStr(), HasSubstr(a.cStr()));
  auto second = text.slice(a.size());
  EXPECT_EQ(pki::fingerprint(b), pki::fingerprint(second));
  EXPECT_THAT(refusal([&]() {
                configAuthorities(parse(kj::str("talos.config.ca=", pem, " talos.config.ca=!")));
              }),
              HasSubstr("talos.config.ca, number 2: not valid base64; use"));
  EXPECT_THAT(refusal([&]() { configAuthorities(parse("talos.config.ca=aGVsbG8=")); }),
              HasSubstr("number 1: "));
}

}  // namespace
}  // namespace talos::machined
