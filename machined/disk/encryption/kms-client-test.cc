// A key server on loopback, asked through the confined process. Needs root.
#include "machined/disk/encryption/kms-client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "common/testing/sanitizers.h"
#include "common/tls/pki.h"
#include "common/tls/tls.h"
#include "machined/confined/parser-client/parser-process-client.h"
#include "machined/confined/parser/test-kms.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kMachine = "4c4c4544-0051-3010-8036-b7c04f4d5931";
constexpr auto kRandomKey = "0123456789abcdef0123456789abcdef"_kj;

struct KmsClientTest : testing::Test {
  ~KmsClientTest() noexcept override {}
  void SetUp() override {
    ASSERT_EQ(0u, getuid()) << "these tests need root";
    if (kAddressSanitizer) {
      GTEST_SKIP() << "a program with sanitizers needs more calls than the filter lets through";
    }
  }

  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::String parse = kj::str(TALOS_PROGRAMS "/parse");
  ConfinedForeign foreign{io, ParserPrograms{.parse = parse}};
  TestKms server{kMachine};
  TlsEndpoint tls;
  bool secure = false;
  kj::Own<kj::ConnectionReceiver> listener =
      io.provider->getNetwork().parseAddress("127.0.0.1:0").wait(io.waitScope)->listen();
  struct Quiet final : kj::TaskSet::ErrorHandler {
    void taskFailed(kj::Exception&&) override {}
  } quiet;
  kj::TaskSet connections{quiet};
  kj::Promise<void> accepting = accept().eagerlyEvaluate(nullptr);
  std::string uuid = kMachine;
  kj::String authorities, authoritiesOfImage;
  unsigned authoritiesRead = 0;
  NetworkKms kms{dependencies(2 * kj::SECONDS)};

  NetworkKms::Dependencies dependencies(kj::Duration timeout) {
    return {.network = io.provider->getNetwork(),
            .timer = io.provider->getTimer(),
            .resolve = [](kj::StringPtr host) -> kj::Promise<kj::Array<kj::String>> {
              if (host == "127.0.0.1" || host == "kms.example.org") {
                return kj::arr(kj::str("127.0.0.1"));
              }
              return error(ErrorKind::kUnavailable, kj::str("there is no host ", host));
            },
            .authorities = [this](bool beforeConfig) -> kj::Promise<kj::String> {
              ++authoritiesRead;
              return kj::str(beforeConfig ? authoritiesOfImage : authorities);
            },
            .foreign = foreign,
            .uuid = [this]() { return kj::str(uuid.c_str()); },
            .timeout = timeout};
  }
  kj::Promise<void> accept() {
    for (;;) connections.add(serve(co_await listener->accept()));
  }
  kj::Promise<void> serve(kj::Own<kj::AsyncIoStream> stream) {
    if (secure) stream = (co_await tls.accept(kj::mv(stream), kj::str("node"))).stream;
    co_await server.serve(io.provider->getTimer(), kj::mv(stream));
  }
  kj::String at(kj::StringPtr scheme, kj::StringPtr host = "127.0.0.1") {
    return kj::str(scheme, host, ":", listener->getPort());
  }
  // Returns the result, or "Kind: error".
  template <typename Ask>
  std::string outcome(Ask&& ask) {
    std::string result;
    kj::evalNow(ask)
        .then([&](auto&& bytes) { result.assign(bytes.asChars().begin(), bytes.asChars().size()); },
              [&](kj::Exception&& e) {
                result = kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
              })
        .wait(io.waitScope);
    return result;
  }
  std::string seal(kj::StringPtr endpoint) {
    return outcome([&]() {
      return kms.seal({endpoint}, kRandomKey.asBytes()).then([](kj::String text) {
        return kj::heapArray<kj::byte>(text.asBytes());
      });
    });
  }
  std::string unseal(kj::StringPtr endpoint, const std::string& userData,
                     bool beforeConfig = false) {
    return outcome([&]() { return kms.unseal({endpoint, beforeConfig}, userData.c_str()); });
  }
};

// Catches: a process that may not use the connection, or loses a field; a token in another form
// than Talos has; a machine that is not named; a key of STATE whose server has a CA of the config.
TEST_F(KmsClientTest, SealsAndUnsealsByEachFormOfEndpoint) {
  std::string userData;
  for (auto scheme : {""_kj, "grpc://"_kj}) {
    userData = seal(at(scheme));
    EXPECT_THAT(userData, testing::MatchesRegex(R"(\{"sealedData":"[A-Za-z0-9+/]{80}"\})"))
        << scheme.cStr();
    EXPECT_EQ(kRandomKey.cStr(), unseal(at(scheme), userData)) << scheme.cStr();
  }
  EXPECT_EQ(0u, authoritiesRead);
  auto authority = pki::makeAuthority({.organization = "kms"});
  auto leaf = pki::issue(authority.certificate, authority.key,
                         {.dnsNames = kj::arr(kj::str("kms.example.org"))});
  tls.replaceAnonymous(leaf.certificate, leaf.key);
  tls.enableHttp2();
  secure = true;
  authorities = kj::str(authority.certificate);
  for (auto scheme : {"https://"_kj, "grpcs://"_kj}) {
    EXPECT_EQ(kRandomKey.cStr(), unseal(at(scheme, "kms.example.org"), userData)) << scheme.cStr();
  }
  EXPECT_EQ(2u, authoritiesRead);
  authoritiesOfImage = kj::str(pki::makeAuthority({.organization = "public"}).certificate);
  EXPECT_THAT(unseal(at("https://", "kms.example.org"), userData, true),
              HasSubstr("TLS handshake with kms.example.org"));
  EXPECT_THAT(unseal(at("https://"), userData), HasSubstr("TLS handshake with 127.0.0.1"))
      << "a certificate without the address";
  EXPECT_THAT(unseal(at("grpc://"), userData),
              StartsWith("Unavailable: the key server 127.0.0.1:"));
}

// Catches: a boot that hangs, or ends, with a server that does not answer; an error that does not
// say which server it is about, or what is wrong.
TEST_F(KmsClientTest, AServerThatIsAwayIsUnavailable) {
  auto userData = seal(at(""));
  server.silent = true;
  EXPECT_THAT(
      unseal(at(""), userData),
      testing::MatchesRegex("Unavailable: the key server 127.0.0.1:[0-9]+: no answer within "
                            "2 s: waiting for the answer"));
  server.silent = false;
  server.refusal = {14, kj::str("later")};
  EXPECT_THAT(unseal(at(""), userData),
              testing::MatchesRegex("Unavailable: the key server 127.0.0.1:[0-9]+: later"));
  server.refusal = {};
  server.keys.clear();
  EXPECT_THAT(seal(at("")), HasSubstr("it does not return the key that it has sealed"));
  EXPECT_EQ(32u, unseal(at(""), userData).size()) << "random bytes, which open nothing";
  EXPECT_EQ(unseal("nowhere.example.org:1", userData),
            "Unavailable: the key server nowhere.example.org:1: there is no host "
            "nowhere.example.org");
  auto here = at("");
  accepting = nullptr;
  listener = nullptr;
  EXPECT_THAT(unseal(here, userData), HasSubstr("Connection refused"));
}

// Catches: a request that could be of another machine; text of a header that is sent to a server.
TEST_F(KmsClientTest, WhatCannotSucceedIsAFailedPrecondition) {
  auto userData = seal(at(""));
  server.unseals = 0;
  EXPECT_EQ(unseal("kms.example.org", userData),
            "FailedPrecondition: \"kms.example.org\" is not a valid endpoint of a key server");
  EXPECT_THAT(unseal(at(""), "{}"), HasSubstr("FailedPrecondition: the key server 127.0.0.1:"));
  EXPECT_THAT(unseal(at(""), ""), StartsWith("FailedPrecondition: the header has no sealed key"));
  uuid = "";
  EXPECT_EQ(unseal(at(""), userData),
            "FailedPrecondition: a key server knows machines by their UUIDs: this machine has no "
            "UUID");
  EXPECT_EQ(0u, server.unseals);
}

}  // namespace
}  // namespace talos::machined
