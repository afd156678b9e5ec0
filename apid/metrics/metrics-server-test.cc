// The server of metrics as clients see it: real TLS over loopback, and a model of machined's store
// that has the key and gets the status.
#include "apid/metrics/metrics-server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <string>

#include "common/tar/test-tar.h"
#include "common/testing/test-port.h"
#include "tests/models/test-machined.h"

namespace talos::metrics {
namespace {

constexpr kj::StringPtr kServerToken = "4sJwq8vGdd0uTq1p"_kj;

struct MetricsServerTest : testing::Test {
  ~MetricsServerTest() noexcept override {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  ModelMachined machined{io, kApidUid};
  ModelKind& endpoints = machined.kind<rpc::MetricsEndpointSpec>();
  ModelKind& statuses = machined.kind<rpc::MetricsEndpointStatusSpec>();
  StoreClient store{*io.lowLevelProvider, timer, machined.socket(), kj::str("apid")};
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "talos"});
  TlsEndpoint tls;
  kj::Maybe<kj::ForkedPromise<void>> gate;  // gathering waits for this gate
  kj::Maybe<kj::Own<MetricsServer>> server;
  kj::Promise<void> serving = nullptr;
  uint16_t port = freePort();

  Credentials leaf(const pki::CertificateAndKey& by, kj::StringPtr organization) {
    auto made = pki::issue(by.certificate, by.key,
                           {.commonName = "someone",
                            .organizations = kj::arr(kj::str(organization)),
                            .addresses = kj::arr(kj::str("127.0.0.1"))});
    return {kj::str(authority.certificate), kj::mv(made.certificate), kj::mv(made.key)};
  }
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return timer.timeoutAfter(5 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
  void start() {
    tls.makeClientsOptional();
    tls.replace(leaf(authority, "os:impersonator"));
    machined.start();
    auto& made = server.emplace(
        kj::heap<MetricsServer>(*io.lowLevelProvider, timer, store, tls,
                                [this](MetricsText& out, bool pods) -> kj::Promise<void> {
                                  KJ_IF_MAYBE (g, gate) co_await g->addBranch();
                                  out.family("a_total", Type::kCounter, "Some");
                                  out.add(uint64_t{7});
                                  if (pods) co_return;
                                  out.family("no_pods", Type::kGauge, "Some");
                                  out.add(uint64_t{1});
                                }));
    serving = made->run().eagerlyEvaluate([](kj::Exception&& e) { KJ_LOG(FATAL, e); });
  }
  // Changes the store as machined does after a change of the config.
  void set(uint16_t newPort, bool plain, kj::StringPtr token, bool pods = true) {
    endpoints.set<rpc::MetricsEndpointSpec>("metrics", "runtime.MetricsController", [&](auto spec) {
      spec.setPort(newPort);
      spec.setPlain(plain);
      spec.setToken(token);
      spec.setPods(pods);
    });
  }
  void remove() { endpoints.destroy("metrics"); }
  std::string status() {
    KJ_IF_MAYBE (held, statuses.find("metrics")) {
      auto spec = ResourceOf<rpc::MetricsEndpointStatusSpec>(*held);
      return kj::str(spec.getEndpoint(), spec.getListening() ? " listening" : " ",
                     spec.getProblem())
          .cStr();
    }
    return "none";
  }
  void waitForStatus(const std::string& expected) {
    for (auto end = timer.now() + 20 * kj::SECONDS; timer.now() < end && status() != expected;) {
      wait(timer.afterDelay(1 * kj::MILLISECONDS));
    }
    ASSERT_EQ(expected, status());
  }
  std::string listening(kj::StringPtr scheme) {
    return kj::str(scheme, "://:", port, "/metrics listening").cStr();
  }

  kj::Own<kj::AsyncIoStream> dial() {
    return wait(wait(io.provider->getNetwork().parseAddress("127.0.0.1", port))->connect());
  }
  // Returns the answer to a request until the connection ends; "closed" if the connection ends
  // without an answer.
  std::string ask(kj::AsyncIoStream& stream, std::string request) {
    std::string text;
    auto ended = kj::runCatchingExceptions([&] {
      wait(stream.write(request.data(), request.size()));
      char buffer[4096];
      while (auto size = wait(stream.tryRead(buffer, 1, sizeof buffer))) text.append(buffer, size);
    });
    return text.empty() ? "closed" : text;
  }
  static std::string get(std::string headers = "", std::string line = "GET /metrics") {
    return line + " HTTP/1.1\r\nHost: node\r\nConnection: close\r\n" + headers + "\r\n";
  }
  std::string askPlain(std::string request) {
    auto stream = dial();
    return ask(*stream, kj::mv(request));
  }
  std::string askAnonymously(std::string request) {
    TlsVerifier client(authority.certificate);
    auto stream = wait(client.connect(dial(), "127.0.0.1"));
    return ask(*stream, kj::mv(request));
  }
  std::string askWith(Credentials credentials, std::string request) {
    TlsEndpoint client(kj::mv(credentials));
    auto stream = wait(client.connect(dial(), "127.0.0.1"));
    return ask(*stream, kj::mv(request));
  }
  static std::string firstLine(const std::string& text) {
    return text.substr(0, text.find("\r\n"));
  }
};

constexpr const char* kOk = "HTTP/1.1 200 OK";
constexpr const char* kUnauthorized = "HTTP/1.1 401 Unauthorized";

// Catches: a port that is open without the key, stays open after the key's removal, or is the old
// one after a change.
TEST_F(MetricsServerTest, FollowsTheKey) {
  start();
  waitForStatus("none");
  set(port, true, "");
  waitForStatus(listening("http"));
  EXPECT_EQ(kOk, firstLine(askPlain(get())));
  auto idle = dial();
  set(port, false, "");
  waitForStatus(listening("https"));
  EXPECT_EQ("closed", ask(*idle, get()));
  EXPECT_EQ("closed", askPlain(get()));
  auto before = port;
  port = freePort();
  set(port, true, "");
  waitForStatus(listening("http"));
  EXPECT_EQ(kOk, firstLine(askPlain(get())));
  std::swap(port, before);
  EXPECT_ANY_THROW(dial());
  std::swap(port, before);
  remove();
  waitForStatus("none");
  EXPECT_ANY_THROW(dial());
}

// Catches: metrics without access control; a client certificate of another authority that is not
// taken for a missing one; the token of a former config that is accepted.
TEST_F(MetricsServerTest, KnowsItsClients) {
  start();
  set(port, false, "");
  waitForStatus(listening("https"));
  auto refused = askAnonymously(get("Authorization: Bearer 4sJwq8vGdd0uTq1p\r\n"));
  EXPECT_EQ(kUnauthorized, firstLine(refused));
  EXPECT_NE(std::string::npos, refused.find("WWW-Authenticate: Bearer\r\n"));
  EXPECT_NE(std::string::npos, refused.find("os:reader"));
  EXPECT_EQ(kUnauthorized, firstLine(askWith(leaf(authority, "os:etcd:backup"), get())));
  EXPECT_EQ(kOk, firstLine(askWith(leaf(authority, "os:reader"), get())));
  auto other = pki::makeAuthority({.organization = "talos"});
  EXPECT_EQ("closed", askWith(leaf(other, "os:reader"), get()));
  set(port, false, kServerToken);
  for (auto end = timer.now() + 20 * kj::SECONDS; timer.now() < end;) {
    if (firstLine(askAnonymously(get("authorization: Bearer 4sJwq8vGdd0uTq1p\r\n"))) == kOk) break;
  }
  EXPECT_EQ(kOk, firstLine(askAnonymously(get("authorization: Bearer 4sJwq8vGdd0uTq1p\r\n"))));
  EXPECT_EQ(kUnauthorized, firstLine(askAnonymously(get("authorization: Bearer x\r\n"))));
  EXPECT_EQ(kUnauthorized, firstLine(askAnonymously(get())));
  auto& counts = KJ_ASSERT_NONNULL(server)->counts();
  EXPECT_LE(4u, counts.refused);
  EXPECT_LE(2u, counts.answered);
}

// Catches: another answer than the client requested, and work for a request that is not for
// metrics.
TEST_F(MetricsServerTest, AnswersHttp) {
  start();
  set(port, true, "");
  waitForStatus(listening("http"));
  auto text = askPlain(get());
  EXPECT_NE(std::string::npos,
            text.find("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_NE(std::string::npos, text.find("\r\n\r\n# HELP a_total Some\n# TYPE a_total counter\n"
                                         "a_total 7\n"));
  text = askPlain(get("Accept: application/openmetrics-text;version=1.0.0\r\n"));
  EXPECT_NE(std::string::npos, text.find("application/openmetrics-text; version=1.0.0"));
  EXPECT_TRUE(text.ends_with("# EOF\n"));
  struct {
    const char *line, *status;
  } rows[] = {{"GET /metrics?x=1", "HTTP/1.1 200 OK"},
              {"GET /", "HTTP/1.1 404 Not Found"},
              {"GET /metrics/", "HTTP/1.1 404 Not Found"},
              {"GET http://node/metrics", "HTTP/1.1 404 Not Found"},
              {"POST /metrics", "HTTP/1.1 405 Method Not Allowed"},
              {"DELETE /metrics", "HTTP/1.1 405 Method Not Allowed"},
              {"BREW /metrics", "HTTP/1.1 501 Not Implemented"},
              {"nonsense", "HTTP/1.1 501 Not Implemented"}};
  for (auto& row : rows) EXPECT_EQ(row.status, firstLine(askPlain(get("", row.line)))) << row.line;
  EXPECT_EQ("closed", firstLine(askPlain(get("X: " + std::string(200'000, 'x') + "\r\n"))));
}

// Catches: an answer that is compressed although the client cannot read it; one that is no gzip, or
// another text.
TEST_F(MetricsServerTest, CompressesForClientsThatAcceptIt) {
  start();
  set(port, true, "");
  waitForStatus(listening("http"));
  auto bodyOf = [](const std::string& answer) {
    return answer.substr(answer.find("\r\n\r\n") + 4);
  };
  auto plain = askPlain(get("Accept-Encoding: identity\r\n"));
  EXPECT_EQ(std::string::npos, plain.find("Content-Encoding"));
  auto answer = askPlain(get("Accept-Encoding: deflate, gzip\r\n"));
  EXPECT_EQ(kOk, firstLine(answer));
  EXPECT_NE(std::string::npos, answer.find("Content-Encoding: gzip\r\n"));
  auto packed = bodyOf(answer);
  auto text = KJ_ASSERT_NONNULL(
      gunzip(kj::arrayPtr(packed.data(), packed.size()).asBytes(), 1u << 20), packed.size());
  EXPECT_EQ(bodyOf(plain), std::string(text.asChars().begin(), text.size()));
  auto error = askPlain(get("Accept-Encoding: gzip\r\n", "GET /"));
  EXPECT_EQ(std::string::npos, error.find("Content-Encoding"));
}

// Catches: a key `pods` that has no effect, or only after a restart.
TEST_F(MetricsServerTest, SeriesOfPodsCanBeLeftOut) {
  start();
  set(port, true, "");
  waitForStatus(listening("http"));
  EXPECT_EQ(std::string::npos, askPlain(get()).find("no_pods 1"));
  set(port, true, "", false);
  bool without = false;
  for (auto end = timer.now() + 20 * kj::SECONDS; timer.now() < end && !without;) {
    auto failure = kj::runCatchingExceptions(
        [&] { without = askPlain(get()).find("no_pods 1") != std::string::npos; });
    if (failure != nullptr) wait(timer.afterDelay(1 * kj::MILLISECONDS));  // it listens again
  }
  EXPECT_TRUE(without);
}

// Catches: scrapes that accumulate while machined answers none.
TEST_F(MetricsServerTest, LimitsWhatItDoesAtOnce) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  gate = paf.promise.fork();
  start();
  set(port, true, "");
  waitForStatus(listening("http"));
  kj::Vector<kj::Own<kj::AsyncIoStream>> streams;
  kj::Vector<kj::Promise<kj::String>> answers;
  auto request = get();
  for (unsigned i = 0; i < MetricsServer::kMostScrapes; ++i) {
    streams.add(dial());
    wait(streams.back()->write(request.data(), request.size()));
    answers.add(streams.back()->readAllText());
  }
  std::string more;
  for (auto end = timer.now() + 5 * kj::SECONDS; timer.now() < end && more.empty();) {
    auto stream = dial();
    wait(stream->write(request.data(), request.size()));
    auto text = stream->readAllText()
                    .then([](kj::String text) { return std::string(text.cStr()); })
                    .exclusiveJoin(timer.afterDelay(200 * kj::MILLISECONDS).then([] {
                      return std::string();
                    }));
    more = wait(kj::mv(text));
  }
  EXPECT_EQ("HTTP/1.1 503 Service Unavailable", firstLine(more));
  paf.fulfiller->fulfill();
  unsigned answered = 0;
  for (auto& answer : answers) {
    answered += firstLine(wait(kj::mv(answer)).cStr()) == kOk;
  }
  EXPECT_EQ(+MetricsServer::kMostScrapes, answered);
}

// Catches: connections without a request that keep others out.
TEST_F(MetricsServerTest, IdleConnectionsMakeRoom) {
  start();
  set(port, true, "");
  waitForStatus(listening("http"));
  kj::Vector<kj::Own<kj::AsyncIoStream>> idle;
  for (unsigned i = 0; i < 40; ++i) idle.add(dial());
  bool answered = false;
  for (auto end = timer.now() + 10 * kj::SECONDS; timer.now() < end && !answered;) {
    answered = firstLine(askPlain(get())) == kOk;
  }
  EXPECT_TRUE(answered);
}

// Catches: a port in use that is not reported.
TEST_F(MetricsServerTest, ReportsAPortInUse) {
  auto taken = listenTcp("0.0.0.0", port);
  start();
  set(port, true, "");
  waitForStatus(kj::str("http://:", port,
                        "/metrics bind: Address already in use; address = ::; port = ", port)
                    .cStr());
}

constexpr kj::StringPtr kTestToken = "4sJwq8vGdd0uTq1p"_kj;

// Catches: access with a part of the token, with an empty token where none is set, with a
// certificate of another role, or with an unknown role.
TEST(MetricsAccess, AccessNeedsTheTokenOrACertificateWithARole) {
  struct Row {
    bool plain;
    kj::StringPtr token;
    std::initializer_list<kj::StringPtr> organizations;
    bool anonymous;
    kj::Maybe<kj::StringPtr> authorization;
    bool allowed;
  };
  const Row rows[] = {
      {true, "", {}, true, nullptr, true},
      {false, "", {}, true, nullptr, false},
      {false, "", {}, true, "Bearer "_kj, false},
      {false, "", {}, true, "Bearer x"_kj, false},
      {false, kTestToken, {}, true, nullptr, false},
      {false, kTestToken, {}, true, "Bearer 4sJwq8vGdd0uTq1p"_kj, true},
      {false, kTestToken, {}, true, "bearer 4sJwq8vGdd0uTq1p"_kj, true},
      {false, kTestToken, {}, true, "Bearer 4sJwq8vGdd0uTq1"_kj, false},
      {false, kTestToken, {}, true, "Bearer 4sJwq8vGdd0uTq1pp"_kj, false},
      {false, kTestToken, {}, true, "Bearer  4sJwq8vGdd0uTq1p"_kj, false},
      {false, kTestToken, {}, true, "Bearer 4sjwq8vgdd0utq1p"_kj, false},
      {false, kTestToken, {}, true, "Basic 4sJwq8vGdd0uTq1p"_kj, false},
      {false, kTestToken, {}, true, "4sJwq8vGdd0uTq1p"_kj, false},
      {false, "", {"os:reader"}, false, nullptr, true},
      {false, "", {"os:admin"}, false, nullptr, true},
      {false, "", {"other", "os:operator"}, false, nullptr, true},
      {false, "", {"os:reader"}, true, nullptr, false},
      {false, "", {"os:etcd:backup"}, false, nullptr, false},
      {false, "", {"os:impersonator"}, false, nullptr, false},
      {false, "", {}, false, nullptr, false},
      {false, kTestToken, {}, false, "Bearer 4sJwq8vGdd0uTq1p"_kj, true},
  };
  size_t number = 0;
  for (auto& row : rows) {
    Peer peer;
    peer.anonymous = row.anonymous;
    for (auto o : row.organizations) peer.organizations.add(kj::str(o));
    Settings settings{.port = 1, .plain = row.plain, .token = pki::Pem(kj::str(row.token))};
    auto refused = refusal(settings, peer, row.authorization);
    EXPECT_EQ(row.allowed, refused == nullptr) << number;
    KJ_IF_MAYBE (text, refused) {
      EXPECT_TRUE(text->startsWith("metrics need a client certificate")) << text->cStr();
      bool named = std::string(text->cStr()).find("Bearer") != std::string::npos;
      EXPECT_EQ(row.token.size() > 0, named) << number;
    }
    ++number;
  }
}

}  // namespace
}  // namespace talos::metrics
