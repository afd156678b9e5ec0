// Failures of the model at a chosen moment, which no test can ask of a real etcd. Its answers
// without failures are in etcd-table-test.cc.
#include <gmock/gmock.h>

#include "common/etcd/test-etcd.h"
#include "common/testing/virtual-time.h"

namespace talos::etcd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class EtcdModel : public testing::Test {
 public:
  ~EtcdModel() noexcept override {}

 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ModelCluster cluster{timer};
  MemberId first = cluster.leader;
  ModelEtcd etcd{cluster};

  // Returns "Kind: message" of a promise that has rejected by now, "waits" of one that has not
  // ended.
  template <typename T>
  std::string outcome(kj::Promise<T>& promise) {
    if (!promise.poll(scope)) return "waits";
    std::string result = "done";
    promise
        .then([](auto&&...) {},
              [&](kj::Exception&& e) {
                result = kj::str(talos::nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
              })
        .wait(scope);
    return result;
  }
  template <typename T>
  std::string after(kj::Duration time, kj::Promise<T> promise) {
    advance(timer, scope, time);
    return outcome(promise);
  }
  kj::Promise<PutResult> put() { return etcd.put({kj::str("k"), kj::str("v")}); }
  size_t count() { return cluster.store.range({{nullptr, true}}).kvs.size(); }
  void grow(unsigned n) {
    cluster.grow(kj::str("m", n), kj::str("https://10.5.0.", n + 1, ":2380"),
                 kj::str("https://10.5.0.", n + 1, ":2379"));
  }
};

constexpr auto kNow = 0 * kj::SECONDS;

// Catches: a fault other than its name says. Tests would conclude wrongly whether a call without an
// answer took effect.
TEST_F(EtcdModel, FaultsHappenWhereTheySayTheyDo) {
  etcd.faults.unreachable = true;
  EXPECT_EQ("Unavailable: etcd at 10.5.0.2:2379: Connection refused", after(kNow, put()));
  etcd.faults = {.hanging = true};
  EXPECT_EQ("waits", after(900 * kj::MILLISECONDS, put()));
  EXPECT_EQ("DeadlineExceeded: etcd at 10.5.0.2:2379 has not answered put in time",
            after(1 * kj::SECONDS, put()));
  EXPECT_EQ(0, count()) << "nobody has looked at it";
  etcd.faults = {.effectAfter = 2 * kj::SECONDS};
  EXPECT_THAT(after(1 * kj::SECONDS, put()), StartsWith("DeadlineExceeded: "));
  EXPECT_EQ(0, count());
  advance(timer, scope, 1 * kj::SECONDS);
  EXPECT_EQ(1, count()) << "it came late, when nobody waited any more";
  cluster.store.txn({nullptr,
                     [] {
                       kj::Vector<Operation> all;
                       all.add().init<Delete>(Delete{{nullptr, true}});
                       return all.releaseAsArray();
                     }(),
                     nullptr});
  etcd.faults = {.answerAfter = 500 * kj::MILLISECONDS};
  auto slow = put();
  EXPECT_EQ("waits", outcome(slow));
  EXPECT_EQ(1, count());
  EXPECT_EQ("done", after(500 * kj::MILLISECONDS, kj::mv(slow)));
  etcd.faults = {.answersLost = true};
  auto revision = cluster.store.revision;
  EXPECT_THAT(after(1 * kj::SECONDS, put()), StartsWith("DeadlineExceeded: "));
  EXPECT_EQ(revision + 1, cluster.store.revision);
  etcd.faults = {};
  {
    auto dropped = put();
  }
  scope.poll();
  EXPECT_EQ(revision + 2, cluster.store.revision) << "it was on its way";
  EXPECT_THAT(etcd.calls, testing::SizeIs(7));
}

// Catches: a leader whose death is not noticed; a lease that expires while there is no leader; a
// cluster that never gets a leader again.
TEST_F(EtcdModel, ALeaderThatDiesIsReplacedAfterAWhile) {
  grow(2);
  grow(3);
  auto second = first + 1;
  ModelEtcd other(cluster, second);
  auto lease = other.grant(5 * kj::SECONDS).wait(scope);
  other.put({kj::str("k"), kj::str("v"), lease.id}).wait(scope);
  auto watch = other.watch({{kj::str("k")}}).wait(scope),
       lost = etcd.watch({{kj::str("k")}}).wait(scope);
  auto change = watch->next(), end = lost->next();
  advance(timer, scope, 4500 * kj::MILLISECONDS);
  cluster.kill(first);
  EXPECT_THAT(after(kNow, kj::mv(end)), StartsWith("Unavailable: "));
  EXPECT_THAT(after(kNow, put()), HasSubstr("Connection refused"));
  auto early = other.put({kj::str("l"), kj::str("v")});
  EXPECT_EQ("waits", after(900 * kj::MILLISECONDS, kj::mv(early)));
  EXPECT_EQ("waits", outcome(change)) << "its time was over, but nobody counted";
  advance(timer, scope, 200 * kj::MILLISECONDS);
  EXPECT_EQ(second, cluster.leader);
  EXPECT_EQ("done", after(kNow, other.put({kj::str("l"), kj::str("v")})));
  EXPECT_EQ("waits", after(4 * kj::SECONDS, other.watch({{kj::str("k")}}).then([&](auto&&) {
              return kj::mv(change);
            })))
      << "it has its whole time again";
  EXPECT_EQ(2, count());
  advance(timer, scope, 1 * kj::SECONDS);
  EXPECT_EQ(1, count());
  cluster.kill(second);
  advance(timer, scope, 1 * kj::SECONDS);
  EXPECT_EQ(0, cluster.leader) << "one of three is left";
  ModelEtcd last(cluster, first + 2);
  EXPECT_EQ("Unavailable: etcd at 10.5.0.4:2379: etcdserver: no leader",
            after(kNow, last.put({kj::str("l"), kj::str("v")})));
  cluster.revive(first);
  advance(timer, scope, 1 * kj::SECONDS);
  EXPECT_EQ("done", after(kNow, last.put({kj::str("l"), kj::str("v")})));
}

// Catches: a change of members that the real etcd refuses: it counts only members that it has
// observed for five seconds.
TEST_F(EtcdModel, AClusterGuardsItsQuorum) {
  auto url = [](unsigned n) { return kj::arr(kj::str("https://10.5.0.", n, ":2380")); };
  auto unhealthy = AllOf(StartsWith("Unavailable: "), HasSubstr("unhealthy cluster"));
  auto tooFew = AllOf(StartsWith("FailedPrecondition: "), HasSubstr("not enough started members"));
  EXPECT_THAT(after(kNow, etcd.removeMember(first)), tooFew);
  auto added = etcd.addMember(url(3), false).wait(scope);
  EXPECT_EQ("waits", after(500 * kj::MILLISECONDS, put())) << "two members, of which one runs";
  cluster.start(added.member.id, "m2", "https://10.5.0.3:2379");
  advance(timer, scope, 1 * kj::SECONDS);
  EXPECT_EQ("done", after(kNow, put()));
  EXPECT_THAT(after(kNow, etcd.addMember(url(4), true)), unhealthy);
  EXPECT_THAT(after(kNow, etcd.removeMember(added.member.id)), unhealthy);
  advance(timer, scope, 5 * kj::SECONDS);
  auto learner = etcd.addMember(url(4), true).wait(scope).member.id;
  EXPECT_THAT(after(kNow, etcd.promoteMember(learner)), HasSubstr("in sync with leader"));
  cluster.start(learner, "m3", "https://10.5.0.4:2379");
  cluster.members.at(learner).inSync = false;
  EXPECT_THAT(after(kNow, etcd.promoteMember(learner)), HasSubstr("in sync with leader"));
  cluster.members.at(learner).inSync = true;
  EXPECT_EQ(3, etcd.promoteMember(learner).wait(scope).size());
  advance(timer, scope, 5 * kj::SECONDS);
  cluster.kill(learner);
  EXPECT_THAT(after(kNow, etcd.removeMember(added.member.id)), unhealthy) << "no majority is left";
  EXPECT_EQ(2, etcd.removeMember(learner).wait(scope).size()) << "it is dead";
}

// Catches: alarms that stop nothing or go away by themselves.
TEST_F(EtcdModel, AFullDatabaseTakesNothing) {
  cluster.raise({first, Alarm::Type::kNoSpace});
  EXPECT_EQ("ResourceExhausted: etcd at 10.5.0.2:2379: etcdserver: mvcc: database space exceeded",
            after(kNow, put()));
  EXPECT_EQ(1, etcd.alarms().wait(scope).size());
  EXPECT_EQ("done", after(kNow, etcd.remove({{kj::str("k")}})));
  EXPECT_EQ(1, etcd.status().wait(scope).errors.size());
  EXPECT_EQ(1, etcd.disarm({}).wait(scope).size());
  EXPECT_EQ("done", after(kNow, put()));
}

}  // namespace
}  // namespace talos::etcd
