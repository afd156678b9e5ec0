#include "etcd-supervisor/backup/backup-loop.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/etcd-data/snapshot-series.h"
#include "common/etcd/test-etcd.h"
#include "common/testing/test-inline-disk.h"
#include "common/testing/virtual-time.h"

namespace talos::supervisor {
namespace {

constexpr auto kStart = kj::UNIX_EPOCH + 1795690800 * kj::SECONDS;  // 2026-11-26T11:00:00Z

class FakeStore final : public ObjectStore {
 public:
  struct Shared {
    std::function<void(kj::StringPtr)> stored;  // after an object is complete
    std::map<std::string, uint64_t> objects;
    std::string problem;  // of each call
    unsigned lists = 0;
    bool hangs = false;  // uploads
    unsigned dropped = 0;
  };
  explicit FakeStore(Shared& shared) : shared(shared) {}

  kj::Promise<kj::Vector<kj::String>> list(kj::StringPtr prefix) override {
    ++shared.lists;
    refuse();
    kj::Vector<kj::String> names;
    for (auto& [name, size] : shared.objects) {
      if (kj::StringPtr(name.c_str()).startsWith(prefix)) names.add(kj::str(name.c_str()));
    }
    return kj::mv(names);
  }
  kj::Promise<void> put(kj::StringPtr name, UploadFile file) override {
    refuse();
    if (shared.hangs) {
      return kj::Promise<void>(kj::NEVER_DONE).attach(kj::defer([this] { ++shared.dropped; }));
    }
    shared.objects[name.cStr()] = file.size;
    if (shared.stored) shared.stored(name);
    return kj::READY_NOW;
  }
  kj::Promise<void> remove(kj::StringPtr name) override {
    refuse();
    shared.objects.erase(name.cStr());
    return kj::READY_NOW;
  }

 private:
  Shared& shared;
  void refuse() const {
    if (!shared.problem.empty()) fail(ErrorKind::kUnavailable, shared.problem.c_str());
  }
};

struct BackupLoopTest : public testing::Test, private kj::Clock {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  etcd::ModelCluster cluster{timer};
  etcd::ModelEtcd member{cluster};
  InlineDisk queue;
  FakeStore::Shared store;
  bool configured = true, runs = true, storeAway = false, started = false;
  kj::Duration every = 1 * kj::HOURS;
  size_t keep = 3;
  uint64_t size = 20480;
  std::string phase, message, newest, next;
  unsigned kept = 0, published = 0;
  kj::Date begin = kStart;
  BackupLoop backups{{.timer = timer,
                      .clock = *this,
                      .member = member,
                      .runs = [this] { return runs; },
                      .target = [this] { return target(); },
                      .publish = [this](kj::Maybe<BackupState> s) { return publish(kj::mv(s)); }}};
  kj::Promise<void> running = nullptr;

  BackupLoopTest() {}
  ~BackupLoopTest() noexcept override {}

  kj::Date now() const override { return begin + (timer.now() - kj::origin<kj::TimePoint>()); }

  kj::Maybe<kj::Own<BackupLoop::Target>> target() {
    if (!configured) return nullptr;
    return kj::heap<BackupLoop::Target>(BackupLoop::Target{
        .schedule = {.prefix = kj::str("p/"), .every = every, .keep = keep},
        .store = kj::heap<FakeStore>(store),
        .spool = [this](kj::Date taken, uint64_t id) -> kj::Promise<BackupUpload> {
          EXPECT_TRUE(taken == now());
          EXPECT_EQ(0xc1u, id);
          return BackupUpload{file(size), file(100)};
        }});
  }
  UploadFile file(uint64_t bytes) {
    return {QueuedFile(queue, []() { return kj::AutoCloseFd(); }), bytes, kj::str()};
  }
  // Stores a snapshot of another member, or begins to.
  void storedByAnother(const std::string& key, bool whole = true) {
    store.objects[key] = size;
    recordBackup(member, {kj::str(key.c_str()), whole}).wait(scope);
  }
  kj::Promise<void> publish(kj::Maybe<BackupState> state) {
    if (storeAway) fail(ErrorKind::kUnavailable, "machined is away");
    ++published;
    phase = message = newest = next = "";
    kept = 0;
    KJ_IF_MAYBE (s, state) {
      phase = s->phase.cStr();
      message = s->message.cStr();
      newest = s->newest.cStr();
      next = s->next.cStr();
      kept = s->kept;
    }
    return kj::READY_NOW;
  }
  void start() {
    backups.configChanged();
    if (!started) running = backups.run().eagerlyEvaluate(nullptr);
    started = true;
    pass(1 * kj::SECONDS);
  }
  void pass(kj::Duration time) { advance(timer, scope, time); }
  // Returns the names without signatures: exactly the snapshots of this process have one.
  std::string names() const {
    std::string all;
    for (auto& [name, bytes] : store.objects) {
      bool signature = name.ends_with(".sig");
      EXPECT_TRUE(!signature || store.objects.count(name.substr(0, name.size() - 4))) << name;
      if (!signature) all += (all.empty() ? "" : " ") + name;
    }
    return all;
  }
};

// Catches: an interval that drifts, old ones that stay, foreign files that are deleted.
TEST_F(BackupLoopTest, KeepsTheNewestOfASeries) {
  store.objects["p/notes.txt"] = 1;
  store.objects["q/etcd-20200101T000000Z-00000000000000c1.snapshot.cms"] = 1;
  start();
  EXPECT_EQ(
      "p/etcd-20261126T110000Z-00000000000000c1.snapshot.cms p/notes.txt "
      "q/etcd-20200101T000000Z-00000000000000c1.snapshot.cms",
      names());
  EXPECT_EQ("waiting", phase);
  EXPECT_EQ("2026-11-26T12:00:00Z", next);
  pass(59 * kj::MINUTES);
  EXPECT_EQ(1u, kept);
  pass(4 * kj::HOURS);
  EXPECT_EQ(3u, kept);
  EXPECT_EQ("etcd-20261126T150000Z-00000000000000c1.snapshot.cms", newest);
  EXPECT_EQ(
      "p/etcd-20261126T130000Z-00000000000000c1.snapshot.cms "
      "p/etcd-20261126T140000Z-00000000000000c1.snapshot.cms "
      "p/etcd-20261126T150000Z-00000000000000c1.snapshot.cms p/notes.txt "
      "q/etcd-20200101T000000Z-00000000000000c1.snapshot.cms",
      names());
}

// Catches: a cluster that was created again and deletes the last snapshots of the lost cluster
// after its own first ones; a cluster that counts the old snapshots, and takes none.
TEST_F(BackupLoopTest, SnapshotsOfAnotherClusterStay) {
  keep = 1;
  for (auto name : {"p/etcd-20261126T100000Z-00000000000000c2.snapshot.cms",
                    "p/etcd-20261126T103000Z-00000000000000c2.snapshot.cms",
                    "p/etcd-20261126T104500Z.snapshot.cms"}) {
    store.objects[name] = 1;
  }
  start();
  EXPECT_EQ("the store has 3 snapshots of another cluster, which stay there", message);
  EXPECT_EQ(1u, kept);
  pass(3 * kj::HOURS);
  EXPECT_EQ(
      "p/etcd-20261126T100000Z-00000000000000c2.snapshot.cms "
      "p/etcd-20261126T103000Z-00000000000000c2.snapshot.cms "
      "p/etcd-20261126T104500Z.snapshot.cms "
      "p/etcd-20261126T140000Z-00000000000000c1.snapshot.cms",
      names());
}

// Catches: a name that cannot be read back; a foreign file that is taken for a snapshot.
TEST(BackupName, HasTheCluster) {
  auto name = backupName(kStart, 0xfedcba9876543210);
  EXPECT_EQ(name, "etcd-20261126T110000Z-fedcba9876543210.snapshot.cms"_kj);
  auto read = KJ_ASSERT_NONNULL(readBackupName(name));
  EXPECT_TRUE(read.date == kStart);
  EXPECT_EQ(KJ_ASSERT_NONNULL(read.cluster), 0xfedcba9876543210);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(readBackupName("etcd-20261126T110000Z.snapshot.cms")).cluster ==
              nullptr);
  for (auto other : {"", "etcd-20261126T110000Z-", "etcd-20261126T110000Z-fedcba9876543210",
                     "etcd-20261126T110000Z-fedcba987654321.snapshot.cms",
                     "etcd-20261126T110000Z-fedcba987654321G.snapshot.cms",
                     "etcd-20261126T110000Z-fedcba9876543210.snapshot.cmsx",
                     "etcd-20261326T110000Z-fedcba9876543210.snapshot.cms"}) {
    EXPECT_TRUE(readBackupName(other) == nullptr) << other;
  }
}

// Catches: members that each upload a snapshot; a new leader that starts a new series.
TEST_F(BackupLoopTest, OnlyTheLeaderTakesThem) {
  auto other = cluster.grow("m2", "https://10.5.0.3:2380", "https://10.5.0.3:2379");
  auto self = cluster.leader;
  cluster.leader = other;
  start();
  pass(2 * kj::HOURS);
  EXPECT_EQ("standby", phase);
  EXPECT_EQ("", names());
  EXPECT_EQ(0u, store.lists);
  storedByAnother("p/etcd-20261126T123000Z-00000000000000c1.snapshot.cms");
  cluster.leader = self;
  pass(20 * kj::SECONDS);
  EXPECT_EQ("waiting", phase);
  EXPECT_EQ("2026-11-26T13:30:00Z", next);
  pass(30 * kj::MINUTES);
  EXPECT_EQ(
      "p/etcd-20261126T123000Z-00000000000000c1.snapshot.cms "
      "p/etcd-20261126T133000Z-00000000000000c1.snapshot.cms",
      names());
}

// Catches: a second snapshot although another member has taken one meanwhile.
TEST_F(BackupLoopTest, LooksOnceMoreBeforeItTakesOne) {
  start();
  storedByAnother("p/etcd-20261126T115959Z-00000000000000c1.snapshot.cms");
  pass(61 * kj::MINUTES);
  EXPECT_EQ("2026-11-26T12:59:59Z", next);
  EXPECT_EQ(2u, kept);
}

// Catches: a failure that ends the series or is hidden; old snapshots that are deleted before the
// new one is stored; a store that is called each second.
TEST_F(BackupLoopTest, RetriesAndSaysWhy) {
  keep = 1;
  start();
  store.problem = "http://store: connect: Connection refused";
  pass(60 * kj::MINUTES);
  EXPECT_EQ("http://store: connect: Connection refused; retry in 60 s", message);
  auto before = store.lists;
  pass(3 * kj::HOURS);
  EXPECT_LE(store.lists - before, 9u);
  EXPECT_EQ("p/etcd-20261126T110000Z-00000000000000c1.snapshot.cms", names());
  store.problem = "";
  pass(30 * kj::MINUTES);
  EXPECT_EQ("", message);
  EXPECT_EQ(2u, store.objects.size());  // with its signature
  EXPECT_NE("etcd-20261126T110000Z-00000000000000c1.snapshot.cms", newest);
}

// Catches: settings that count from the next start of the program on; an upload to a store that is
// not wanted any more; a record that stays.
TEST_F(BackupLoopTest, FollowsTheConfig) {
  configured = false;
  start();
  EXPECT_EQ("", phase);
  configured = true;
  store.hangs = true;
  start();
  EXPECT_EQ("uploading", phase);
  every = 2 * kj::HOURS;
  store.hangs = false;
  start();
  EXPECT_EQ(1u, store.dropped);
  EXPECT_EQ("waiting", phase);
  EXPECT_EQ("2026-11-26T13:00:02Z", next);
  configured = false;
  start();
  EXPECT_EQ("", phase);
}

// Catches: a clock that was wrong once and prevents backups for years.
TEST_F(BackupLoopTest, AnObjectOfTheFutureDelaysNothing) {
  storedByAnother("p/etcd-20361126T110000Z-00000000000000c1.snapshot.cms");
  start();
  EXPECT_EQ(
      "p/etcd-20261126T110000Z-00000000000000c1.snapshot.cms "
      "p/etcd-20361126T110000Z-00000000000000c1.snapshot.cms",
      names());
  pass(10 * kj::HOURS);
  EXPECT_EQ(7u, store.objects.size());  // three have a signature
}

// Catches: objects of an attacker who may write into the store that stop the backups or displace
// real ones, while the status reports success.
TEST_F(BackupLoopTest, ANameAloneIsNoBackup) {
  start();
  for (auto minutes : {"10", "20", "30"}) {
    auto fake = std::string("p/etcd-20261126T14") + minutes + "00Z-00000000000000c1.snapshot.cms";
    store.objects[fake] = 1;
    store.objects[fake + ".sig"] = 1;
  }
  pass(4 * kj::HOURS);
  EXPECT_EQ(3u, kept);
  EXPECT_EQ("etcd-20261126T150000Z-00000000000000c1.snapshot.cms", newest);
  EXPECT_EQ(
      "the store has 3 snapshots that this cluster has no record of, which do not count and stay "
      "there: etcd-20261126T141000Z-00000000000000c1.snapshot.cms …",
      message);
  EXPECT_EQ(
      "p/etcd-20261126T130000Z-00000000000000c1.snapshot.cms "
      "p/etcd-20261126T140000Z-00000000000000c1.snapshot.cms "
      "p/etcd-20261126T141000Z-00000000000000c1.snapshot.cms "
      "p/etcd-20261126T142000Z-00000000000000c1.snapshot.cms "
      "p/etcd-20261126T143000Z-00000000000000c1.snapshot.cms "
      "p/etcd-20261126T150000Z-00000000000000c1.snapshot.cms",
      names());
}

// Catches: an upload that a crash has cut off and that counts, or stays for ever.
TEST_F(BackupLoopTest, AnUploadThatWasCutOffIsReplaced) {
  storedByAnother("p/etcd-20261126T105900Z-00000000000000c1.snapshot.cms", false);
  start();
  EXPECT_EQ("p/etcd-20261126T110000Z-00000000000000c1.snapshot.cms", names());
  EXPECT_EQ("", message);
}

// Catches: a full etcd that gets no backup, or a backup each minute.
TEST_F(BackupLoopTest, AFullEtcdHasBackups) {
  cluster.alarms.push_back({cluster.leader, etcd::Alarm::Type::kNoSpace});
  start();
  pass(2 * kj::HOURS);
  EXPECT_EQ(3u, kept);
  EXPECT_EQ("2026-11-26T14:00:00Z", next);
}

// Catches: a snapshot that counts as interrupted, and a further snapshot each second, because etcd
// became full during its upload; a snapshot that the next leader does not know, because its record
// was never written.
TEST_F(BackupLoopTest, AnEtcdThatFillsDuringAnUploadHasTheRecordLater) {
  store.stored = [this](kj::StringPtr name) {
    if (!name.endsWith(".sig") && cluster.alarms.empty()) {
      cluster.alarms.push_back({cluster.leader, etcd::Alarm::Type::kNoSpace});
    }
  };
  start();
  pass(10 * kj::SECONDS);
  EXPECT_EQ(1u, kept);
  EXPECT_EQ(2u, store.objects.size());  // with its signature
  store.stored = nullptr;
  cluster.alarms.clear();
  pass(1 * kj::HOURS);
  EXPECT_EQ(2u, kept);
  for (auto& record : backupRecords(member).wait(scope))
    EXPECT_TRUE(record.stored) << record.key.cStr();
}

// Catches: records of backups that grow without an end.
TEST_F(BackupLoopTest, TheOldestRecordsAreForgotten) {
  for (size_t i = 0; i < kMostBackupRecords + 3; ++i) {
    recordBackup(member, {kj::str("p/", i), true}).wait(scope);
  }
  start();
  auto records = backupRecords(member).wait(scope);
  EXPECT_EQ(kMostBackupRecords, records.size());
  EXPECT_EQ("p/etcd-20261126T110000Z-00000000000000c1.snapshot.cms"_kj, records[0].key);
}

// Catches: a program that ends because machined restarts; a call to etcd before it runs.
TEST_F(BackupLoopTest, WaitsForEtcdAndOutlivesMachined) {
  runs = false;
  start();
  EXPECT_EQ("etcd of this node does not run", message);
  EXPECT_TRUE(member.calls.empty());
  storeAway = true;
  runs = true;
  pass(10 * kj::SECONDS);
  EXPECT_EQ(2u, store.objects.size());  // with its signature
  storeAway = false;
  pass(1 * kj::MINUTES);
  EXPECT_EQ("waiting", phase);
  EXPECT_EQ(1u, kept);
}

}  // namespace
}  // namespace talos::supervisor
