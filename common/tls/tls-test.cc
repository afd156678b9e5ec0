#include "common/tls/tls.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/thread.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <string>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/lines.h"

namespace talos {
namespace {

const auto kLongAgo = kj::UNIX_EPOCH + 1'000'000'000 * kj::SECONDS;

struct Authority {
  pki::CertificateAndKey pair;
  explicit Authority(kj::StringPtr name) : pair(pki::makeAuthority({.organization = name})) {}

  Credentials leaf(pki::LeafOptions options, kj::StringPtr trusted) const {
    auto made = pki::issue(pair.certificate, pair.key, kj::mv(options));
    return {kj::str(trusted), kj::mv(made.certificate), kj::mv(made.key)};
  }
  Credentials server() const {
    return leaf({.dnsNames = kj::arr(kj::str("node1")), .addresses = kj::arr(kj::str("10.5.0.2"))},
                pair.certificate);
  }
  Credentials client(kj::StringPtr role = "os:admin") const {
    return leaf({.commonName = "someone", .organizations = kj::arr(kj::str(role))},
                pair.certificate);
  }
};

class Tls : public testing::Test {
 public:
  ~Tls() noexcept override {}

 protected:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  Authority talos{"talos"};

  struct Outcome {
    kj::Maybe<TlsEndpoint::Accepted> accepted;
    kj::Maybe<kj::Own<kj::AsyncIoStream>> connected;
    kj::String serverError, clientError;
    ErrorKind serverKind = ErrorKind::kInternal, clientKind = ErrorKind::kInternal;
  };

  // Both ends of one handshake over a socket pair. A TLS 1.3 client is done before the server has
  // judged its certificate, so a refusal reaches it with the first read.
  Outcome shake(TlsEndpoint& server, TlsEndpoint& client, kj::StringPtr name = "node1") {
    auto pipe = io.provider->newTwoWayPipe();
    Outcome out;
    auto accepting = server.accept(kj::mv(pipe.ends[0]), kj::str("192.0.2.7"))
                         .then([&](TlsEndpoint::Accepted a) { out.accepted = kj::mv(a); },
                               [&](kj::Exception&& e) {
                                 out.serverError = messageOf(e);
                                 out.serverKind = kindOf(e);
                               });
    auto connecting = client.connect(kj::mv(pipe.ends[1]), name)
                          .then([&](kj::Own<kj::AsyncIoStream> s) { out.connected = kj::mv(s); },
                                [&](kj::Exception&& e) {
                                  out.clientError = messageOf(e);
                                  out.clientKind = kindOf(e);
                                });
    auto both = kj::heapArrayBuilder<kj::Promise<void>>(2);
    both.add(kj::mv(accepting));
    both.add(kj::mv(connecting));
    kj::joinPromises(both.finish()).wait(io.waitScope);
    return out;
  }

  void expectEcho(kj::AsyncIoStream& from, kj::AsyncIoStream& to) {
    auto writing = from.write("ping", 4);
    char buffer[4];
    to.read(buffer, 4).wait(io.waitScope);
    writing.wait(io.waitScope);
    EXPECT_EQ(kj::heapString(buffer, 4), "ping");
  }
};

// Catches: roles that do not arrive (KJ shows a common name only), bytes that do not flow.
TEST_F(Tls, ServerLearnsWhoCalls) {
  TlsEndpoint server(talos.server()), client(talos.client("os:reader"));
  auto out = shake(server, client);
  auto& accepted = KJ_ASSERT_NONNULL(out.accepted, out.serverError, out.clientError);
  EXPECT_EQ(accepted.peer.address, "192.0.2.7");
  EXPECT_EQ(accepted.peer.commonName, "someone");
  EXPECT_EQ(kj::strArray(accepted.peer.organizations, ","), "os:reader");
  auto& connected = KJ_ASSERT_NONNULL(out.connected);
  expectEcho(*connected, *accepted.stream);
  expectEcho(*accepted.stream, *connected);
}

// Catches: a protocol that is not offered; a protocol that later connections of the endpoint offer
// too.
TEST_F(Tls, AClientNamesItsProtocolOnlyWhereItIsAskedTo) {
  TlsEndpoint endpoint(talos.client());
  TlsVerifier verifier(talos.client().authorities);
  auto hello = [&](auto& client, kj::StringPtr protocol) {
    auto pipe = io.provider->newTwoWayPipe();
    auto connecting = client.connectWithAlpn(protocol, kj::mv(pipe.ends[1]), "node1");
    char buffer[2048];
    auto size = pipe.ends[0]->tryRead(buffer, 100, sizeof buffer).wait(io.waitScope);
    return std::string(buffer, size);
  };
  const std::string kExtension("\0\x10\0\x05\0\x03\x02h2", 9);
  EXPECT_NE(std::string::npos, hello(endpoint, "h2").find(kExtension));
  EXPECT_EQ(std::string::npos, hello(endpoint, "").find(kExtension));
  EXPECT_NE(std::string::npos, hello(verifier, "h2").find(kExtension));
  EXPECT_EQ(std::string::npos, hello(verifier, "").find(kExtension));
}

// Catches: a server that does not select HTTP/2 for clients that require it, selects it for others,
// or refuses them.
TEST_F(Tls, AServerSelectsHttp2WhereAClientOffersIt) {
  struct Row {
    const char* offered;  // each name with its length
    bool http2;
    const char* chosen;
  };
  Row rows[] = {{"\2h2", true, "h2"},
                {"\10http/1.1\2h2", true, "h2"},
                {"\10http/1.1", true, ""},
                {"", true, ""},
                {"\2h2", false, ""}};
  for (auto& row : rows) {
    TlsEndpoint server(talos.server());
    if (row.http2) server.enableHttp2();
    server.replace(talos.server());  // its protocols do not depend on its certificate
    int ends[2];
    KJ_SYSCALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    kj::AutoCloseFd theirs(ends[1]);
    auto context = SSL_CTX_new(TLS_client_method());
    KJ_DEFER(SSL_CTX_free(context));
    auto own = talos.client();
    BIO* pem = BIO_new_mem_buf(own.certificate.begin(), static_cast<int>(own.certificate.size()));
    auto* certificate = PEM_read_bio_X509(pem, nullptr, nullptr, nullptr);
    BIO_free(pem);
    SSL_CTX_use_certificate(context, certificate);
    X509_free(certificate);
    auto pkcs8 = pki::toPkcs8(own.key);
    auto key = kj::StringPtr(pkcs8);
    pem = BIO_new_mem_buf(key.begin(), static_cast<int>(key.size()));
    auto* secret = PEM_read_bio_PrivateKey(pem, nullptr, nullptr, nullptr);
    BIO_free(pem);
    SSL_CTX_use_PrivateKey(context, secret);
    EVP_PKEY_free(secret);
    auto* ssl = SSL_new(context);
    KJ_DEFER(SSL_free(ssl));
    SSL_set_fd(ssl, theirs);
    auto length = static_cast<unsigned>(strlen(row.offered));
    if (length > 0) {
      SSL_set_alpn_protos(ssl, reinterpret_cast<const uint8_t*>(row.offered), length);
    }
    bool connected = false;
    {
      kj::Thread shaking([&] { connected = SSL_connect(ssl) == 1; });
      auto stream = io.lowLevelProvider->wrapSocketFd(kj::AutoCloseFd(ends[0]));
      server.accept(kj::mv(stream), kj::str("192.0.2.7")).wait(io.waitScope);
    }
    EXPECT_TRUE(connected) << row.offered;
    const unsigned char* chosen = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl, &chosen, &size);
    EXPECT_EQ(std::string(chosen, chosen + size), row.chosen) << row.offered;
  }
}

// Catches: a client that takes any server of the authority for the one that it dialled.
TEST_F(Tls, ServerMustBearTheNameThatWasDialled) {
  TlsEndpoint server(talos.server()), client(talos.client());
  for (auto name : {"node1"_kj, "10.5.0.2"_kj}) {
    auto out = shake(server, client, name);
    EXPECT_TRUE(out.connected != nullptr) << name.cStr() << ": " << out.clientError.cStr();
  }
  for (auto name : {"node2"_kj, "10.5.0.3"_kj}) {
    auto out = shake(server, client, name);
    EXPECT_TRUE(out.connected == nullptr) << name.cStr();
    // apid/gate/unverified-peers.cc looks for this text.
    auto expected = name == "node2" ? "hostname mismatch" : "IP address mismatch";
    EXPECT_TRUE(containsText(out.clientError, expected)) << out.clientError.cStr();
    EXPECT_EQ(out.clientKind, ErrorKind::kUnauthenticated);
  }
}

// Catches: a server that accepts an unknown client, and an error that does not say why it refused.
TEST_F(Tls, RefusedClientsLeaveAnError) {
  Authority other("talos");  // the same name, another key
  auto& ours = talos.pair.certificate;
  struct Row {
    const char* name;
    Credentials client;
    const char* error;
  };
  Row rows[] = {
      {"another authority", other.leaf({.organizations = kj::arr(kj::str("os:admin"))}, ours),
       "unable to get local issuer certificate"},
      {"expired", talos.leaf({.lifetime = 1 * kj::HOURS, .notBefore = kLongAgo}, ours),
       "certificate has expired"},
      {"not yet valid",
       talos.leaf({.notBefore = kj::systemPreciseCalendarClock().now() + 2 * kj::HOURS}, ours),
       "certificate is not yet valid"},
      {"for servers only", talos.leaf({.client = false}, ours), "purpose"},
  };
  TlsEndpoint server(talos.server());
  for (auto& row : rows) {
    TlsEndpoint client(kj::mv(row.client));
    auto out = shake(server, client);
    EXPECT_TRUE(out.accepted == nullptr) << row.name;
    EXPECT_TRUE(containsText(out.serverError, row.error))
        << row.name << ": " << out.serverError.cStr();
    EXPECT_TRUE(containsText(out.serverError, "192.0.2.7")) << out.serverError.cStr();
    EXPECT_EQ(out.serverKind, ErrorKind::kUnauthenticated) << row.name;
  }
}

// Catches: a refused client that is left to believe that it is connected.
TEST_F(Tls, RefusedClientLearnsItWithItsFirstRead) {
  TlsEndpoint server(talos.server());
  TlsEndpoint client(
      talos.leaf({.lifetime = 1 * kj::HOURS, .notBefore = kLongAgo}, talos.pair.certificate));
  auto out = shake(server, client);
  auto& connected = KJ_ASSERT_NONNULL(out.connected, out.clientError);
  char byte;
  auto failure = kj::runCatchingExceptions([&] { connected->read(&byte, 1).wait(io.waitScope); });
  EXPECT_TRUE(containsText(KJ_ASSERT_NONNULL(failure).getDescription(), "certificate expired"))
      << KJ_ASSERT_NONNULL(failure).getDescription().cStr();
}

// Catches: a refusal because of a validity that is not in the error, so that the reader cannot see
// whose clock is wrong; the validity of the wrong certificate.
TEST_F(Tls, ValidityIsInTheErrorsOfBothEnds) {
  auto now = kj::systemPreciseCalendarClock().now();
  constexpr auto kYear = 365 * kj::DAYS;
  struct Row {
    const char* name;
    kj::Duration begin, lifetime;
    const char* error;
  };
  for (auto& row :
       {Row{"a clock ten years ahead", -10 * kYear, 1 * kj::DAYS, "has expired"},
        Row{"a minute too late", -1 * kj::DAYS, 1 * kj::DAYS - 1 * kj::MINUTES, "has expired"},
        Row{"a clock ten years behind", 10 * kYear, 1 * kj::DAYS, "not yet valid"},
        Row{"a minute too early", 1 * kj::MINUTES, 1 * kj::DAYS, "not yet valid"}}) {
    auto from = now + row.begin;
    auto begin = dateText(from), end = dateText(from + row.lifetime);
    auto expectTimes = [&](kj::StringPtr text, kj::StringPtr error) {
      EXPECT_TRUE(containsText(text, error)) << row.name << ": " << text.cStr();
      EXPECT_TRUE(containsText(text, kj::str("valid from ", begin, " until ", end)))
          << row.name << ": " << text.cStr();
      auto hour = kj::str("the clock here shows ", dateText(now).slice(0, 13)),
           nextHour =
               kj::str("the clock here shows ", dateText(now + 1 * kj::MINUTES).slice(0, 13));
      EXPECT_TRUE(containsText(text, hour) || containsText(text, nextHour))
          << row.name << ": " << text.cStr();
    };
    {  // the client's
      TlsEndpoint server(talos.server());
      TlsEndpoint client(
          talos.leaf({.lifetime = row.lifetime, .notBefore = from}, talos.pair.certificate));
      auto out = shake(server, client);
      EXPECT_TRUE(out.accepted == nullptr) << row.name;
      expectTimes(out.serverError, row.error);
      char byte;
      auto& connected = KJ_ASSERT_NONNULL(out.connected, out.clientError);
      auto failure =
          kj::runCatchingExceptions([&] { connected->read(&byte, 1).wait(io.waitScope); });
      expectTimes(messageOf(KJ_ASSERT_NONNULL(failure)), "refused");
      EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kUnauthenticated);
    }
    {  // the server's
      TlsEndpoint server(talos.leaf(
          {.dnsNames = kj::arr(kj::str("node1")), .lifetime = row.lifetime, .notBefore = from},
          talos.pair.certificate));
      TlsEndpoint client(talos.client());
      auto out = shake(server, client);
      EXPECT_TRUE(out.connected == nullptr) << row.name;
      expectTimes(out.clientError, row.error);
    }
    {  // the authority's
      Authority old("old");
      old.pair =
          pki::makeAuthority({.organization = "old", .lifetime = row.lifetime, .notBefore = from});
      TlsEndpoint server(old.server()), client(old.client());
      auto out = shake(server, client);
      expectTimes(out.clientError, "CA certificate: certificate");
    }
  }
}

// Catches: a client without a certificate getting in.
TEST_F(Tls, NoCertificateIsRefused) {
  TlsEndpoint server(talos.server());
  kj::TlsCertificate trusted(talos.pair.certificate);
  kj::TlsContext::Options options;
  options.useSystemTrustStore = false;
  options.trustedCertificates = kj::arrayPtr(&trusted, 1);
  kj::TlsContext anonymous(kj::mv(options));
  auto pipe = io.provider->newTwoWayPipe();
  auto connecting = anonymous.wrapClient(kj::mv(pipe.ends[1]), "node1").eagerlyEvaluate(nullptr);
  auto failure = kj::runCatchingExceptions(
      [&] { server.accept(kj::mv(pipe.ends[0]), kj::str("192.0.2.7")).wait(io.waitScope); });
  auto description = kj::str(KJ_ASSERT_NONNULL(failure).getDescription());
  EXPECT_TRUE(containsText(description, "did not return a certificate")) << description.cStr();
}

// Catches: a peer without TLS that ends in anything but an error.
TEST_F(Tls, GarbageAndSilenceAreErrors) {
  TlsEndpoint server(talos.server());
  for (bool garbage : {true, false}) {
    auto pipe = io.provider->newTwoWayPipe();
    if (garbage) pipe.ends[1]->write("GET / HTTP/1.1\r\n\r\n", 18).wait(io.waitScope);
    pipe.ends[1] = nullptr;
    auto failure = kj::runCatchingExceptions(
        [&] { server.accept(kj::mv(pipe.ends[0]), kj::str("192.0.2.7")).wait(io.waitScope); });
    EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)),
              garbage ? ErrorKind::kUnauthenticated : ErrorKind::kUnavailable)
        << KJ_ASSERT_NONNULL(failure).getDescription().cStr();
  }
}

// Catches: a renewal that drops connections, or that new handshakes do not see.
TEST_F(Tls, ReplaceServesNewHandshakesAndKeepsOldConnections) {
  Authority next("next");
  TlsEndpoint server(talos.server()), before(talos.client()), after(next.client());
  auto first = shake(server, before);
  ASSERT_TRUE(first.accepted != nullptr) << first.serverError.cStr();
  EXPECT_TRUE(shake(server, after).accepted == nullptr);
  server.replace(next.server());
  auto second = shake(server, after);
  EXPECT_TRUE(second.accepted != nullptr) << second.serverError.cStr();
  EXPECT_TRUE(shake(server, before).connected == nullptr);
  expectEcho(*KJ_ASSERT_NONNULL(first.connected), *KJ_ASSERT_NONNULL(first.accepted).stream);
}

// Catches: a rotation of the authority during which only one of the two is trusted.
TEST_F(Tls, EveryAuthorityOfTheListIsTrusted) {
  Authority next("next");
  auto credentials = talos.server();
  credentials.authorities = kj::str(talos.pair.certificate, next.pair.certificate);
  TlsEndpoint server(kj::mv(credentials));
  for (auto* authority : {&talos, &next}) {
    TlsEndpoint client(authority->leaf({}, talos.pair.certificate));
    auto out = shake(server, client);
    EXPECT_TRUE(out.accepted != nullptr) << out.serverError.cStr();
  }
}

// Catches: bad credentials that are found out only by the first client.
TEST_F(Tls, BadCredentialsAreRefusedAtOnce) {
  auto mixed = talos.server();
  mixed.key = pki::makeKey(pki::KeyType::kEd25519);
  auto untrusting = talos.server();
  untrusting.authorities = kj::str();
  auto garbled = talos.server();
  garbled.certificate = kj::str("nonsense");
  for (auto* credentials : {&mixed, &untrusting, &garbled}) {
    auto failure = kj::runCatchingExceptions([&] { TlsEndpoint(kj::mv(*credentials)); });
    EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kInvalidArgument);
  }
}

}  // namespace
}  // namespace talos
