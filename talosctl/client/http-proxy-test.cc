#include "talosctl/client/http-proxy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "common/base/error.h"

namespace talos::talosctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

template <typename F>
std::string proxyFailure(F&& f) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { f(); })) {
    return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e)).cStr();
  }
  return "no failure";
}

// Catches: a port of the path, an address without its brackets, a password that the proxy gets in
// its escaped form.
TEST(HttpProxy, IsReadFromItsUrl) {
  struct {
    kj::StringPtr value, address, credentials;
  } table[] = {
      {"http://proxy.example.org:3128", "proxy.example.org:3128", ""},
      {"proxy.example.org:3128", "proxy.example.org:3128", ""},
      {"proxy.example.org", "proxy.example.org:80", ""},
      {"HTTP://10.0.0.9:8080/", "10.0.0.9:8080", ""},
      {"http://[fd00::9]:3128/path:1?x#y", "[fd00::9]:3128", ""},
      {"[fd00::9]:3128", "[fd00::9]:3128", ""},
      {"fd00::9", "[fd00::9]:80", ""},
      {"https://proxy.example.org", "proxy.example.org:443", ""},
      {"http://user:p%40ss@proxy.example.org:3128", "proxy.example.org:3128", "user:p@ss"},
      {"user:pa:ss@10.0.0.9:1", "10.0.0.9:1", "user:pa:ss"},
      {"http://user@10.0.0.9:1", "10.0.0.9:1", "user:"},
      {"http://us@er:p@10.0.0.9:65535", "10.0.0.9:65535", "us@er:p"},
  };
  for (auto& row : table) {
    auto proxy = parseProxy("https_proxy", row.value);
    EXPECT_EQ(proxy.address(), row.address) << row.value.cStr();
    EXPECT_EQ(proxy.credentials, row.credentials) << row.value.cStr();
    EXPECT_EQ(proxy.variable, "https_proxy"_kj);
  }
}

// Catches: a URL that is ignored because it is wrong; a message with the password.
TEST(HttpProxy, AUrlThatIsNotOfAnHttpProxyIsNamed) {
  struct {
    kj::StringPtr value, error;
  } table[] = {
      {"socks5://user:secret@10.0.0.9:1080", "the scheme must be http"},
      {"ftp://secret@10.0.0.9", "the scheme must be http"},
      {"http://", "the host is not a valid address or name"},
      {"http://:3128", "the host is not a valid address or name"},
      {"http://user:secret@:3128", "the host is not a valid address or name"},
      {"http://user:secret@a b:3128", "the host is not a valid address or name"},
      {"http://user:secret@[fd00::9", "the host is not a valid address or name"},
      {"http://user:sec/ret@10.0.0.9:1", "the port must be 1 to 65535"},
      {"http://10.0.0.9:0", "the port must be 1 to 65535"},
      {"http://10.0.0.9:65536", "the port must be 1 to 65535"},
      {"http://10.0.0.9:3128\n", "the port must be 1 to 65535"},
      {"http://user:secret%zz@10.0.0.9:1", "% that begins no escape"},
      {"https://user:secret@10.0.0.9:1", "the connection to the proxy has no TLS"},
  };
  for (auto& row : table) {
    EXPECT_THAT(proxyFailure([&] { parseProxy("HTTPS_PROXY", row.value); }),
                AllOf(StartsWith("InvalidArgument: HTTPS_PROXY: "), HasSubstr(row.error.cStr()),
                      HasSubstr("; use http://HOST:PORT"), Not(HasSubstr("secret")),
                      Not(HasSubstr("sec/"))))
        << row.value.cStr();
  }
}

// Catches: a node of the private network that is called through the proxy, or a node that is not
// because its name ends like another one.
TEST(HttpProxy, NoProxyExcludesHostsAsInGo) {
  struct {
    kj::StringPtr list, host;
    bool direct;
  } table[] = {
      {"", "node.example.org", false},
      {"", "10.0.0.2", false},
      {"", "localhost", true},
      {"", "LocalHost", true},
      {"", "127.0.0.1", true},
      {"", "127.9.8.7", true},
      {"", "::1", true},
      {"", "::ffff:127.0.0.1", true},
      {"*", "node.example.org", true},
      {"a.example, *", "10.0.0.2", true},
      {"example.org", "example.org", true},
      {"example.org", "node.example.org", true},
      {"example.org", "badexample.org", false},
      {" Example.ORG ", "NODE.example.org", true},
      {".example.org", "node.example.org", true},
      {".example.org", "example.org", false},
      {"*.example.org", "node.example.org", true},
      {"*.example.org", "example.org", false},
      {"example.org:50000", "node.example.org", true},
      {"example.org:6443", "node.example.org", false},
      {"10.0.0.2", "10.0.0.2", true},
      {"10.0.0.2", "10.0.0.20", false},
      {"10.0.0.2:50000", "10.0.0.2", true},
      {"10.0.0.2:80", "10.0.0.2", false},
      {"10.0.0.0/8", "10.250.0.1", true},
      {"10.5.0.9/24", "10.5.0.200", true},
      {"10.0.0.0/8", "11.0.0.1", false},
      {"10.0.0.0/8", "node.example.org", false},
      {"10.0.0.0/8", "::ffff:10.0.0.2", true},
      {"10.0.0.0/99", "10.0.0.2", false},
      {"fd00::/8", "fd12::1", true},
      {"fd00::1", "FD00:0::1", true},
      {"fd00::1", "fd00::11", false},
      {"[fd00::1]:50000", "fd00::1", true},
      {"[fd00::1]:80", "fd00::1", false},
      {",, ,", "10.0.0.2", false},
      {":50000", "10.0.0.2", false},
      {"a.example,b.example,10.0.0.2", "10.0.0.2", true},
  };
  for (auto& row : table) {
    EXPECT_EQ(isReachedDirectly(row.list, row.host, 50000), row.direct)
        << row.list.cStr() << " " << row.host.cStr();
  }
}

// Catches: a variable of another scheme that is read; an empty variable that hides the other one.
TEST(HttpProxy, ComesFromTheVariablesOfHttps) {
  using Variables = std::map<std::string, std::string>;
  struct {
    Variables variables;
    kj::StringPtr used;  // "variable address"; empty: no proxy
  } table[] = {
      {{}, ""},
      {{{"HTTP_PROXY", "http://a:1"}, {"ALL_PROXY", "http://a:1"}, {"http_proxy", "http://a:1"}},
       ""},
      {{{"HTTPS_PROXY", "http://a:1"}}, "HTTPS_PROXY a:1"},
      {{{"https_proxy", "http://a:1"}}, "https_proxy a:1"},
      {{{"HTTPS_PROXY", "http://a:1"}, {"https_proxy", "http://b:1"}}, "HTTPS_PROXY a:1"},
      {{{"HTTPS_PROXY", ""}, {"https_proxy", "http://b:1"}}, "https_proxy b:1"},
      {{{"HTTPS_PROXY", "http://a:1"}, {"NO_PROXY", "10.0.0.0/8"}}, ""},
      {{{"HTTPS_PROXY", "http://a:1"}, {"no_proxy", "10.0.0.0/8"}}, ""},
      {{{"HTTPS_PROXY", "http://a:1"}, {"NO_PROXY", "192.0.2.1"}, {"no_proxy", "*"}},
       "HTTPS_PROXY a:1"},
      {{{"HTTPS_PROXY", "socks5://a:1"}, {"NO_PROXY", "*"}}, ""},
  };
  for (auto& row : table) {
    kj::Function<kj::Maybe<kj::String>(kj::StringPtr)> environment =
        [&row](kj::StringPtr name) -> kj::Maybe<kj::String> {
      auto found = row.variables.find(name.cStr());
      if (found == row.variables.end()) return nullptr;
      return kj::str(found->second.c_str());
    };
    kj::String used;
    KJ_IF_MAYBE (proxy, proxyFor(environment, "10.0.0.2", 50000)) {
      used = kj::str(proxy->variable, " ", proxy->address());
    }
    EXPECT_EQ(used, row.used);
  }
}

// Returns "status|reason|bytes that follow", or the failure.
std::string readAnswer(kj::StringPtr text) {
  std::string result = "incomplete";
  auto failure = proxyFailure([&] {
    ProxyAnswerReader reader;
    for (size_t i = 0; i < text.size(); ++i) {
      KJ_IF_MAYBE (answer, reader.add(text[i])) {
        result = kj::str(answer->status, "|", answer->reason, "|", text.slice(i + 1)).cStr();
        return;
      }
    }
  });
  return failure == "no failure" ? result : failure;
}

// Catches: bytes of the tunnel that are taken for the answer; an answer without an end that is read
// for ever; control characters of a proxy on the terminal.
TEST(HttpProxy, TheHeadOfItsAnswer) {
  struct {
    kj::StringPtr text;
    std::string read;
  } table[] = {
      {"HTTP/1.1 200 OK\r\n\r\n", "200|OK|"},
      {"HTTP/1.0 200 Connection established\r\nVia: x\r\n\r\nhello",
       "200|Connection established|hello"},
      {"HTTP/1.1 200\r\n\r\n", "200||"},
      {"HTTP/1.1 407 Proxy Authentication Required\nA: b\n\n",
       "407|Proxy Authentication Required|"},
      {"HTTP/1.1 502 \x1b[1mBad\r\n\r\n", "502|?[1mBad|"},
      {"", "incomplete"},
      {"HTT", "incomplete"},
      {"HTTP/1.1 200 OK\r\nVia: x\r\n", "incomplete"},
      {"SSH-2.0-x\r\n", "Unavailable: its answer is not HTTP: it may expect TLS, or SOCKS"},
      {"\x15\x03\x01", "Unavailable: its answer is not HTTP: it may expect TLS, or SOCKS"},
      {"HTTP/2 200\r\n", "Unavailable: its answer is not HTTP: it may expect TLS, or SOCKS"},
      {"\r\n", "Unavailable: its answer is not HTTP: it may expect TLS, or SOCKS"},
      {"HTTP\n", "Unavailable: its answer has no status of HTTP"},
      {"HTTP/1.1 2000 OK\r\n", "Unavailable: its answer has no status of HTTP"},
      {"HTTP/1.1 20 OK\r\n", "Unavailable: its answer has no status of HTTP"},
      {"HTTP/1.1 099 OK\r\n", "Unavailable: its answer has no status of HTTP"},
      {"HTTP/1.x 200 OK\r\n", "Unavailable: its answer has no status of HTTP"},
  };
  for (auto& row : table) EXPECT_EQ(readAnswer(row.text), row.read) << row.text.cStr();
  auto endless = "HTTP/1.1 200 OK\r\n" + std::string(kMostProxyHead, 'x');
  EXPECT_EQ(readAnswer(endless.c_str()), "Unavailable: its answer is longer than 16384 bytes");
  auto status = "HTTP/1.1 200 " + std::string(kMostProxyHead, 'x');
  EXPECT_EQ(readAnswer(status.c_str()), "Unavailable: its answer is longer than 16384 bytes");
  auto reason = "HTTP/1.1 500 " + std::string(1000, 'x') + "\r\n\r\n";
  EXPECT_LT(readAnswer(reason.c_str()).size(), 100u);
}

// Catches: a request that proxies refuse, bytes of the node that are lost with the answer.
TEST(HttpProxy, TheTunnelBeginsAfterTheAnswer) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  auto pipe = kj::newTwoWayPipe();
  HttpProxy proxy{"HTTPS_PROXY", kj::str("10.0.0.9"), 3128, kj::str("user:p@ss")};
  auto opening = openTunnel(kj::mv(pipe.ends[0]), proxy, "fd00::2", 50000);
  auto expected =
      "CONNECT [fd00::2]:50000 HTTP/1.1\r\nHost: [fd00::2]:50000\r\nUser-Agent: talosctl\r\n"
      "Proxy-Authorization: Basic dXNlcjpwQHNz\r\n\r\n"_kj;
  auto request = kj::heapArray<char>(expected.size());
  pipe.ends[1]->read(request.begin(), request.size()).wait(scope);
  EXPECT_EQ(kj::heapString(request), expected);
  EXPECT_FALSE(opening.poll(scope));
  auto answer = "HTTP/1.1 200 OK\r\n\r\nhello"_kj;
  auto writing = pipe.ends[1]->write(answer.begin(), answer.size());
  auto tunnel = opening.wait(scope);
  char hello[5];
  tunnel->read(hello, sizeof hello).wait(scope);
  writing.wait(scope);
  EXPECT_EQ(kj::heapString(hello, sizeof hello), "hello"_kj);
}

// Returns the failure of a tunnel through a proxy that sends this and closes the connection.
std::string refusedTunnel(kj::StringPtr answer, kj::StringPtr credentials) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  auto pipe = kj::newTwoWayPipe();
  auto& end = *pipe.ends[1];
  auto writing = end.write(answer.begin(), answer.size())
                     .then([&end] { end.shutdownWrite(); })
                     .eagerlyEvaluate([](kj::Exception&&) {});
  auto reading = end.readAllBytes().ignoreResult().eagerlyEvaluate([](kj::Exception&&) {});
  HttpProxy proxy{"HTTPS_PROXY", kj::str("10.0.0.9"), 3128, kj::str(credentials)};
  return proxyFailure(
      [&] { openTunnel(kj::mv(pipe.ends[0]), proxy, "node.example.test", 50000).wait(scope); });
}

// Catches: a refusal without its reason, or without what to do; a success of HTTP that is a
// failure.
TEST(HttpProxy, ARefusalHasTheReasonOfTheProxy) {
  struct {
    kj::StringPtr answer, credentials;
    std::string failure;
  } table[] = {
      {"HTTP/1.1 200 OK\r\n\r\n", "", "no failure"},
      {"HTTP/1.1 204 No Content\r\n\r\n", "", "no failure"},
      {"HTTP/1.1 403 Forbidden\r\n\r\n<html>", "",
       "Unavailable: it refuses a connection to node.example.test:50000: 403 Forbidden"},
      {"HTTP/1.1 502\r\n\r\n", "",
       "Unavailable: it refuses a connection to node.example.test:50000: 502"},
      {"HTTP/1.1 301 Moved\r\nLocation: http://x/\r\n\r\n", "",
       "Unavailable: it refuses a connection to node.example.test:50000: 301 Moved"},
      {"HTTP/1.1 407 Auth\r\n\r\n", "",
       "Unavailable: it refuses a connection to node.example.test:50000: 407 Auth; set a user and "
       "a "
       "password: HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT"},
      {"HTTP/1.1 407 Auth\r\n\r\n", "user:secret",
       "Unavailable: it refuses a connection to node.example.test:50000: 407 Auth; check the user "
       "and the password in HTTPS_PROXY"},
      {"", "", "Unavailable: it closed the connection without an answer"},
      {"HTTP/1.1 200 OK\r\n", "", "Unavailable: it closed the connection without an answer"},
  };
  for (auto& row : table) EXPECT_EQ(refusedTunnel(row.answer, row.credentials), row.failure);
}

}  // namespace
}  // namespace talos::talosctl
