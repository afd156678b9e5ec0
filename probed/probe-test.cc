// Questions over real sockets of loopback.
#include "probed/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"

namespace talos::probed {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct ProbeTest : testing::Test {
  ~ProbeTest() noexcept override {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  kj::Own<kj::ConnectionReceiver> listener =
      io.provider->getNetwork().parseAddress("127.0.0.1").wait(io.waitScope)->listen();
  pki::CertificateAndKey authority = pki::makeAuthority({}), other = pki::makeAuthority({});
  kj::StringPtr trusted = authority.certificate;
  unsigned reads = 0;  // of the CAs
  KeptAuthorities authorities{timer, [this] {
                                ++reads;
                                return kj::str(trusted);
                              }};
  unsigned accepted = 0;
  std::string request;

  // Returns the reason why the question fails; "" if the answer is good.
  std::string ask(kj::StringPtr target, bool http, kj::Duration timeout = 20 * kj::SECONDS) {
    ProbeSettings settings{kj::str(target), http, 1 * kj::SECONDS, timeout, 0};
    DialDependencies dialing{*io.lowLevelProvider, io.unixEventPort, timer};
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                        [&] { probed::ask(dialing, authorities, settings).wait(io.waitScope); })) {
      return messageOf(*e).cStr();
    }
    return "";
  }

  // Accepts one connection and answers the request, if there is an answer.
  kj::Promise<void> serve(kj::Maybe<kj::StringPtr> answer, kj::Maybe<TlsEndpoint&> tls = nullptr) {
    auto stream = co_await listener->accept();
    ++accepted;
    KJ_IF_MAYBE (endpoint, tls) {
      stream = (co_await endpoint->accept(kj::mv(stream), kj::str("probe"))).stream;
    }
    KJ_IF_MAYBE (text, answer) {
      char buffer[4096];
      auto size = co_await stream->tryRead(buffer, 1, sizeof buffer);
      request.assign(buffer, size);
      co_await stream->write(text->begin(), text->size());
    }
    co_await kj::Promise<void>(kj::NEVER_DONE);
  }
  std::string get(kj::StringPtr answer, kj::StringPtr path = "/healthz?a=b#c") {
    auto serving = serve(answer).eagerlyEvaluate(nullptr);
    return ask(kj::str("http://127.0.0.1:", listener->getPort(), path), true);
  }
};

// Catches: a host that answers and is taken for a dead one; the other way round.
TEST_F(ProbeTest, OverTcpIsAConnection) {
  auto endpoint = kj::str("127.0.0.1:", listener->getPort());
  EXPECT_EQ(ask(endpoint, false), "");
  EXPECT_EQ(ask(kj::str("localhost:", listener->getPort()), false), "");
  listener = nullptr;
  EXPECT_EQ(ask(endpoint, false), "cannot connect: Connection refused");
  EXPECT_THAT(ask("[::1]:1", false), StartsWith("cannot connect: "));
  EXPECT_THAT(ask("no-such-host.invalid:1", false), HasSubstr("no-such-host.invalid"));
}

// Catches: an answer of another class that is good; a redirect that is followed, or is bad; a text
// of the server that writes to the terminal of the reader.
TEST_F(ProbeTest, OverHttpIsAGoodStatus) {
  EXPECT_EQ(get("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), "");
  EXPECT_THAT(request, StartsWith("GET /healthz?a=b HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr(kj::str("Host: 127.0.0.1:", listener->getPort(), "\r\n").cStr()));
  EXPECT_EQ(get("HTTP/1.1 204 No Content\r\n\r\n"), "");
  EXPECT_EQ(get("HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n"),
            "");
  EXPECT_EQ(get("HTTP/1.1 399 Odd\r\nContent-Length: 0\r\n\r\n"), "");
  EXPECT_EQ(accepted, 4u);
  EXPECT_EQ(get("HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n"), "the server answered 400 Bad");
  EXPECT_EQ(get("HTTP/1.1 503 no\x1b[31m\r\nContent-Length: 0\r\n\r\n"),
            "the server answered 503 no?[31m");
  EXPECT_NE(get("SSH-2.0-OpenSSH_9.9\r\n\r\n"), "");
}

// Catches: a body without end, which a probe must not read.
TEST_F(ProbeTest, OverHttpReadsNoBody) {
  EXPECT_EQ(get("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"), "");
}

// Catches: a probe that waits without end for a host that accepts the connection and sends nothing,
// or a part of an answer.
TEST_F(ProbeTest, HasATimeout) {
  auto silent = serve(nullptr).eagerlyEvaluate(nullptr);
  auto url = kj::str("http://127.0.0.1:", listener->getPort(), "/");
  EXPECT_EQ(ask(url, true, 50 * kj::MILLISECONDS), "no answer within 50ms");
  silent = serve("HTTP/1.1 200 O"_kj).eagerlyEvaluate(nullptr);
  EXPECT_EQ(ask(url, true, 50 * kj::MILLISECONDS), "no answer within 50ms");
}

// Catches: a server of unknown identity that is good; a TrustedRootsConfig that counts after the
// next restart only; all public CAs, parsed for each question.
TEST_F(ProbeTest, OverHttpsChecksTheServer) {
  auto leaf = pki::issue(authority.certificate, authority.key,
                         {.addresses = kj::arr(kj::str("127.0.0.1")), .client = false});
  TlsEndpoint server;
  server.replaceAnonymous(leaf.certificate, leaf.key);
  constexpr kj::StringPtr kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"_kj;
  auto secure = [&](kj::StringPtr host) {
    auto serving = serve(kAnswer, server).eagerlyEvaluate([](kj::Exception&&) {});
    return ask(kj::str("https://", host, ":", listener->getPort(), "/"), true);
  };
  EXPECT_EQ(secure("127.0.0.1"), "");
  EXPECT_EQ(secure("127.0.0.1"), "");
  EXPECT_EQ(reads, 1u);
  EXPECT_NE(secure("localhost"), "") << "another name";
  kj::TimerImpl clock(kj::origin<kj::TimePoint>());
  KeptAuthorities kept(clock, [this] { return kj::str(trusted); });
  auto first = kept.verifier();
  trusted = other.certificate;
  EXPECT_EQ(kept.verifier(), first);
  clock.advanceTo(kj::origin<kj::TimePoint>() + KeptAuthorities::kKept);
  EXPECT_NE(kept.verifier(), first);
  KeptAuthorities strangers(timer, [this] { return kj::str(trusted); });
  auto serving = serve(kAnswer, server).eagerlyEvaluate([](kj::Exception&&) {});
  ProbeSettings settings{kj::str("https://127.0.0.1:", listener->getPort(), "/"), true,
                         1 * kj::SECONDS, 20 * kj::SECONDS, 0};
  auto failure = kj::runCatchingExceptions([&] {
    probed::ask({*io.lowLevelProvider, io.unixEventPort, timer}, strangers, settings)
        .wait(io.waitScope);
  });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kUnauthenticated);
}

}  // namespace
}  // namespace talos::probed
