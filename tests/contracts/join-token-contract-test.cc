// A worker's join with a join token, from apid's call to a model of etcd: the real trustd on its
// port, machined's socket, and etcd-supervisor's token book, which it reaches, in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apid/join/trustd-client.h"
#include "common/base/error.h"
#include "common/etcd/test-etcd.h"
#include "etcd-supervisor/control/supervisor-server.h"
#include "trustd/test-trustd-node.h"

namespace talos {
namespace {

using ::testing::HasSubstr;

class SupervisorOfTokens final : public rpc::EtcdSupervisor::Server {
 public:
  explicit SupervisorOfTokens(supervisor::JoinTokenBook& book) : book(book) {}

 protected:
  kj::Promise<void> joinTokens(JoinTokensContext context) override {
    context.getResults().setTokens(supervisor::serveJoinTokens(book));
    return kj::READY_NOW;
  }

 private:
  supervisor::JoinTokenBook& book;
};

struct JoinTokenContract : ::testing::Test {
  ~JoinTokenContract() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  trustd::testing::TestTrustd node{io};
  etcd::ModelCluster cluster{node.timer};
  etcd::ModelEtcd etcd{cluster};
  supervisor::JoinTokenBook book{{.timer = node.timer,
                                  .clock = node.clock,
                                  .member = [this]() -> etcd::Etcd& { return etcd; }}};
  pki::Pem first = pki::makeKey(pki::KeyType::kEd25519);
  pki::Pem second = pki::makeKey(pki::KeyType::kEd25519);

  void SetUp() override {
    node.machined.have(kj::heap<SupervisorOfTokens>(book));
    node.model.anyAddress = true;
    wait(node.start());
  }
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return node.timer.timeoutAfter(30 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
  supervisor::JoinTokenBook::Made create(kj::StringPtr host = "", uint64_t ttl = 3600) {
    return wait(book.create(host, ttl, "admin"));
  }
  // Makes a call of the worker with this key and host name. Loopback is no worker's address: with
  // `anyAddress` of the config the worker requests another one.
  std::string join(kj::StringPtr token, kj::StringPtr key, kj::StringPtr name,
                   kj::Maybe<apid::Identity> held = nullptr) {
    apid::TrustdRequest request{
        .server = Ip::require("127.0.0.1"),
        .pin = {.authority = kj::str(node.model.authority.certificate),
                .hash = nullptr,
                .at = nullptr},
        .token = token,
        .held = kj::mv(held),
        .addresses = nullptr,
        .certificateRequest = [&](const Ip&, kj::ArrayPtr<const Ip>) {
          return pki::makeRequest(
              key, {.dnsNames = kj::arr(kj::str(name)), .addresses = kj::arr(kj::str("10.0.0.1"))});
        }};
    kj::Maybe<kj::Exception> failure;
    wait(apid::callTrustd(*io.lowLevelProvider, node.timer, kj::mv(request), node.port)
             .then([&](apid::TrustdAnswer&& answer) { certificate = kj::mv(answer.certificate); },
                   [&](kj::Exception&& e) { failure = kj::mv(e); }));
    KJ_IF_MAYBE (e, failure) return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e)).cStr();
    return "";
  }
  // Makes a call from another address.
  std::string guess(kj::StringPtr from, kj::StringPtr token) {
    auto caller = wait(node.call(from));
    auto asked = trustd::testing::ask({from});
    auto failure =
        kj::runCatchingExceptions([&] { wait(caller.certificate(asked.request, token)); });
    KJ_IF_MAYBE (e, failure) return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e)).cStr();
    return "";
  }
  kj::String certificate;
};

// Catches: a token with which a second node joins; a node that lost an answer and cannot ask again;
// a joined node that is cut off when its token is revoked.
TEST_F(JoinTokenContract, OneWorkerJoinsOnce) {
  auto made = create();
  EXPECT_EQ(join(made.token, first, "w1"), "");
  pki::checkPair(certificate, first);
  EXPECT_THAT(join(made.token, second, "w2"),
              HasSubstr("Unauthenticated: the join token " + std::string(made.id.cStr()) +
                        " was used by another node"));
  EXPECT_EQ(join(made.token, first, "w1"), "");
  wait(book.revoke(made.id));
  EXPECT_THAT(join(made.token, first, "w1"), HasSubstr("was revoked at "));
  auto held = apid::Identity{kj::str(node.model.authority.certificate), kj::str(certificate),
                             first.clone()};
  EXPECT_EQ(join(made.token, second, "w1", kj::mv(held)), "");
  auto all = wait(book.list());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].record.get().getUsedBy(), "w1 127.0.0.1");
}

// Catches: a token that is spent by a request which gets nothing.
TEST_F(JoinTokenContract, ARefusedRequestDoesNotSpendIt) {
  auto made = create("w1");
  EXPECT_THAT(join(made.token, second, "w2"),
              HasSubstr("PermissionDenied: the join token " + std::string(made.id.cStr()) +
                        " is for the host name w1; the request has the name w2"));
  EXPECT_THAT(join(made.token, second, "cp1"), HasSubstr("belongs to the control plane"));
  EXPECT_EQ(join(made.token, first, "w1"), "");
}

// Catches: an etcd that does not answer and looks like a wrong token, so that an operator makes
// another token; a node that is refused when etcd is back.
TEST_F(JoinTokenContract, WithoutAnEtcdItIsAskedAgain) {
  auto made = create();
  etcd.faults.unreachable = true;
  EXPECT_THAT(join(made.token, first, "w1"),
              HasSubstr("Unavailable: cannot verify the join token: etcd at 10.5.0.2:2379"));
  etcd.faults = {};
  EXPECT_EQ(join(made.token, first, "w1"), "");
  node.machined.have(KJ_EXCEPTION(DISCONNECTED, "etcd-supervisor has exited"));
}

// Catches: different answers to a wrong secret of an existing token, and to an unknown token.
TEST_F(JoinTokenContract, GuessesGetOneAnswer) {
  auto made = create();
  auto wrong =
      kj::str(made.token.slice(0, made.token.size() - 1), made.token.endsWith("0") ? "1" : "0");
  auto answer = guess("10.0.0.2", wrong);
  EXPECT_THAT(answer, HasSubstr("Unauthenticated: wrong token"));
  EXPECT_EQ(guess("10.0.0.3", "join-zzzzzz.0123456789abcdef"), answer);
  EXPECT_EQ(guess("10.0.0.4", "zzzzzz.0123456789abcdef"), answer);
  EXPECT_EQ(join(made.token, first, "w1"), "");
}

}  // namespace
}  // namespace talos
