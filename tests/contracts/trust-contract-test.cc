// The errors of trustd on its socket, compared with those that the schema names.
#include "rpc/trust.capnp.h"

#include <gtest/gtest.h>

#include "tests/contracts/schema-comments.h"
#include "trustd/test-trustd-node.h"

namespace talos {
namespace {

using trustd::testing::ask;
using trustd::testing::TestTrustd;

struct TrustContract : testing::Test {
  ~TrustContract() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  TestTrustd node{io};
  std::set<ErrorKind> ofCertificate, ofProve;

  template <typename T>
  T wait(kj::Promise<T> promise) {
    return node.timer.timeoutAfter(20 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
  template <typename T>
  void note(std::set<ErrorKind>& kinds, kj::Promise<T> call) {
    auto failure = kj::runCatchingExceptions([&] { wait(kj::mv(call)); });
    KJ_IF_MAYBE (e, failure) kinds.insert(kindOf(*e));
  }
  // Requests a certificate over a new connection.
  void certificate(kj::StringPtr from, kj::StringPtr request,
                   kj::StringPtr token = trustd::testing::kToken) {
    auto caller = wait(node.call(from));
    note(ofCertificate, caller.certificate(request, token));
  }
  void prove(kj::StringPtr from, kj::StringPtr token = trustd::testing::kToken) {
    auto caller = wait(node.call(from));
    note(ofProve, caller.prove(token));
  }
};

// Catches: an error of trustd that its callers do not know, like one that made a worker wait
// forever; a documented error that does not happen.
TEST_F(TrustContract, TheErrorsAreThoseOfTheDocuments) {
  node.keeps = {.bytes = 64u << 10, .perHolder = 8u << 10, .fair = 2u << 10};
  wait(node.start());
  auto own = ask({"10.0.0.1"}, {"w1"}).request;
  certificate("10.0.0.1", own);
  prove("10.0.0.1");
  ASSERT_TRUE(ofCertificate.empty() && ofProve.empty()) << "the honest caller is refused";

  certificate("10.0.0.2", ask({"10.0.0.2"}, {"w1"}).request);  // that is another's name
  certificate("10.0.0.2", ask({"10.0.0.9"}).request);
  certificate("10.0.0.2", "no request");
  certificate("10.0.0.2", ask({"10.0.0.2"}, {"*.example.org"}).request);
  for (unsigned i = 0; i < 60; ++i) {
    certificate("10.0.0.3", ask({"10.0.0.3"}, {kj::str("flood-", i)}).request);
  }
  for (auto turn : {1, 2}) {  // the second of them is too early
    (void)turn;
    certificate("10.0.0.4", ask({"10.0.0.4"}).request, "abcdef.ffffffffffffffff");
    prove("10.0.0.5", "abcdef.ffffffffffffffff");
  }
  node.model.controlPlaneKnown = false;
  wait(node.publish());
  certificate("10.0.0.6", ask({"10.0.0.6"}, {"w6"}).request);
  node.model.withSecrets = false;
  wait(node.publish());
  certificate("10.0.0.6", ask({"10.0.0.6"}).request);
  prove("10.0.0.6");

  SchemaComments comments(TALOS_SOURCE_DIR);
  auto schema = capnp::Schema::from<rpc::Trust>();
  auto named = [&](const char* method) {
    return errorsNamedIn(comments.of(schema.getMethodByName(method)));
  };
  EXPECT_EQ(named("certificate"), ofCertificate);
  EXPECT_EQ(named("prove"), ofProve);
}

}  // namespace
}  // namespace talos
