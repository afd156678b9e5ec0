#include "common/etcd/etcd-mutex.h"

#include <gmock/gmock.h>

#include <random>

#include "common/etcd/test-etcd.h"
#include "common/testing/virtual-time.h"

namespace talos::etcd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr kj::StringPtr kPrefix = "talos:v1:etcdUpgradeMutex"_kj;

class MutexTest : public testing::Test {
 public:
  ~MutexTest() noexcept override {}

 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ModelCluster cluster{timer};

  // A node that wants the mutex.
  struct Node {
    MutexTest& test;
    ModelEtcd etcd;
    Mutex mutex;
    std::vector<std::string> waited;  // for whom
    kj::Maybe<kj::Promise<void>> locking, losing;
    kj::Maybe<kj::Own<Mutex::Lock>> held;
    std::string failure, lost;

    Node(MutexTest& test, kj::StringPtr name, kj::Duration ttl = 60 * kj::SECONDS)
        : test(test),
          etcd(test.cluster),
          mutex(etcd, test.timer, {kj::str(kPrefix), kj::str(name), ttl}) {}

    void lock(kj::Duration deadline = 10 * kj::MINUTES) {
      auto promise =
          mutex.lock(deadline, [this](kj::StringPtr holder) { waited.push_back(holder.cStr()); });
      locking = promise
                    .then(
                        [this](kj::Own<Mutex::Lock>&& lock) {
                          losing = lock->lost().eagerlyEvaluate(
                              [this](kj::Exception&& e) { lost = text(e); });
                          held = kj::mv(lock);
                        },
                        [this](kj::Exception&& e) { failure = text(e); })
                    .eagerlyEvaluate(nullptr);
      test.scope.poll();
    }
    // Drops everything as a dying process does: nothing is released.
    void drop() {
      losing = nullptr;
      held = nullptr;
      test.scope.poll();
    }
    bool has() const { return held != nullptr && lost.empty(); }

   private:
    static std::string text(const kj::Exception& e) {
      return kj::str(talos::nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
    }
  };

  void pass(kj::Duration time) { advance(timer, scope, time); }
  std::vector<std::string> queue() {
    auto found =
        cluster.store.range({{kj::str(kPrefix, "/"), true}, Range::Order::kCreateRevision});
    std::vector<std::string> result;
    for (auto& kv : found.kvs) result.push_back(kv.value.cStr());
    return result;
  }
};

// Catches: a key that other programs do not understand; a lock whose lease is not renewed; a
// release that leaves a key or lease.
TEST_F(MutexTest, IsTakenRenewedAndReleased) {
  Node node(*this, "cp-1");
  node.lock();
  ASSERT_TRUE(node.has());
  EXPECT_THAT(node.waited, IsEmpty());
  auto kvs = cluster.store.range({{kj::str(kPrefix), true}}).kvs;
  ASSERT_EQ(1, kvs.size());
  EXPECT_EQ(kj::str(kPrefix, "/", kj::hex(static_cast<uint64_t>(kvs[0].lease))), kvs[0].key);
  EXPECT_EQ("cp-1", kvs[0].value);
  pass(10 * kj::MINUTES);
  EXPECT_TRUE(node.has());
  EXPECT_EQ(30, std::count(node.etcd.calls.begin(), node.etcd.calls.end(), "keepAlive"));
  KJ_ASSERT_NONNULL(node.held)->release().wait(scope);
  EXPECT_THAT(queue(), IsEmpty());
  EXPECT_EQ(0, cluster.store.leaseCount());
}

// Catches: a later caller that goes first; a wait that does not name the holder; a wait that ends
// late.
TEST_F(MutexTest, OthersWaitInOrderAndKnowForWhom) {
  Node first(*this, "cp-1"), second(*this, "cp-2"), third(*this, "cp-3");
  first.lock();
  second.lock();
  third.lock();
  EXPECT_TRUE(first.has() && !second.has() && !third.has());
  EXPECT_THAT(second.waited, ElementsAre("cp-1"));
  pass(5 * kj::MINUTES);
  EXPECT_THAT(queue(), ElementsAre("cp-1", "cp-2", "cp-3"));
  first.drop();
  EXPECT_TRUE(second.has() && !third.has()) << "at once";
  pass(1 * kj::MINUTES);
  KJ_ASSERT_NONNULL(second.held)->release().wait(scope);
  scope.poll();
  EXPECT_TRUE(third.has());
  EXPECT_THAT(third.waited, ElementsAre("cp-1"));
}

// Catches: a caller that gave up but still stands in the queue: all callers after it would wait
// until its unused lease ends.
TEST_F(MutexTest, WaiterThatGivesUpLeavesTheQueue) {
  Node first(*this, "cp-1"), second(*this, "cp-2"), third(*this, "cp-3"), fourth(*this, "cp-4");
  first.lock();
  second.lock(30 * kj::SECONDS);
  third.lock();
  fourth.lock();
  third.locking = nullptr;  // in the middle of its wait
  pass(31 * kj::SECONDS);
  EXPECT_EQ("DeadlineExceeded: talos:v1:etcdUpgradeMutex is held by cp-1; waited 30s",
            second.failure);
  EXPECT_THAT(queue(), ElementsAre("cp-1", "cp-4"));
  first.drop();
  EXPECT_TRUE(fourth.has());
}

// Catches: two who have it at once, because one that was cut off noticed too late or never.
TEST_F(MutexTest, HolderWithoutEtcdLosesTheLockBeforeAnotherGetsIt) {
  Node first(*this, "cp-1", 15 * kj::SECONDS), second(*this, "cp-2", 15 * kj::SECONDS);
  first.lock();
  second.lock(1 * kj::HOURS);
  pass(1 * kj::MINUTES);
  first.etcd.faults.hanging = true;
  pass(10 * kj::SECONDS);
  EXPECT_TRUE(first.has()) << "it is tried again";
  first.etcd.faults.hanging = false;
  pass(10 * kj::MINUTES);
  EXPECT_TRUE(first.has() && !second.has());
  first.etcd.faults.answersLost = true;  // the lease exists, but the client does not know it
  pass(16 * kj::SECONDS);
  EXPECT_EQ(
      "Unavailable: talos:v1:etcdUpgradeMutex is lost: its lease of 15s could not be renewed "
      "in time at etcd at 10.5.0.2:2379",
      first.lost);
  EXPECT_FALSE(second.has());
  first.drop();
  EXPECT_TRUE(second.has()) << "its revocation has arrived";
  second.etcd.faults.unreachable = true;
  Node third(*this, "cp-3", 15 * kj::SECONDS);
  third.lock();
  while (!third.has()) {
    pass(100 * kj::MILLISECONDS);
    EXPECT_FALSE(second.has() && third.has());
    ASSERT_LT(timer.now() - kj::origin<kj::TimePoint>(), 1 * kj::HOURS);
  }
  EXPECT_THAT(second.lost, HasSubstr("is lost"));
}

// Catches: a holder that does not notice that its lease was revoked (an operator, a restored
// snapshot).
TEST_F(MutexTest, ReportsARevokedLease) {
  Node node(*this, "cp-1");
  node.lock();
  cluster.store.revoke(cluster.store.range({{kj::str(kPrefix), true}}).kvs[0].lease);
  pass(21 * kj::SECONDS);
  EXPECT_THAT(node.lost, AllOf(StartsWith("Unavailable: talos:v1:etcdUpgradeMutex is lost: "),
                               HasSubstr("has expired or was revoked")));
}

// Catches: a place in the queue by the age of the lease instead of the key's; a release that falls
// between the look at the queue and the watch, and is waited for for ever.
TEST_F(MutexTest, ChangeBetweenReadAndWatchIsSeen) {
  Node slow(*this, "cp-1"), quick(*this, "cp-2");
  slow.etcd.faults.answerAfter = 500 * kj::MILLISECONDS;
  slow.lock();  // has its lease first
  quick.lock();
  EXPECT_TRUE(quick.has());
  pass(1200 * kj::MILLISECONDS);  // it has created its key and looked; the answer is on its way
  EXPECT_THAT(queue(), ElementsAre("cp-2", "cp-1"));
  EXPECT_THAT(slow.etcd.calls, ElementsAre("grant", "txn", "range"));
  quick.drop();
  pass(5 * kj::SECONDS);
  EXPECT_TRUE(slow.has());
  EXPECT_THAT(slow.waited, ElementsAre("cp-2"));
}

// Catches: a lease that is renewed on while it is being given back: it would outlive its release.
TEST_F(MutexTest, NothingIsRenewedWhileItIsReleased) {
  Node first(*this, "cp-1", 15 * kj::SECONDS), second(*this, "cp-2");
  first.lock();
  second.lock();
  first.etcd.faults.unreachable = true;
  auto releasing = KJ_ASSERT_NONNULL(first.held)->release();
  pass(10 * kj::SECONDS);
  EXPECT_FALSE(releasing.poll(scope)) << "it is still ours";
  EXPECT_EQ(0, std::count(first.etcd.calls.begin(), first.etcd.calls.end(), "keepAlive"));
  pass(8 * kj::SECONDS);
  EXPECT_TRUE(releasing.poll(scope)) << "its lease is over";
  EXPECT_TRUE(second.has());
}

// Catches: a key that is created twice because the first answer was lost; a wait that ends with the
// first failure; a waiter whose key was deleted and who waits for ever.
TEST_F(MutexTest, FailedCallOfAWaiterIsRepeated) {
  Node node(*this, "cp-1");
  node.etcd.faults.unreachable = true;
  node.lock();
  pass(5 * kj::SECONDS);
  EXPECT_FALSE(node.has());
  node.etcd.faults = {.answersLost = true};
  pass(5 * kj::SECONDS);
  EXPECT_FALSE(node.has());
  node.etcd.faults = {.answerAfter = 700 * kj::MILLISECONDS};
  pass(5 * kj::SECONDS);
  EXPECT_TRUE(node.has());
  EXPECT_THAT(queue(), ElementsAre("cp-1"));

  Node lossy(*this, "cp-2");
  lossy.lock();
  auto leases = cluster.store.leaseCount();
  lossy.etcd.faults.answersLost = true;
  cluster.disconnect(cluster.leader);
  pass(5 * kj::SECONDS);
  lossy.etcd.faults = {};
  pass(5 * kj::SECONDS);
  EXPECT_THAT(queue(), ElementsAre("cp-1", "cp-2")) << "with the same place";
  EXPECT_EQ(leases, cluster.store.leaseCount());
  {  // its key, not its lease
    auto kvs = cluster.store.range({{kj::str(kPrefix), true}, Range::Order::kCreateRevision}).kvs;
    kj::Vector<Operation> operations;
    operations.add().init<Delete>().keys.key = kj::str(kvs[1].key);
    cluster.store.txn({nullptr, operations.releaseAsArray(), nullptr});
  }
  cluster.disconnect(cluster.leader);
  pass(5 * kj::SECONDS);
  EXPECT_THAT(queue(), ElementsAre("cp-1", "cp-2"));

  Node never(*this, "cp-3");
  never.etcd.faults.unreachable = true;
  never.lock(10 * kj::SECONDS);
  pass(11 * kj::SECONDS);
  EXPECT_EQ(
      "DeadlineExceeded: cannot take talos:v1:etcdUpgradeMutex within 10s: "
      "etcd at 10.5.0.2:2379: Connection refused",
      never.failure);
}

// Catches: two holders of the mutex at once, or a mutex that can never be locked again, in whatever
// order parts fail: each node's connection, the leader, answers, processes.
TEST_F(MutexTest, NeverTwoWhateverFails) {
  cluster.grow("m2", "https://10.5.0.3:2380", "https://10.5.0.3:2379");
  cluster.grow("m3", "https://10.5.0.4:2380", "https://10.5.0.4:2379");
  for (unsigned seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    auto chance = [&](unsigned percent) { return random() % 100 < percent; };
    std::vector<kj::Own<Node>> nodes;
    unsigned taken = 0;
    for (int i = 0; i < 3; ++i) {
      nodes.push_back(kj::heap<Node>(*this, kj::str("cp-", i), (5 + random() % 20) * kj::SECONDS));
    }
    for (int step = 0; step < 150; ++step) {
      auto& node = *nodes[random() % nodes.size()];
      if (node.held != nullptr && (!node.lost.empty() || chance(30))) {
        node.drop();
        node.locking = nullptr;
        node.lost.clear();
      }
      if (node.held == nullptr && node.locking == nullptr)
        node.lock((1 + random() % 60) * kj::SECONDS);
      if (!node.failure.empty()) {
        node.failure.clear();
        node.locking = nullptr;
      }
      node.etcd.faults = {chance(10), chance(10), random() % 1500 * kj::MILLISECONDS,
                          random() % 900 * kj::MILLISECONDS, chance(10)};
      if (chance(60)) node.etcd.faults = {};
      if (chance(5)) cluster.disconnect(cluster.leader);
      if (chance(5)) {  // its clients see another member that leads
        for (auto& m : cluster.members) {
          if (m.first != cluster.leader) cluster.moveLeader(cluster.leader, m.first);
          break;
        }
      }
      for (unsigned slice = random() % 80; slice > 0; --slice) {
        pass(100 * kj::MILLISECONDS);
        unsigned holders = 0;
        for (auto& n : nodes) holders += n->has() ? 1 : 0;
        ASSERT_LE(holders, 1) << "seed " << seed << ", step " << step;
        taken += holders;
      }
    }
    EXPECT_GT(taken, 100) << "seed " << seed;
    for (auto& n : nodes) {
      n->etcd.faults = {};
      n->locking = nullptr;
      n->drop();
    }
    pass(2 * kj::MINUTES);
    EXPECT_EQ(0, cluster.store.leaseCount()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace talos::etcd
