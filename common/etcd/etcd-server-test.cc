// What only the real etcd can show: connections, certificates, and the time after a leader's death.
#include <gmock/gmock.h>
#include <kj/debug.h>

#include "common/etcd/test-etcd-fixtures.h"

namespace talos::etcd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class EtcdServer : public testing::Test {
 public:
  ~EtcdServer() noexcept override {}

 protected:
  void SetUp() override {
    if (!RealEtcd::installed()) GTEST_SKIP() << RealEtcd::kProgram << " is not installed";
  }
  void begin(std::vector<unsigned> members) {
    auto& server = real.emplace();
    for (auto n : members) server.start(n, members);
    auto& world = this->world.emplace(server);
    for (auto n : members) world.ready(n);
  }
  kj::Maybe<RealEtcd> real;
  kj::Maybe<RealWorld> world;
};

// Catches: a client that stays away after its server was restarted, one that hangs while its server
// does, a watch that goes on in silence.
TEST_F(EtcdServer, IsFoundAgainAfterARestart) {
  begin({1});
  auto& real = KJ_ASSERT_NONNULL(this->real);
  auto& world = KJ_ASSERT_NONNULL(this->world);
  auto& etcd = world.member(1);
  world.wait(etcd.put({kj::str("k"), kj::str("v")}));
  EtcdClient hasty(*world.io.lowLevelProvider, world.timer(), world.credentials,
                   RealEtcd::client(1), {.call = 300 * kj::MILLISECONDS, .change = kPatience / 3});
  auto watch = world.wait(etcd.watch({{kj::str("k")}}));
  world.eventually(ErrorKind::kDeadlineExceeded, [&]() { return hasty.status().ignoreResult(); });
  real.signal(1, SIGSTOP);
  EXPECT_THAT(world.failure(hasty.put({kj::str("other"), kj::str("w")})),
              StartsWith("DeadlineExceeded: "));
  real.signal(1, SIGCONT);
  world.eventually(ErrorKind::kDeadlineExceeded, [&]() { return hasty.status().ignoreResult(); });
  auto waiting = watch->next();
  EXPECT_FALSE(waiting.poll(world.scope())) << "the connection was kept";
  real.kill(1);
  EXPECT_THAT(world.failure(kj::mv(waiting)),
              AllOf(StartsWith("Unavailable: "), HasSubstr("was lost")));
  EXPECT_THAT(world.failure(etcd.status()),
              AllOf(StartsWith("Unavailable: etcd at "), HasSubstr("Connection refused")));
  real.start(1, {1});
  world.ready(1);
  EXPECT_EQ("v", world.wait(etcd.range({{kj::str("k")}})).kvs[0].value);
}

// Catches: a client that trusts any server or is trusted by any, that says nothing of certificates
// when they are the reason, or that never tries the new ones.
TEST_F(EtcdServer, LetsInWhoHasTheRightCertificate) {
  begin({1});
  auto& world = KJ_ASSERT_NONNULL(this->world);
  TlsEndpoint credentials;
  EtcdClient client(*world.io.lowLevelProvider, world.timer(), credentials, RealEtcd::client(1),
                    kSlow);
  EXPECT_THAT(world.failure(client.status()), HasSubstr("this node has no certificate yet"));
  RealEtcd foreign;
  credentials.replace(foreign.credentials());
  EXPECT_THAT(world.failure(client.status()),
              AllOf(StartsWith("Unauthenticated: etcd at "), HasSubstr("certificate")));
  auto mixed = foreign.credentials();
  mixed.authorities = KJ_ASSERT_NONNULL(real).credentials().authorities;
  credentials.replace(kj::mv(mixed));
  EXPECT_THAT(world.failure(client.status()),
              AllOf(StartsWith("Unauthenticated: etcd at "),
                    HasSubstr("refused this node's certificate: tlsv1 alert unknown ca")));
  credentials.replace(KJ_ASSERT_NONNULL(real).credentials());
  world.wait(client.status());
  EtcdClient elsewhere(*world.io.lowLevelProvider, world.timer(), credentials,
                       {KJ_ASSERT_NONNULL(Ip::parse("127.0.0.1")), 1}, kSlow);
  EXPECT_EQ("Unavailable: etcd at 127.0.0.1:1: Connection refused",
            world.failure(elsewhere.status()));
}

// Catches: what a leader's death costs that is more than a few calls to ask again: a watch through
// another member that is lost, a lease that is gone, a call that hangs beyond its deadline. The
// model is held to it (etcd-model-test.cc).
TEST_F(EtcdServer, ALeadersDeathIsOutlivedThroughAnotherMember) {
  begin({1, 2, 3});
  auto& real = KJ_ASSERT_NONNULL(this->real);
  auto& world = KJ_ASSERT_NONNULL(this->world);
  unsigned leader = 0;
  while (leader == 0) {
    for (unsigned n = 1; n <= 3; ++n) {
      auto status = world.wait(world.member(n).status());
      if (status.leader == status.member) leader = n;
    }
  }
  auto at = RealEtcd::client(leader % 3 + 1);
  EtcdClient client(*world.io.lowLevelProvider, world.timer(), world.credentials, at,
                    {.call = 1 * kj::SECONDS, .change = kPatience / 3});
  auto& steady = world.member(leader % 3 + 1);
  auto lease = world.wait(steady.grant(10 * kj::SECONDS));
  world.wait(steady.put({kj::str("k"), kj::str("old"), lease.id}));
  auto watch = world.wait(steady.watch({{kj::str("k")}}));
  world.wait(client.status());
  real.kill(leader);
  auto died = world.timer().now();
  unsigned tries = 0;
  for (std::string failed = "-"; failed != "none"; ++tries) {
    auto began = world.timer().now();
    failed = world.failure(client.put({kj::str("k"), kj::str("new"), lease.id}));
    EXPECT_THAT(failed, testing::AnyOf("none", StartsWith("DeadlineExceeded: "),
                                       StartsWith("Unavailable: ")));
    EXPECT_LT(world.timer().now() - began, 10 * kj::SECONDS);
    ASSERT_LT(world.timer().now() - died, kPatience);
    if (failed != "none") world.wait(world.timer().afterDelay(20 * kj::MILLISECONDS));
  }
  EXPECT_GT(tries, 1) << "somebody has to notice first";
  auto events = world.wait(watch->next());
  EXPECT_EQ("new", events.events[0].kv.value);
  EXPECT_EQ(lease.ttl, world.wait(client.keepAlive(lease.id)).ttl);
}

}  // namespace
}  // namespace talos::etcd
