// Behaviour on which users of etcd rely, checked with the real etcd and with its model.
#include <gmock/gmock.h>
#include <kj/debug.h>

#include "common/etcd/etcd-mutex.h"
#include "common/etcd/test-etcd-fixtures.h"

namespace talos::etcd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// Checks of one member share a real etcd, whose keys are deleted before each check.
class EtcdTable : public testing::TestWithParam<const char*> {
 public:
  ~EtcdTable() noexcept override {}
  static void TearDownTestSuite() { shared = nullptr; }

 protected:
  static kj::Own<RealEtcd> shared;
  kj::Own<EtcdFixture> fixture;

  void SetUp() override {
    if (std::string(GetParam()) == "model") {
      fixture = kj::heap<ModelEtcdFixture>();
      return;
    }
    ASSERT_TRUE(RealEtcd::installed()) << RealEtcd::kProgram << " is not installed";
    if (shared.get() == nullptr) begin(shared);
    auto real = kj::heap<RealEtcdFixture>(*shared);
    real->ready(1);
    fixture = kj::mv(real);
    wait(etcd().remove({under("")}));
  }
  static void begin(kj::Own<RealEtcd>& real) {
    real = kj::heap<RealEtcd>();
    real->start(1, {1});
  }

  Etcd& etcd() { return fixture->member(1); }
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return fixture->wait(kj::mv(promise));
  }
  template <typename T>
  std::string failure(kj::Promise<T> promise) {
    return fixture->failure(kj::mv(promise));
  }

  static Keys one(kj::StringPtr key) { return {kj::str(key)}; }
  static Keys under(kj::StringPtr prefix) { return {kj::str(prefix), true}; }
  Revision put(kj::StringPtr key, kj::StringPtr value, LeaseId lease = 0) {
    return wait(etcd().put({kj::str(key), kj::str(value), lease})).revision;
  }
  RangeResult get(Keys keys) { return wait(etcd().range({kj::mv(keys)})); }
  static std::vector<std::string> keysOf(const RangeResult& result) {
    std::vector<std::string> keys;
    for (auto& kv : result.kvs) keys.push_back(std::string(kv.key.begin(), kv.key.size()));
    return keys;
  }
  // Returns "put key=value" for every event of one next().
  std::vector<std::string> next(Watch& watch) {
    std::vector<std::string> result;
    auto events = wait(watch.next());
    for (auto& e : events.events) {
      result.push_back(e.deleted ? kj::str("delete ", e.kv.key).cStr()
                                 : kj::str("put ", e.kv.key, "=", e.kv.value).cStr());
    }
    return result;
  }
  static Operation operation(auto request) {
    Operation result;
    result.init<decltype(request)>(kj::mv(request));
    return result;
  }
};

kj::Own<RealEtcd> EtcdTable::shared;

// Ends its members, so it has its own.
class EtcdMembers : public EtcdTable {
 public:
  ~EtcdMembers() noexcept override {}

 protected:
  kj::Own<RealEtcd> own;

  void SetUp() override {
    if (std::string(GetParam()) != "real") return EtcdTable::SetUp();
    ASSERT_TRUE(RealEtcd::installed()) << RealEtcd::kProgram << " is not installed";
    begin(own);
    auto real = kj::heap<RealEtcdFixture>(*own);
    real->ready(1);
    fixture = kj::mv(real);
  }
};

std::string nameOfFixture(const testing::TestParamInfo<const char*>& info) {
  return info.param;
}
INSTANTIATE_TEST_SUITE_P(, EtcdTable, testing::Values("model", "real"), nameOfFixture);
INSTANTIATE_TEST_SUITE_P(, EtcdMembers, testing::Values("model", "real"), nameOfFixture);

// Catches: a field of a key in the wrong place, bytes that are cut at a zero, a revision that does
// not count.
TEST_P(EtcdTable, KeysAreKeptWithTheirRevisions) {
  EXPECT_EQ(0, get(one("a")).kvs.size());
  auto bytes = kj::heapString("x\0\xff\n", 4);
  auto first = wait(etcd().put({kj::str("a"), kj::str(bytes)})).revision;
  auto second = put("a", "new");
  EXPECT_EQ(first + 1, second);
  put("b", "");
  auto got = get(one("a"));
  ASSERT_EQ(1, got.kvs.size());
  EXPECT_EQ("a", got.kvs[0].key);
  EXPECT_EQ("new", got.kvs[0].value);
  EXPECT_EQ(first, got.kvs[0].createRevision);
  EXPECT_EQ(second, got.kvs[0].modRevision);
  EXPECT_EQ(2, got.kvs[0].version);
  EXPECT_EQ(0, got.kvs[0].lease);
  EXPECT_EQ(second + 1, got.revision);
  auto old = wait(etcd().range({.keys = one("a"), .revision = first}));
  ASSERT_EQ(1, old.kvs.size());
  EXPECT_EQ(bytes, old.kvs[0].value);
  EXPECT_THAT(failure(etcd().range({.keys = one("a"), .revision = second + 100})),
              StartsWith("InvalidArgument: "));
  EXPECT_THAT(failure(etcd().put({kj::str(""), kj::str("x")})),
              AllOf(StartsWith("InvalidArgument: "), HasSubstr("key is not provided")));
}

// Catches: a prefix that includes its neighbours; an order other than requested; a limit or a
// filter that is ignored.
TEST_P(EtcdTable, RangesAreOrderedAndLimited) {
  put("p/b", "1");
  auto middle = put("p/a", "2");
  put("p/c", "3");
  put("p0", "behind");
  put("o", "before");
  put("p/b", "again");
  EXPECT_THAT(keysOf(get(under("p/"))), ElementsAre("p/a", "p/b", "p/c"));
  EXPECT_THAT(keysOf(get(under(""))), ElementsAre("o", "p/a", "p/b", "p/c", "p0"));
  using Order = Range::Order;
  auto sorted = [&](Order order, bool descending, int64_t limit = 0) {
    return wait(etcd().range({under("p/"), order, descending, limit}));
  };
  EXPECT_THAT(keysOf(sorted(Order::kCreateRevision, false)), ElementsAre("p/b", "p/a", "p/c"));
  EXPECT_THAT(keysOf(sorted(Order::kModRevision, true)), ElementsAre("p/b", "p/c", "p/a"));
  EXPECT_THAT(keysOf(sorted(Order::kKey, true)), ElementsAre("p/c", "p/b", "p/a"));
  auto cut = sorted(Order::kCreateRevision, false, 1);
  EXPECT_THAT(keysOf(cut), ElementsAre("p/b"));
  EXPECT_TRUE(cut.more);
  EXPECT_EQ(3, cut.count);
  EXPECT_FALSE(sorted(Order::kKey, false, 3).more);
  auto older = wait(etcd().range({.keys = under("p/"), .maxCreateRevision = middle}));
  EXPECT_THAT(keysOf(older), ElementsAre("p/a", "p/b"));
  auto bare = wait(etcd().range({.keys = one("o"), .keysOnly = true}));
  EXPECT_EQ("", bare.kvs[0].value);
  auto counted = wait(etcd().range({.keys = under("p"), .serializable = true, .countOnly = true}));
  EXPECT_EQ(4, counted.count);
  EXPECT_EQ(0, counted.kvs.size());
  EXPECT_EQ(3, wait(etcd().remove({under("p/")})).deleted);
  auto before = get(one("o")).revision;
  EXPECT_EQ(0, wait(etcd().remove({under("p/")})).deleted);
  EXPECT_EQ(before, get(one("o")).revision) << "nothing was changed";
}

// Catches: a comparison that is sent as another one, results in the wrong order, a branch that is
// not the one that was done.
TEST_P(EtcdTable, TransactionsCompareAndDo) {
  auto create = [&](kj::StringPtr value) {
    return wait(etcd().txn({kj::arr(Compare::absent(kj::str("k"))),
                            kj::arr(operation(Put{kj::str("k"), kj::str(value)})),
                            kj::arr(operation(Range{one("k")}))}));
  };
  auto created = create("first");
  EXPECT_TRUE(created.succeeded);
  ASSERT_EQ(1, created.results.size());
  EXPECT_EQ(created.revision, created.results[0].get<PutResult>().revision);
  auto refused = create("second");
  EXPECT_FALSE(refused.succeeded);
  EXPECT_EQ(created.revision, refused.revision) << "a transaction that writes nothing";
  auto& seen = refused.results[0].get<RangeResult>().kvs;
  ASSERT_EQ(1, seen.size());
  EXPECT_EQ("first", seen[0].value);

  using What = Compare::What;
  using Is = Compare::Is;
  auto at = created.revision;
  struct Row {
    Compare compare;
    bool holds;
  };
  auto key = [] { return kj::str("k"); };
  Row rows[] = {
      {Compare::created(key(), at), true},
      {Compare::created(key(), at + 1), false},
      {Compare::modified(key(), at), true},
      {Compare::valued(key(), kj::str("first")), true},
      {Compare::valued(key(), kj::str("firs")), false},
      {Compare::absent(key()), false},
      {{key(), What::kVersion, Is::kEqual, 1}, true},
      {{key(), What::kVersion, Is::kGreater, 0}, true},
      {{key(), What::kModRevision, Is::kLess, at}, false},
      {{key(), What::kModRevision, Is::kLess, at + 1}, true},
      {{key(), What::kLease, Is::kNotEqual, 7}, true},
      {{key(), What::kLease, Is::kEqual, 0}, true},
      {{kj::str("none"), What::kValue, Is::kEqual, 0, kj::str("")}, false},
      {{kj::str("none"), What::kVersion, Is::kEqual, 0}, true},
  };
  for (size_t i = 0; i < kj::size(rows); ++i) {
    auto result = wait(etcd().txn({kj::arr(kj::mv(rows[i].compare)), nullptr, nullptr}));
    EXPECT_EQ(rows[i].holds, result.succeeded) << i;
  }
  auto both = wait(etcd().txn({kj::arr(Compare::created(kj::str("k"), at)),
                               kj::arr(operation(Put{kj::str("l"), kj::str("1")}),
                                       operation(Delete{one("k")}), operation(Range{under("")})),
                               nullptr}));
  EXPECT_EQ(1, both.results[1].get<DeleteResult>().deleted);
  EXPECT_THAT(keysOf(both.results[2].get<RangeResult>()), ElementsAre("l"));
  EXPECT_EQ(at + 1, both.revision) << "one revision for all";
  EXPECT_THAT(failure(etcd().txn({nullptr,
                                  kj::arr(operation(Put{kj::str("d"), kj::str("1")}),
                                          operation(Put{kj::str("d"), kj::str("2")})),
                                  nullptr})),
              AllOf(StartsWith("InvalidArgument: "), HasSubstr("duplicate key")));
}

// Catches: a change between the answer and the watch that is missed; events out of order; an event
// of a neighbour; a filter that hides too much.
TEST_P(EtcdTable, WatchesReportAllChangesInOrder) {
  auto start = put("w/a", "1");
  put("w/b", "2");
  auto past = wait(etcd().watch({under("w/"), start + 1}));
  EXPECT_THAT(next(*past), ElementsAre("put w/b=2"));
  auto now = wait(etcd().watch({under("w/")}));
  auto deletions = wait(etcd().watch({.keys = under("w/"), .puts = false}));
  put("x", "neighbour");
  put("w/a", "3");
  wait(etcd().remove({under("w/")}));
  EXPECT_THAT(next(*now), ElementsAre("put w/a=3"));
  EXPECT_THAT(next(*now), ElementsAre("delete w/a", "delete w/b"));
  EXPECT_THAT(next(*past), ElementsAre("put w/a=3"));
  EXPECT_THAT(next(*deletions), ElementsAre("delete w/a", "delete w/b"));
  auto waiting = now->next();
  EXPECT_FALSE(waiting.poll(fixture->scope())) << "nothing else has changed";
}

// Catches: a watch that was away for long and gets more at once than a message may have.
TEST_P(EtcdTable, AWatchCatchesUpWithMuch) {
  constexpr int kPuts = 20;
  auto value = kj::heapString(1u << 20);
  memset(value.begin(), 'x', value.size());
  Revision first = 0;
  for (int i = 0; i < kPuts; ++i) {
    auto at = put(kj::str("large/", i), value);
    if (i == 0) first = at;
  }
  auto watch = wait(etcd().watch({under("large/"), first}));
  int seen = 0;
  while (seen < kPuts) {
    auto events = wait(watch->next());
    for (auto& e : events.events) {
      EXPECT_EQ(kj::str("large/", seen++), e.kv.key);
      EXPECT_EQ(value.size(), e.kv.value.size());
    }
  }
}

// Catches: a reader of the past who gets an answer although it is not kept any more.
TEST_P(EtcdTable, CompactedRevisionIsRefused) {
  auto first = put("c", "1");
  auto last = put("c", "2");
  put("c", "3");
  fixture->compact(last);
  EXPECT_THAT(failure(etcd().range({.keys = one("c"), .revision = first})),
              AllOf(StartsWith("Conflict: "), HasSubstr("has been compacted")));
  EXPECT_EQ("2", wait(etcd().range({.keys = one("c"), .revision = last})).kvs[0].value);
  auto late = wait(etcd().watch({one("c"), first}));
  EXPECT_THAT(failure(late->next()),
              AllOf(StartsWith("Conflict: "),
                    HasSubstr(kj::str("before ", last, " have been compacted").cStr())));
  auto watch = wait(etcd().watch({one("c"), last}));
  EXPECT_THAT(next(*watch), ElementsAre("put c=2", "put c=3"));
}

// Catches: a lease whose keys outlive it; a lease that ends early; a renewal of an expired lease
// that is not reported; a deadline that is counted from the answer.
TEST_P(EtcdTable, LeasesTakeTheirKeysWithThem) {
  auto before = fixture->timer().now();
  auto lease = wait(etcd().grant(1 * kj::SECONDS));
  EXPECT_NE(0, lease.id);
  EXPECT_GE(lease.ttl, 1 * kj::SECONDS) << "perhaps more than was asked for";
  EXPECT_EQ(before, lease.sent);
  auto created = put("l/1", "x", lease.id);
  put("l/2", "x", lease.id);
  EXPECT_EQ(lease.id, get(one("l/1")).kvs[0].lease);
  auto beat = wait(etcd().keepAlive(lease.id));
  EXPECT_EQ(lease.id, beat.id);
  EXPECT_EQ(lease.ttl, beat.ttl);
  auto watch = wait(etcd().watch({under("l/"), created + 2}));
  EXPECT_THAT(next(*watch), ElementsAre("delete l/1", "delete l/2"));
  EXPECT_GE(fixture->timer().now(), beat.until()) << "it lives until then";
  EXPECT_THAT(failure(etcd().keepAlive(lease.id)),
              AllOf(StartsWith("NotFound: "), HasSubstr("has expired or was revoked")));
  EXPECT_THAT(failure(etcd().revoke(lease.id)),
              AllOf(StartsWith("NotFound: "), HasSubstr("requested lease not found")));
  EXPECT_THAT(failure(etcd().put({kj::str("l/3"), kj::str(""), lease.id})),
              StartsWith("NotFound: "));
  auto other = wait(etcd().grant(60 * kj::SECONDS));
  EXPECT_EQ(60 * kj::SECONDS, other.ttl);
  put("m/1", "x", other.id);
  put("m/2", "x", other.id);
  put("m/2", "no more of the lease");
  wait(etcd().revoke(other.id));
  EXPECT_THAT(keysOf(get(under("m/"))), ElementsAre("m/2"));
}

// Catches: a mutex that another program of the cluster does not wait for, or that does not wait for
// it: etcd's own client has the same one, and orders by the same keys.
TEST_P(EtcdTable, MutexesPassFromOneToTheNext) {
  Mutex mine(etcd(), fixture->timer(), {kj::str("m"), kj::str("cp-1")});
  Mutex others(etcd(), fixture->timer(), {kj::str("m"), kj::str("cp-2")});
  auto silent = [](kj::StringPtr) {};
  auto lock = wait(mine.lock(kTimeout, silent));
  kj::String held;
  auto next = others.lock(kTimeout, [&](kj::StringPtr by) { held = kj::str(by); });
  auto queue = [&](size_t size) {
    return [](Etcd& etcd, kj::Timer& timer, size_t size) -> kj::Promise<void> {
      for (;;) {
        auto found = co_await etcd.range({{kj::str("m/"), true}});
        if (found.kvs.size() == size) co_return;
        co_await timer.afterDelay(5 * kj::MILLISECONDS);
      }
    }(etcd(), fixture->timer(), size);
  };
  wait(queue(2));
  auto foreign = fixture->lockByEtcdctl("m");
  wait(queue(foreign ? 3 : 2));
  EXPECT_FALSE(next.poll(fixture->scope()));
  EXPECT_EQ("cp-1", held);
  wait(lock->release());
  auto second = wait(kj::mv(next));
  wait(queue(foreign ? 2 : 1));
  wait(second->release());
  if (foreign) fixture->finishEtcdctl();
  wait(queue(0));
}

// Catches: numbers of a status in the wrong place, a snapshot that is cut, a member that is not
// itself.
TEST_P(EtcdTable, AServerReportsItsStatus) {
  put("k", "v");
  auto status = wait(etcd().status());
  auto list = wait(etcd().members());
  ASSERT_EQ(1, list.members.size());
  EXPECT_EQ("m1", list.members[0].name);
  EXPECT_EQ(status.member, list.members[0].id);
  EXPECT_EQ(status.member, list.answeredBy);
  EXPECT_EQ(status.member, status.leader);
  EXPECT_NE(0, status.cluster);
  EXPECT_FALSE(list.members[0].learner);
  EXPECT_EQ(1, list.members[0].peerUrls.size());
  EXPECT_EQ(1, list.members[0].clientUrls.size());
  EXPECT_THAT(std::string(status.version.cStr()), StartsWith("3."));
  EXPECT_GE(status.dbSize, status.dbSizeInUse);
  EXPECT_GT(status.dbSizeInUse, 0);
  EXPECT_GE(status.raftIndex, status.raftAppliedIndex);
  EXPECT_GT(status.raftAppliedIndex, 0);
  EXPECT_GT(status.raftTerm, 0);
  EXPECT_FALSE(status.learner);
  EXPECT_EQ(0, status.errors.size());
  EXPECT_EQ(0, wait(etcd().alarms()).size());
  EXPECT_EQ(0, wait(etcd().disarm({})).size());
  EXPECT_EQ(get(one("k")).revision, status.revision);
  wait(etcd().defragment());
  uint64_t size = 0, expected = 0;
  auto reported = wait(etcd().snapshot([&](kj::ArrayPtr<const kj::byte> piece, uint64_t remaining) {
    size += piece.size();
    if (size == piece.size()) expected = size + remaining;
    EXPECT_EQ(remaining > 0 || size <= expected ? expected : expected + 32, size + remaining);
    return kj::Promise<void>(kj::READY_NOW);
  }));
  EXPECT_EQ(size, reported);
  EXPECT_EQ(expected + 32, size) << "pages, and a SHA-256 that is not announced";
  EXPECT_EQ(0, expected % 512);
  EXPECT_GT(size, 512);
}

// Catches: a change of members that etcd refuses with a kind that a caller cannot act on; a list
// that shows a learner as a voter; an unstarted member that has a name; an update of another member
// or of nothing.
TEST_P(EtcdTable, MembersComeAndGo) {
  auto url = [](unsigned n) { return kj::arr(RealEtcd::peerUrl(n)); };
  auto added = wait(etcd().addMember(url(2), true));
  EXPECT_TRUE(added.member.learner);
  EXPECT_EQ("", added.member.name);
  EXPECT_EQ(2, added.members.size());
  EXPECT_EQ(RealEtcd::peerUrl(2), added.member.peerUrls[0]);
  EXPECT_EQ(0, added.member.clientUrls.size());
  EXPECT_THAT(
      failure(etcd().addMember(url(3), true)),
      AllOf(StartsWith("FailedPrecondition: "), HasSubstr("too many learner members in cluster")));
  EXPECT_THAT(failure(etcd().addMember(url(2), false)),
              AllOf(StartsWith("FailedPrecondition: "), HasSubstr("already exist")));
  EXPECT_THAT(failure(etcd().promoteMember(added.member.id)),
              AllOf(StartsWith("FailedPrecondition: "), HasSubstr("in sync with leader")));
  EXPECT_THAT(failure(etcd().promoteMember(4711)),
              AllOf(StartsWith("NotFound: "), HasSubstr("member not found")));
  auto self = wait(etcd().status()).member;
  EXPECT_THAT(
      failure(etcd().promoteMember(self)),
      AllOf(StartsWith("FailedPrecondition: "), HasSubstr("can only promote a learner member")));
  EXPECT_THAT(failure(etcd().updateMember(self, url(2))),
              AllOf(StartsWith("FailedPrecondition: "), HasSubstr("already exist")));
  EXPECT_EQ(1, wait(etcd().removeMember(added.member.id)).size());
  EXPECT_THAT(failure(etcd().updateMember(4711, url(3))), StartsWith("NotFound: "));
  auto list = wait(etcd().members());
  ASSERT_EQ(1, list.members.size());
  auto updated = wait(etcd().updateMember(self, url(3)));
  ASSERT_EQ(1, updated.size());
  EXPECT_EQ(self, updated[0].id);
  EXPECT_EQ(RealEtcd::peerUrl(3), updated[0].peerUrls[0]);
  EXPECT_FALSE(updated[0].learner);
  wait(etcd().updateMember(self, kj::mv(list.members[0].peerUrls)));
  EXPECT_THAT(failure(etcd().removeMember(added.member.id)), StartsWith("NotFound: "));
  EXPECT_THAT(failure(etcd().moveLeader(4711)),
              AllOf(StartsWith("FailedPrecondition: "), HasSubstr("bad leader transferee")));
  put("k", "still one member, and a leader");
}

// Catches: a learner that is taken for a member that answers; a learner that is promoted before it
// is in sync; a leader that does not move; a cluster without quorum whose calls hang.
TEST_P(EtcdMembers, ALearnerBecomesTheLeader) {
  put("k", "v");
  auto added = wait(etcd().addMember(kj::arr(RealEtcd::peerUrl(2)), true));
  fixture->join(2, added.member, {1, 2});
  auto& second = fixture->member(2);
  auto learner = wait(second.status());
  EXPECT_TRUE(learner.learner);
  EXPECT_EQ(added.member.id, learner.member);
  auto nowhere = [](auto, auto) { return kj::Promise<void>(kj::READY_NOW); };
  EXPECT_EQ("none", failure(second.snapshot(nowhere)));
  for (auto& text :
       {failure(second.range({one("k")})), failure(second.members()),
        failure(second.members(false)), failure(second.put({kj::str("k"), kj::str("w")})),
        failure(second.grant(5 * kj::SECONDS)), failure(second.watch({one("k")}))}) {
    EXPECT_THAT(text,
                AllOf(StartsWith("Unavailable: "), HasSubstr("rpc not supported for learner")));
  }
  auto promote = [&]() { return etcd().promoteMember(added.member.id).ignoreResult(); };
  fixture->eventually(ErrorKind::kFailedPrecondition, promote);
  auto members = wait(etcd().members()).members;
  ASSERT_EQ(2, members.size());
  for (auto& m : members) EXPECT_FALSE(m.learner);
  auto read = [&]() { return second.range({one("k")}).ignoreResult(); };
  fixture->eventually(ErrorKind::kUnavailable, read);  // it learns of the change later
  EXPECT_THAT(failure(second.moveLeader(added.member.id)),
              AllOf(StartsWith("FailedPrecondition: "), HasSubstr("not leader")));
  wait(etcd().moveLeader(added.member.id));
  EXPECT_EQ(added.member.id, wait(etcd().status()).leader);
  EXPECT_EQ("v", wait(etcd().range({one("k")})).kvs[0].value);
  auto watch = wait(etcd().watch({one("k")}));
  fixture->kill(2);
  EXPECT_THAT(failure(watch->next()), StartsWith("Unavailable: ")) << "two members less one";
  EXPECT_THAT(failure(etcd().put({kj::str("k"), kj::str("w")})),
              AllOf(StartsWith("Unavailable: "), HasSubstr("no leader")));
  EXPECT_EQ(0, wait(etcd().status()).leader);
  EXPECT_EQ("v", wait(etcd().range({.keys = one("k"), .serializable = true})).kvs[0].value);
  EXPECT_EQ(2, wait(etcd().members(false)).members.size());
}

}  // namespace
}  // namespace talos::etcd
