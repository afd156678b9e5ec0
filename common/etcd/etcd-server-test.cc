// Tests that need the real etcd: connections, certificates, and the time after a leader's death.
#include <gmock/gmock.h>
#include <kj/debug.h>

#include "common/etcd-data/etcd-database.h"
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
    ASSERT_TRUE(RealEtcd::installed()) << RealEtcd::kProgram << " is not installed";
  }
  void begin(std::vector<unsigned> members) {
    auto& server = real.emplace();
    for (auto n : members) server.start(n, members);
    auto& fixture = this->fixture.emplace(server);
    for (auto n : members) fixture.ready(n);
  }
  kj::Maybe<RealEtcd> real;
  kj::Maybe<RealEtcdFixture> fixture;
};

// Catches: a reader of snapshots that takes another page of a real database for the newest one.
TEST_F(EtcdServer, ItsSnapshotHasItsNewestRevision) {
  begin({1});
  auto& fixture = KJ_ASSERT_NONNULL(this->fixture);
  auto& etcd = fixture.member(1);
  auto value = kj::str(kj::repeat('v', 3000));
  for (unsigned keys : {1u, 300u}) {  // one page; two levels of pages
    for (unsigned i = 0; i < keys; ++i) {
      fixture.wait(etcd.put({kj::str("k", i), kj::str(value)}));
    }
    fixture.wait(etcd.remove({{kj::str("k0")}}));
    kj::Vector<kj::byte> file;
    fixture.wait(etcd.snapshot([&](kj::ArrayPtr<const kj::byte> piece, uint64_t) {
      file.addAll(piece);
      return kj::Promise<void>(kj::READY_NOW);
    }));
    auto read = [&](uint64_t at, size_t size) {
      return kj::heapArray<kj::byte>(file.slice(at, at + size));
    };
    EXPECT_EQ(fixture.wait(etcd.status()).revision, newestRevision(file.size() - 32, read));
  }
}

// Catches: a client that stays disconnected after its server restarted; a client that hangs while
// its server does; a watch that continues silently.
TEST_F(EtcdServer, IsFoundAgainAfterARestart) {
  begin({1});
  auto& real = KJ_ASSERT_NONNULL(this->real);
  auto& fixture = KJ_ASSERT_NONNULL(this->fixture);
  auto& etcd = fixture.member(1);
  fixture.wait(etcd.put({kj::str("k"), kj::str("v")}));
  EtcdClient hasty(*fixture.io.lowLevelProvider, fixture.timer(), fixture.credentials,
                   RealEtcd::client(1), {.call = 300 * kj::MILLISECONDS, .change = kTimeout / 3});
  auto watch = fixture.wait(etcd.watch({{kj::str("k")}}));
  fixture.eventually(ErrorKind::kDeadlineExceeded, [&]() { return hasty.status().ignoreResult(); });
  real.signal(1, SIGSTOP);
  EXPECT_THAT(fixture.failure(hasty.put({kj::str("other"), kj::str("w")})),
              StartsWith("DeadlineExceeded: "));
  real.signal(1, SIGCONT);
  fixture.eventually(ErrorKind::kDeadlineExceeded, [&]() { return hasty.status().ignoreResult(); });
  auto waiting = watch->next();
  EXPECT_FALSE(waiting.poll(fixture.scope())) << "the connection was kept";
  real.kill(1);
  EXPECT_THAT(fixture.failure(kj::mv(waiting)),
              AllOf(StartsWith("Unavailable: "), HasSubstr("was lost")));
  EXPECT_THAT(fixture.failure(etcd.status()),
              AllOf(StartsWith("Unavailable: etcd at "), HasSubstr("Connection refused")));
  real.start(1, {1});
  fixture.ready(1);
  EXPECT_EQ("v", fixture.wait(etcd.range({{kj::str("k")}})).kvs[0].value);
}

// Catches: a client that trusts any server or is trusted by any; a client whose error does not
// mention the certificates that caused it; a client that never tries the new ones.
TEST_F(EtcdServer, LetsInWhoHasTheRightCertificate) {
  begin({1});
  auto& fixture = KJ_ASSERT_NONNULL(this->fixture);
  TlsEndpoint credentials;
  EtcdClient client(*fixture.io.lowLevelProvider, fixture.timer(), credentials, RealEtcd::client(1),
                    kSlow);
  EXPECT_THAT(fixture.failure(client.status()), HasSubstr("this node has no certificate yet"));
  RealEtcd foreign;
  credentials.replace(foreign.credentials());
  EXPECT_THAT(fixture.failure(client.status()),
              AllOf(StartsWith("Unauthenticated: etcd at "), HasSubstr("certificate")));
  auto mixed = foreign.credentials();
  mixed.authorities = KJ_ASSERT_NONNULL(real).credentials().authorities;
  credentials.replace(kj::mv(mixed));
  EXPECT_THAT(fixture.failure(client.status()),
              AllOf(StartsWith("Unauthenticated: etcd at "),
                    HasSubstr("refused this node's certificate: tlsv1 alert unknown ca")));
  credentials.replace(KJ_ASSERT_NONNULL(real).credentials());
  fixture.wait(client.status());
  EtcdClient elsewhere(*fixture.io.lowLevelProvider, fixture.timer(), credentials,
                       {KJ_ASSERT_NONNULL(Ip::parse("127.0.0.1")), 1}, kSlow);
  EXPECT_EQ("Unavailable: etcd at 127.0.0.1:1: Connection refused",
            fixture.failure(elsewhere.status()));
}

// Catches: effects of a leader's death beyond a few calls to retry: a watch through another member
// that is lost, a lease that is lost, a call that hangs beyond its deadline. The model must behave
// in the same way (etcd-model-test.cc).
TEST_F(EtcdServer, ALeadersDeathIsOutlivedThroughAnotherMember) {
  begin({1, 2, 3});
  auto& real = KJ_ASSERT_NONNULL(this->real);
  auto& fixture = KJ_ASSERT_NONNULL(this->fixture);
  unsigned leader = 0;
  while (leader == 0) {
    for (unsigned n = 1; n <= 3; ++n) {
      auto status = fixture.wait(fixture.member(n).status());
      if (status.leader == status.member) leader = n;
    }
  }
  auto at = RealEtcd::client(leader % 3 + 1);
  EtcdClient client(*fixture.io.lowLevelProvider, fixture.timer(), fixture.credentials, at,
                    {.call = 1 * kj::SECONDS, .change = kTimeout / 3});
  auto& steady = fixture.member(leader % 3 + 1);
  auto lease = fixture.wait(steady.grant(10 * kj::SECONDS));
  fixture.wait(steady.put({kj::str("k"), kj::str("old"), lease.id}));
  auto watch = fixture.wait(steady.watch({{kj::str("k")}}));
  fixture.wait(client.status());
  real.kill(leader);
  auto died = fixture.timer().now();
  unsigned tries = 0;
  for (std::string failed = "-"; failed != "none"; ++tries) {
    auto began = fixture.timer().now();
    failed = fixture.failure(client.put({kj::str("k"), kj::str("new"), lease.id}));
    EXPECT_THAT(failed, testing::AnyOf("none", StartsWith("DeadlineExceeded: "),
                                       StartsWith("Unavailable: ")));
    EXPECT_LT(fixture.timer().now() - began, 10 * kj::SECONDS);
    ASSERT_LT(fixture.timer().now() - died, kTimeout);
    if (failed != "none") fixture.wait(fixture.timer().afterDelay(20 * kj::MILLISECONDS));
  }
  EXPECT_GT(tries, 1) << "somebody has to notice first";
  auto events = fixture.wait(watch->next());
  EXPECT_EQ("new", events.events[0].kv.value);
  EXPECT_EQ(lease.ttl, fixture.wait(client.keepAlive(lease.id)).ttl);
}

}  // namespace
}  // namespace talos::etcd
