#include "machined/config/config-fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "common/testing/test-zip.h"
#include "common/tls/pki.h"
#include "machined/confined/parser-client/test-web-server.h"
#include "machined/confined/parser/test-direct-foreign.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A server in this process. The test's time advances when nothing else can happen.
class FetchTest : public testing::Test {
 protected:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::vector<std::string> said;
  kj::Vector<kj::String> addresses;
  kj::String authorities;
  DirectForeign foreign;
  unsigned resolved = 0;
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "private"});

  FetchDependencies deps{
      .network = io.provider->getNetwork(),
      .timer = timer,
      .clock = kj::systemPreciseCalendarClock(),
      .random = []() { return 0.5; },
      .say = [this](kj::StringPtr line) { said.push_back(line.cStr()); },
      .resolve = [this](kj::StringPtr host) -> kj::Promise<kj::Array<kj::String>> {
        ++resolved;
        if (addresses.empty()) return kj::arr(kj::str(host));
        return KJ_MAP(a, addresses) {
          return kj::str(a);
        };
      },
      .authorities = [this]() -> kj::Promise<kj::String> { return kj::str(authorities); },
      .foreign = foreign,
      .sockets = *io.lowLevelProvider};

  FetchTest() { authorities = kj::str(authority.certificate); }
  ~FetchTest() noexcept override {}

  double now() { return (timer.now() - kj::origin<kj::TimePoint>()) / kj::MILLISECONDS / 1e3; }

  HttpSource source(kj::StringPtr url) {
    auto arguments = kj::str("talos.config=", url);
    auto found = configSource(KernelArguments(arguments.asArray()), {.uuid = kj::str("u-1")});
    return kj::mv(KJ_ASSERT_NONNULL(found).get<HttpSource>());
  }
  HttpSource here(TestServer& server, kj::StringPtr path = "/c?uuid=") {
    return source(kj::str("http://127.0.0.1:", server.port(), path));
  }

  // Returns the config, or the error.
  std::string fetch(HttpSource from) {
    std::string result;
    auto all = fetchConfig(deps, kj::mv(from))
                   .then([&](kj::Array<char> bytes) { result.assign(bytes.begin(), bytes.size()); })
                   .catch_([&](kj::Exception&& e) {
                     EXPECT_EQ(ErrorKind::kUnavailable, kindOf(e));
                     result = messageOf(e).cStr();
                   });
    while (!all.poll(io.waitScope)) {
      timer.advanceTo(KJ_ASSERT_NONNULL(timer.nextEvent(), "nobody waits for anything"));
    }
    all.wait(io.waitScope);
    return result;
  }
};

// Catches: a config that arrives changed, a UUID that is not filled in, a wait before the first
// try.
TEST_F(FetchTest, Fetches) {
  TestServer server(io, ok("config"));
  EXPECT_EQ("config", fetch(here(server)));
  EXPECT_THAT(server.asked, ElementsAre("GET /c?uuid=u-1 HTTP/1.1"));
  EXPECT_EQ(0, now());
  server.behaviour = ok(zip("packed"));
  EXPECT_EQ("packed", fetch(here(server)));
  server.behaviour =
      answer("200 OK", "Transfer-Encoding: chunked\r\n", "3\r\ncon\r\n3\r\nfig\r\n0\r\n\r\n");
  EXPECT_EQ("config", fetch(here(server)));
  server.behaviour = answer("200 OK", "Connection: close\r\n", "config");
  EXPECT_EQ("config", fetch(here(server)));
}

// Catches: a fetch that gives up at the first refusal, or prints the same error again and again.
TEST_F(FetchTest, RetriesAndTellsOnce) {
  TestServer server(io, ok("config"));
  auto good = server.behaviour;
  unsigned n = 0;
  server.behaviour = [&](kj::AsyncIoStream& stream) {
    return ++n <= 3 ? answer("503 Busy", "Content-Length: 0\r\n", "")(stream) : good(stream);
  };
  EXPECT_EQ("config", fetch(here(server)));
  EXPECT_EQ(4u, server.asked.size());
  ASSERT_EQ(1u, said.size());
  EXPECT_THAT(said[0], HasSubstr("retrying error: http://127.0.0.1:"));
  EXPECT_THAT(said[0], HasSubstr("503 Busy"));
  EXPECT_THAT(said[0], Not(HasSubstr("u-1")));
}

// Catches: a fetch that retries for ever; an error that hides the last cause or shows the query.
TEST_F(FetchTest, EndsAtItsLimit) {
  TestServer server(io, answer("503 Busy", "Content-Length: 0\r\n", ""));
  auto why = fetch(here(server));
  EXPECT_THAT(why, HasSubstr("within 70 s: the server answered 503 Busy"));
  EXPECT_THAT(why, Not(HasSubstr("u-1")));
  EXPECT_LE(now(), 70);
}

// Catches: a fetch that gives up on a server that starts after the node.
TEST_F(FetchTest, ServerLateBy20Seconds) {
  auto port = TestServer(io, ok("")).port();
  kj::Maybe<TestServer> server;
  auto later = timer.afterDelay(20 * kj::SECONDS)
                   .then([&]() { server.emplace(io, ok("config"), nullptr, port); })
                   .eagerlyEvaluate(nullptr);
  EXPECT_EQ("config", fetch(source(kj::str("http://127.0.0.1:", port, "/"))));
  ASSERT_EQ(1u, said.size());
  EXPECT_THAT(said[0], HasSubstr("connecting to 127.0.0.1 port"));
  EXPECT_THAT(said[0], HasSubstr("Connection refused"));
  EXPECT_GE(now(), 20);
  EXPECT_LT(now(), 40);
}

// Catches: one hanging connection that uses up the whole time.
TEST_F(FetchTest, ServerThatDoesNotAnswer) {
  TestServer server(io, ok("config"));
  auto good = server.behaviour;
  bool first = true;
  server.behaviour = [&](kj::AsyncIoStream& stream) -> kj::Promise<void> {
    if (!first) return good(stream);
    first = false;
    return kj::NEVER_DONE;
  };
  EXPECT_EQ("config", fetch(here(server)));
  EXPECT_THAT(said, ElementsAre(HasSubstr("timed out after 10 s: waiting for the answer")));
  EXPECT_LT(now(), 11);
}

// Catches: a server that delays the fetch for ever by sending a byte a second.
TEST_F(FetchTest, ServerThatSendsAByteASecondIsGivenUp) {
  TestServer server(io, nullptr);
  server.behaviour = [&](kj::AsyncIoStream& stream) -> kj::Promise<void> {
    co_await sendAll(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
    for (;;) {
      co_await timer.afterDelay(1 * kj::SECONDS);
      co_await sendAll(stream, "x");
    }
  };
  auto why = fetch(here(server));
  EXPECT_THAT(why, HasSubstr("within 70 s: timed out after "));
  EXPECT_THAT(said[0], HasSubstr("timed out after 10 s: reading the answer, 9 bytes received"));
  EXPECT_LE(now(), 70);
}

kj::Promise<void> reset(kj::AsyncIoStream& stream, std::string text) {
  co_await sendAll(stream, text);
  struct linger hard = {1, 0};
  stream.setsockopt(SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

// Catches: half a config that is used; an answer that is not a config and is used, or whose error
// names neither the source nor the cause.
TEST_F(FetchTest, InvalidAnswersAreRefusedWithSourceAndCause) {
  struct {
    TestServer::Behaviour behaviour;
    const char* cause;
  } table[] = {
      {answer("200 OK", "Content-Length: 100\r\n", "machine:"),
       "the answer was cut off after 8 of 100 bytes"},
      {[](kj::AsyncIoStream& s) {
         return reset(s, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nmachine:");
       },
       "the answer was cut off after "},
      {answer("200 OK", "Transfer-Encoding: chunked\r\n", "8\r\nmachine:\r\n"),
       "the answer was cut off after 8 bytes"},
      {answer("404 Not Found", "Content-Length: 2\r\n", "no"), "the server answered 404 Not Found"},
      {answer("204 No Content", "", ""), "the server answered 204 No Content"},
      {ok(""), "the server sent empty"},
      {ok("<!DOCTYPE html><html>"), "the server sent a web page"},
      {ok(std::string("\x7f"
                      "ELF\0\0",
                      6)),
       "the server sent binary data"},
      {ok(std::string(5u << 20, 'a')), "the answer is larger than 4 MiB"},
      {ok(zip(kj::str(kj::repeat('a', 5u << 20)))), "cannot unpack the gzip data to at most 4 MiB"},
      {ok(zip("machine: {}").substr(0, 15)), "cannot unpack the gzip data"},
      {answer("302 Found", "Content-Length: 0\r\n", ""),
       "the server answered 302 Found without a location"},
      {answer("302 Found", "Location: ftp://x/\r\nContent-Length: 0\r\n", ""),
       "redirected to ftp://x/, which is neither"},
      {answer("302 Found", "Location: /c\r\nContent-Length: 0\r\n", ""),
       "redirected more than 5 times"},
      {[](kj::AsyncIoStream& s) { return sendAll(s, "SSH-2.0-OpenSSH\r\n\r\n"); }, ""},
      {[](kj::AsyncIoStream&) -> kj::Promise<void> { return kj::READY_NOW; }, ""},
  };
  for (auto& row : table) {
    TestServer server(io, row.behaviour);
    auto why = fetch(here(server, "/secret-is-in-the-query?secret"));
    EXPECT_THAT(why, HasSubstr(kj::str("cannot fetch the machine config from http://127.0.0.1:",
                                       server.port(), "/")
                                   .cStr()));
    EXPECT_THAT(why, HasSubstr(row.cause));
    EXPECT_THAT(why, Not(HasSubstr("?secret")));
    EXPECT_GT(server.asked.size(), 4u) << row.cause;
  }
}

// Catches: a redirect that is not followed, is followed with the old server's name, or is reported
// wrongly.
TEST_F(FetchTest, FollowsRedirects) {
  TestServer to(io, ok("config"));
  auto there = kj::str("Location: http://127.0.0.1:", to.port(), "/d?t=1\r\nContent-Length: 0\r\n");
  TestServer from(io, answer("307 Temporary Redirect", there.cStr(), ""));
  EXPECT_EQ("config", fetch(here(from)));
  EXPECT_THAT(to.asked, ElementsAre("GET /d?t=1 HTTP/1.1"));
  to.behaviour = answer("410 Gone", "Content-Length: 0\r\n", "");
  EXPECT_THAT(fetch(here(from)),
              HasSubstr(kj::str(":", to.port(), "/d: the server answered 410 Gone").cStr()));
}

// Catches: a name whose first address does not work.
TEST_F(FetchTest, TriesEveryAddress) {
  TestServer server(io, ok("config"));
  addresses.add(kj::str("127.0.0.2"));  // an address without a listener
  addresses.add(kj::str("127.0.0.1"));
  auto url = kj::str("http://config.example.org:", server.port(), "/");
  EXPECT_EQ("config", fetch(source(url)));
  EXPECT_EQ(1u, resolved);
  EXPECT_TRUE(said.empty());
}

// Catches: a name whose first address neither accepts nor refuses connections.
TEST_F(FetchTest, AnAddressThatDoesNotAnswerHasItsTime) {
  TestServer server(io, ok("config"));
  // The listener never accepts, and its queue is full: further connections get no answer.
  int fd;
  KJ_SYSCALL(fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  kj::AutoCloseFd full(fd);
  struct sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = htons(server.port());
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  KJ_SYSCALL(bind(fd, reinterpret_cast<struct sockaddr*>(&name), sizeof(name)));
  KJ_SYSCALL(listen(fd, 0));
  kj::Vector<kj::AutoCloseFd> queue;
  for (int i = 0; i < 2; ++i) {
    int one;
    KJ_SYSCALL(one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    queue.add(one);
    connect(one, reinterpret_cast<struct sockaddr*>(&name), sizeof(name));
  }
  addresses.add(kj::str("127.0.0.2"));
  addresses.add(kj::str("127.0.0.1"));
  EXPECT_EQ("config", fetch(source(kj::str("http://config.example.org:", server.port(), "/"))));
  EXPECT_TRUE(said.empty());
  EXPECT_EQ(3, now());
}

// Catches: a wrong limit of redirects, by one.
TEST_F(FetchTest, FiveRedirectsAreFollowed) {
  for (unsigned most : {5u, 6u}) {
    TestServer server(io, ok("config"));
    auto good = server.behaviour;
    auto on = answer("302 Found", "Location: /c\r\nContent-Length: 0\r\n", "");
    unsigned n = 0;
    server.behaviour = [&](kj::AsyncIoStream& stream) { return (n++ < most ? on : good)(stream); };
    EXPECT_EQ("config", fetch(here(server)));
    if (most == 5) EXPECT_TRUE(said.empty());
  }
  EXPECT_THAT(said, ElementsAre(HasSubstr("redirected more than 5 times")));
}

// Catches: an error of a failed lookup that does not have the name.
TEST_F(FetchTest, FailedLookupNamesTheHost) {
  deps.resolve = [](kj::StringPtr host) -> kj::Promise<kj::Array<kj::String>> {
    return error(ErrorKind::kUnavailable, kj::str("cannot resolve \"", host, "\""));
  };
  EXPECT_THAT(fetch(source("http://config.example.org/")),
              HasSubstr("cannot resolve \"config.example.org\""));
}

class TlsFetchTest : public FetchTest {
 protected:
  kj::Own<kj::TlsContext> identity(pki::LeafOptions options) {
    auto pair = pki::issue(authority.certificate, authority.key, kj::mv(options));
    kj::TlsKeypair keys{kj::TlsPrivateKey(kj::StringPtr(pki::toPkcs8(pair.key))),
                        kj::TlsCertificate(pair.certificate)};
    kj::TlsContext::Options tls;
    tls.useSystemTrustStore = false;
    tls.defaultKeypair = keys;
    return kj::heap<kj::TlsContext>(kj::mv(tls));
  }
  kj::Own<kj::TlsContext> good() { return identity({.addresses = kj::arr(kj::str("127.0.0.1"))}); }
  HttpSource there(TestServer& server) {
    return source(kj::str("https://127.0.0.1:", server.port(), "/c"));
  }
};

// Catches: a private CA that is not trusted, a redirect to https that is not followed.
TEST_F(TlsFetchTest, ServerOfATrustedPrivateCaIsAccepted) {
  auto tls = good();
  TestServer server(io, ok("config"), *tls);
  EXPECT_EQ("config", fetch(there(server)));
  auto location =
      kj::str("Location: https://127.0.0.1:", server.port(), "/\r\nContent-Length: 0\r\n");
  TestServer open(io, answer("301 Moved", location.cStr(), ""));
  EXPECT_EQ("config", fetch(here(open)));
}

// Catches: a config with the cluster's keys that is accepted from a server without a verified
// identity, or a request whose token such a server gets.
TEST_F(TlsFetchTest, ServerWithoutAVerifiedIdentityIsRefused) {
  auto refusal = [&](kj::Own<kj::TlsContext> tls) {
    TestServer server(io, ok("config"), *tls);
    auto why = fetch(there(server));
    EXPECT_TRUE(server.asked.empty());
    return why;
  };
  auto right = []() { return kj::arr(kj::str("127.0.0.1")); };
  EXPECT_THAT(refusal(identity({.dnsNames = kj::arr(kj::str("other.example.org"))})),
              HasSubstr("IP address mismatch"));
  auto longAgo = kj::systemPreciseCalendarClock().now() - 48 * kj::HOURS;
  auto expired =
      refusal(identity({.addresses = right(), .lifetime = 1 * kj::HOURS, .notBefore = longAgo}));
  EXPECT_THAT(expired, HasSubstr("certificate has expired (the clock of this node is at "));
  EXPECT_THAT(refusal(identity({.addresses = right(), .notBefore = longAgo + 96 * kj::HOURS})),
              HasSubstr("certificate is not yet valid (the clock"));
  auto tls = good();
  authorities = pki::makeAuthority({.organization = "another"}).certificate;
  EXPECT_THAT(refusal(kj::mv(tls)), HasSubstr("certificate"));
}

// Catches: an https request that a server answers without TLS, and an error with text from a server
// of another protocol.
TEST_F(TlsFetchTest, APlainServerIsNoSecureOne) {
  TestServer server(io, ok("config"));
  EXPECT_THAT(fetch(there(server)), HasSubstr("TLS handshake with 127.0.0.1: "));
  TestServer closes(io, ok("config"));
  auto tls = good();
  TestServer secure(
      io,
      answer("302 Found",
             kj::str("Location: http://127.0.0.1:", closes.port(), "/\r\nContent-Length: 0\r\n")
                 .cStr(),
             ""),
      *tls);
  EXPECT_THAT(fetch(there(secure)), HasSubstr("redirected from https to http://127.0.0.1"));
  EXPECT_TRUE(closes.asked.empty());
}

}  // namespace
}  // namespace talos::machined
