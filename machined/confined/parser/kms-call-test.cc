// Calls of a key server over pipes, with honest and other servers. What the brain does around a
// call is tested in machined/disk/encryption/kms-client-test.cc.
#include "machined/confined/parser/kms-call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <kj/encoding.h>

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/tls/pki.h"
#include "common/tls/tls.h"
#include "machined/confined/parser/test-kms.h"

namespace talos::parse {
namespace {

using machined::KmsCall, machined::TestKms;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kNode = "4c4c4544-0051-3010-8036-b7c04f4d5931";
constexpr auto kSecret = "0123456789abcdef0123456789abcdef"_kj;

struct KmsCallTest : testing::Test {
  ~KmsCallTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  TestKms kms{kNode};
  KmsCall call{.host = "kms.example.org", .authority = "kms.example.org:4050", .node = kNode};
  std::vector<std::string> steps;
  kj::Maybe<TlsEndpoint> tls;

  kj::Promise<void> serve(kj::Own<kj::AsyncIoStream> stream) {
    KJ_IF_MAYBE (server, tls) {
      stream = (co_await server->accept(kj::mv(stream), kj::str("node"))).stream;
    }
    co_await kms.serve(timer, kj::mv(stream));
  }
  // Returns the bytes, or "Kind: error".
  std::string ask() {
    auto pipe = kj::newTwoWayPipe();
    auto serving = serve(kj::mv(pipe.ends[0])).eagerlyEvaluate([](kj::Exception&&) {});
    std::string result;
    steps.clear();
    auto asking = kj::evalNow([&] {
      return callKms(timer, kj::mv(pipe.ends[1]), call,
                     [&](kj::StringPtr doing) { steps.push_back(doing.cStr()); });
    });
    auto done = asking.then(
        [&](kj::Array<kj::byte> bytes) {
          result.assign(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
        },
        [&](kj::Exception&& e) { result = kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr(); });
    if (!done.poll(scope)) timer.advanceTo(timer.now() + machined::kKmsTimeout);
    done.wait(scope);
    return result;
  }
  std::string seal() {
    call.secret = kSecret.asBytes();
    call.userData = nullptr;
    return ask();
  }
  std::string unseal(const std::string& sealed) {
    auto userData =
        kj::str("{\"sealedData\":\"",
                kj::encodeBase64(kj::arrayPtr(sealed.data(), sealed.size()).asBytes()), "\"}");
    call.secret = nullptr;
    call.userData = userData;
    return ask();
  }
};

// Catches: a key that does not come back; a call without the UUID, or with other methods or fields
// than the server has.
TEST_F(KmsCallTest, SealsAndUnseals) {
  auto sealed = seal();
  ASSERT_EQ(60u, sealed.size()) << sealed;
  EXPECT_EQ(1u, kms.seals);
  EXPECT_EQ(kSecret.cStr(), unseal(sealed));
  EXPECT_THAT(steps, ElementsAre("waiting for the answer"));
  EXPECT_NE(sealed, seal());
}

// Catches: a volume that is encrypted with a key that its server does not give back.
TEST_F(KmsCallTest, AKeyThatTheServerDoesNotReturnIsNotUsed) {
  kms.keys.clear();
  EXPECT_EQ(seal(),
            "FailedPrecondition: it does not return the key that it has sealed; it may not "
            "know this machine, 4c4c4544-0051-3010-8036-b7c04f4d5931");
}

// Catches: an answer of a wrong size that is used, or for which the call waits.
TEST_F(KmsCallTest, AnswersOfServersThatAreNotHonest) {
  auto sealed = seal();
  struct {
    const char* method;
    size_t size;
    const char* error;
  } rows[] = {
      {"Seal", 0, "InvalidArgument: it sealed the key to 0 bytes; must be 1 to 4096"},
      {"Seal", 4097, "InvalidArgument: it sealed the key to 4097 bytes; must be 1 to 4096"},
      {"Seal", 65536, "bytes"},
      {"Unseal", 0, "InvalidArgument: it unsealed a key of 0 bytes; must be 32"},
      {"Unseal", 31, "InvalidArgument: it unsealed a key of 31 bytes; must be 32"},
      {"Unseal", 33, "InvalidArgument: it unsealed a key of 33 bytes; must be 32"},
  };
  for (auto& row : rows) {
    kms.changes = [&](const std::string& method, std::string bytes) {
      bool is = method == std::string("/sidero.kms.KMSService/") + row.method;
      return is ? std::string(row.size, 'x') : bytes;
    };
    auto error = row.method == std::string("Seal") ? seal() : unseal(sealed);
    EXPECT_THAT(error, HasSubstr(row.error)) << row.method << " " << row.size;
  }
  kms.changes = [](const std::string&, std::string bytes) { return bytes; };
  kms.spoils = [](std::string) { return std::string("\x0a\x7f\x01"); };
  EXPECT_THAT(unseal(sealed), HasSubstr("InvalidArgument: not a protobuf message"));
  kms.spoils = [](std::string) { return std::string(); };
  EXPECT_THAT(unseal(sealed), HasSubstr("a key of 0 bytes"));
  kms.spoils = [](std::string m) { return m; };
  kms.refusal = {7, kj::str("not today")};
  EXPECT_EQ("PermissionDenied: not today", unseal(sealed));
  kms.refusal = {};
  kms.silent = true;
  EXPECT_THAT(unseal(sealed), HasSubstr("DeadlineExceeded: "));
}

// Catches: bytes of a foreign header that end the process, or go to the server.
TEST_F(KmsCallTest, WhatIsNotASealedKeyIsRefused) {
  auto refused = [&](kj::StringPtr userData) {
    call.secret = nullptr;
    call.userData = userData;
    return ask();
  };
  auto bytes = TestKms::random(4097);
  auto large = kj::str("{\"sealedData\":\"",
                       kj::encodeBase64(kj::arrayPtr(bytes.data(), bytes.size()).asBytes()), "\"}");
  for (auto text : {"x"_kj, "{}"_kj, "[]"_kj, "null"_kj, R"({"sealedData":1})"_kj,
                    R"({"sealedData":""})"_kj, R"({"sealedData":"?"})"_kj, large.asPtr()}) {
    EXPECT_THAT(refused(text),
                HasSubstr("FailedPrecondition: what the header has of the sealed key is not valid"))
        << text.cStr();
  }
  EXPECT_EQ(0u, kms.unseals);
}

// Catches: a key that is sent to a server without a valid certificate, or with that of another
// name; a private CA that is not trusted although the caller names it.
TEST_F(KmsCallTest, TlsIsVerified) {
  auto authority = pki::makeAuthority({.organization = "kms"});
  auto other = pki::makeAuthority({.organization = "other"});
  auto leaf = pki::issue(authority.certificate, authority.key,
                         {.dnsNames = kj::arr(kj::str("kms.example.org"))});
  auto& server = tls.emplace();
  server.replaceAnonymous(leaf.certificate, leaf.key);
  server.enableHttp2();
  call.secure = true;
  call.authorities = authority.certificate;
  auto sealed = seal();
  ASSERT_EQ(60u, sealed.size()) << sealed;
  EXPECT_EQ(kSecret.cStr(), unseal(sealed));
  EXPECT_THAT(steps, ElementsAre("waiting for the TLS handshake", "waiting for the answer"));
  kms.unseals = 0;
  call.host = "other.example.org";
  EXPECT_THAT(unseal(sealed), HasSubstr("Unauthenticated: TLS handshake with other.example.org"));
  call.host = "kms.example.org";
  call.authorities = other.certificate;
  EXPECT_THAT(unseal(sealed), HasSubstr("Unauthenticated: TLS handshake with kms.example.org"));
  call.authorities = "";
  EXPECT_THAT(unseal(sealed), HasSubstr("InvalidArgument: no CA certificate is given"));
  call.authorities = authority.certificate;
  tls = nullptr;
  EXPECT_THAT(unseal(sealed), HasSubstr("TLS handshake with kms.example.org"));
  EXPECT_EQ(0u, kms.unseals);
}

}  // namespace
}  // namespace talos::parse
