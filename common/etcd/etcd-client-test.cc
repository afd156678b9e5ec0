// The client with servers that misbehave; the answers of a good one are in etcd-table-test.cc.
#include "common/etcd/etcd-client.h"

#include <gmock/gmock.h>

#include "common/etcd/etcd-messages.h"
#include "common/grpc/test-grpc-server.h"
#include "common/testing/virtual-time.h"

namespace talos::etcd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class EtcdClientTest : public testing::Test {
 public:
  ~EtcdClientTest() noexcept override {}

 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  grpc::ModelServer server;
  bool refuses = false;
  EtcdClient client{timer, kj::str("etcd at 10.5.0.2:2379"),
                    [this]() -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
                      if (refuses) return error(ErrorKind::kUnavailable, "Connection refused");
                      return server.dial();
                    }};

  template <typename T>
  std::string failure(kj::Promise<T> promise) {
    std::string result = "none";
    promise
        .then([](auto&&...) {},
              [&](kj::Exception&& e) {
                result = kj::str(talos::nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
              })
        .wait(scope);
    return result;
  }
  std::string failsWith(int status, const char* words) {
    server.methods["/etcdserverpb.KV/Put"] = [=](auto& x) {
      if (x.ended) x.finish(status, words);
    };
    return failure(client.put({kj::str("k"), kj::str("v")}));
  }
  void answerWatch(std::vector<pb::WatchResponse> answers) {
    server.methods["/etcdserverpb.Watch/Watch"] = [answers](auto& x) {
      for (auto& a : answers) x.send(a.SerializeAsString());
    };
  }
  static pb::WatchResponse created() {
    pb::WatchResponse answer;
    answer.set_created(true);
    return answer;
  }
};

// Catches: an error that does not name its server, or names it twice; a kind that makes a caller
// react wrongly.
TEST_F(EtcdClientTest, ErrorsNameTheServerAndKeepEtcdsWords) {
  EXPECT_EQ("Unavailable: etcd at 10.5.0.2:2379: etcdserver: no leader",
            failsWith(14, "etcdserver: no leader"));
  EXPECT_EQ("ResourceExhausted: etcd at 10.5.0.2:2379: etcdserver: mvcc: database space exceeded",
            failsWith(8, "etcdserver: mvcc: database space exceeded"));
  EXPECT_THAT(failsWith(11, "etcdserver: mvcc: required revision has been compacted"),
              StartsWith("Conflict: "));
  EXPECT_THAT(failsWith(11, "etcdserver: mvcc: required revision is a future revision"),
              StartsWith("InvalidArgument: "));
  server.drop();
  scope.poll();
  refuses = true;
  EXPECT_EQ("Unavailable: etcd at 10.5.0.2:2379: Connection refused", failure(client.status()));
}

// Catches: a call that needs a leader and hangs at a member without a leader; a call that needs no
// leader and is refused without one.
TEST_F(EtcdClientTest, OnlyWhatNeedsALeaderAsksForOne) {
  std::map<std::string, std::string> seen;
  for (auto path : {"/etcdserverpb.KV/Put", "/etcdserverpb.KV/Range",
                    "/etcdserverpb.Maintenance/Status", "/etcdserverpb.Lease/LeaseKeepAlive"}) {
    server.methods[path] = [&seen, path](auto& x) {
      if (!x.ended) return;
      seen[path] = x.headers["hasleader"];
      x.send("");
      x.finish();
    };
  }
  client.put({kj::str("k"), kj::str("v")}).wait(scope);
  client.range({{kj::str("k")}}).wait(scope);
  client.status().wait(scope);
  EXPECT_THAT(failure(client.keepAlive(0x1f)), HasSubstr("lease 1f has expired or was revoked"));
  EXPECT_EQ("true", seen["/etcdserverpb.KV/Put"]);
  EXPECT_EQ("true", seen["/etcdserverpb.KV/Range"]);
  EXPECT_EQ("", seen["/etcdserverpb.Maintenance/Status"]);
  EXPECT_EQ("true", seen["/etcdserverpb.Lease/LeaseKeepAlive"]);
  client.range({.keys = {kj::str("k")}, .serializable = true}).wait(scope);
  EXPECT_EQ("", seen["/etcdserverpb.KV/Range"]);
}

// Catches: a lease that is believed to live longer than it does: the time that an answer takes is
// not its own.
TEST_F(EtcdClientTest, ALeaseCountsFromWhenItWasAskedFor) {
  pb::LeaseKeepAliveResponse answer;
  answer.set_id(7);
  answer.set_ttl(15);
  kj::Maybe<kj::Promise<void>> answering;
  server.methods["/etcdserverpb.Lease/LeaseKeepAlive"] = [&](auto& x) {
    if (!x.ended) return;
    answering = timer.afterDelay(900 * kj::MILLISECONDS)
                    .then([&]() {
                      x.send(answer.SerializeAsString());
                      x.finish();
                    })
                    .eagerlyEvaluate(nullptr);
  };
  server.methods["/etcdserverpb.Lease/LeaseGrant"] =
      server.methods["/etcdserverpb.Lease/LeaseKeepAlive"];
  auto asked = timer.now();
  auto beat = client.keepAlive(7);
  advance(timer, scope, 950 * kj::MILLISECONDS);
  auto lease = beat.wait(scope);
  EXPECT_EQ(asked, lease.sent);
  EXPECT_EQ(asked + 15 * kj::SECONDS, lease.until());
  asked = timer.now();
  pb::LeaseGrantResponse granted;
  auto first = client.grant(15 * kj::SECONDS);
  advance(timer, scope, 950 * kj::MILLISECONDS);
  EXPECT_EQ(asked, first.wait(scope).sent);
}

// Catches: a call, a watch or a snapshot that waits for ever for a server that has stopped.
TEST_F(EtcdClientTest, AServerThatNeverAnswersHasDeadlines) {
  for (auto path : {"/etcdserverpb.KV/Put", "/etcdserverpb.Watch/Watch",
                    "/etcdserverpb.Cluster/MemberAdd", "/etcdserverpb.Maintenance/Snapshot"}) {
    server.methods[path] = [](auto&) {};
  }
  auto put = client.put({kj::str("k"), kj::str("v")});
  auto watch = client.watch({{kj::str("k")}});
  auto add = client.addMember(kj::arr(kj::str("https://10.5.0.3:2380")), true);
  auto snapshot = client.snapshot([](auto, auto) { return kj::Promise<void>(kj::READY_NOW); });
  advance(timer, scope, 900 * kj::MILLISECONDS);
  EXPECT_FALSE(put.poll(scope) || watch.poll(scope) || add.poll(scope) || snapshot.poll(scope));
  advance(timer, scope, 200 * kj::MILLISECONDS);
  EXPECT_TRUE(put.poll(scope) && watch.poll(scope));
  EXPECT_EQ("DeadlineExceeded: etcd at 10.5.0.2:2379 has not answered /etcdserverpb.KV/Put in time",
            failure(kj::mv(put)));
  EXPECT_EQ("DeadlineExceeded: etcd at 10.5.0.2:2379 has not begun a watch within 1s",
            failure(kj::mv(watch)));
  EXPECT_FALSE(add.poll(scope));
  advance(timer, scope, 10 * kj::SECONDS);
  EXPECT_THAT(failure(kj::mv(add)), StartsWith("DeadlineExceeded: "));
  EXPECT_EQ("DeadlineExceeded: etcd at 10.5.0.2:2379: no piece of a snapshot within 10s",
            failure(kj::mv(snapshot)));
}

// Catches: the end of a watch that is not reported, or does not say whether the client must read
// again; messages without events that are taken for changes.
TEST_F(EtcdClientTest, AWatchThatEndsSaysWhy) {
  auto compacted = created();
  compacted.set_created(false);
  compacted.set_canceled(true);
  compacted.set_compact_revision(7);
  auto cancelled = created();
  cancelled.set_created(false);
  cancelled.set_canceled(true);
  cancelled.set_cancel_reason("etcdserver: no leader");
  pb::WatchResponse progress, change;
  change.add_events()->mutable_kv()->set_key("k");
  auto begin = [&]() { return client.watch({{kj::str("k")}, 3}).wait(scope); };
  answerWatch({created(), progress, change, compacted});
  {
    auto watch = begin();
    EXPECT_EQ(1, watch->next().wait(scope).events.size());
    EXPECT_EQ(
        "Conflict: etcd at 10.5.0.2:2379: cannot watch: revisions before 7 have been compacted",
        failure(watch->next()));
  }
  answerWatch({created(), cancelled});
  {
    auto watch = begin();
    EXPECT_EQ("Unavailable: etcd at 10.5.0.2:2379 has ended a watch: etcdserver: no leader",
              failure(watch->next()));
  }
  answerWatch({created()});
  {
    auto watch = begin();
    auto waiting = watch->next();
    EXPECT_FALSE(waiting.poll(scope));
    server.drop();
    EXPECT_EQ("Unavailable: the connection to etcd at 10.5.0.2:2379 was lost: closed",
              failure(kj::mv(waiting)));
  }
  server.methods["/etcdserverpb.Watch/Watch"] = [](auto& x) { x.send("\xff"); };
  EXPECT_THAT(failure(client.watch({{kj::str("k")}})), StartsWith("Internal: "));
}

// Catches: a watch that continues at the server after its client dropped it; a watch that loses a
// change because its reader gave up waiting.
TEST_F(EtcdClientTest, ADroppedWaitLosesNothingAndADroppedWatchEnds) {
  answerWatch({created()});
  {
    auto watch = client.watch({{kj::str("k")}}).wait(scope);
    {
      auto given = watch->next();
      EXPECT_FALSE(given.poll(scope));
    }
    pb::WatchResponse change;
    change.add_events()->mutable_kv()->set_key("k");
    server.exchanges.begin()->second.send(change.SerializeAsString());
    scope.poll();
    EXPECT_EQ("k", watch->next().wait(scope).events[0].kv.key);
    EXPECT_EQ(0, server.cancelled.size());
  }
  scope.poll();
  EXPECT_EQ(1, server.cancelled.size());
}

// Catches: a reader who is slow and for whom the whole database is kept in memory.
TEST_F(EtcdClientTest, ASnapshotWaitsForItsReader) {
  constexpr size_t kPieces = 64, kPiece = 256 * 1024;
  server.methods["/etcdserverpb.Maintenance/Snapshot"] = [&](auto& x) {
    if (!x.ended) return;
    for (size_t i = 1; i <= kPieces; ++i) {
      pb::SnapshotResponse piece;
      piece.set_blob(std::string(kPiece, 's'));
      piece.set_remaining_bytes((kPieces - i) * kPiece);
      x.send(piece.SerializeAsString());
    }
    x.finish();
  };
  auto paf = kj::newPromiseAndFulfiller<void>();
  bool first = true;
  size_t got = 0;
  auto all = client.snapshot([&](kj::ArrayPtr<const kj::byte> piece, uint64_t) {
    got += piece.size();
    if (!first) return kj::Promise<void>(kj::READY_NOW);
    first = false;
    return kj::mv(paf.promise);
  });
  EXPECT_FALSE(all.poll(scope));
  EXPECT_LT(server.exchanges.begin()->second.taken(), 3u << 20);
  advance(timer, scope, 60 * kj::SECONDS);
  EXPECT_FALSE(all.poll(scope)) << "the reader may take its time";
  paf.fulfiller->fulfill();
  EXPECT_EQ(kPieces * kPiece, all.wait(scope));
  EXPECT_EQ(kPieces * kPiece, got);
}

// Catches: a prefix whose end leaves out keys, or includes keys after the prefix.
TEST(EtcdMessages, EndsOfPrefixes) {
  EXPECT_EQ("b", endOfPrefix("a"));
  EXPECT_EQ("a0", endOfPrefix("a/"));
  EXPECT_EQ("b", endOfPrefix("a\xff\xff"));
  EXPECT_EQ(kj::heapString("\0", 1), endOfPrefix("\xff"));
  EXPECT_EQ(kj::heapString("\0", 1), endOfPrefix(""));
}

}  // namespace
}  // namespace talos::etcd
