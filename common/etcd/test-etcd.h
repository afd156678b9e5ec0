// An etcd in the test's event loop and time, faithful in all that etcd-table-test.cc checks.
//
// A `ModelEtcd` is one client of one member of a `ModelCluster`; a test may use several of both.
// Every call takes a turn of the loop. A call takes effect at the server even if its caller has
// dropped it, as with a real etcd.
#pragma once

#include <openssl/sha.h>

#include "common/base/within.h"
#include "common/etcd/test-etcd-cluster.h"

namespace talos::etcd {

// Faults between a client and its server, for the calls that start while the faults are set.
struct Faults {
  bool unreachable = false;                    // connection refused
  bool hanging = false;                        // accepted, but never answered
  kj::Duration effectAfter = 0 * kj::SECONDS;  // time that the request is on its way
  kj::Duration answerAfter = 0 * kj::SECONDS;  // time that the answer is on its way
  bool answersLost = false;                    // the call takes effect, but its answer is lost
  bool silent = false;                         // watches start but report nothing
  kj::Maybe<size_t> snapshotEnds = nullptr;    // bytes after which the connection is lost
  bool snapshotDamaged = false;                // the snapshot's hash does not match its bytes
};

class ModelEtcd final : public Etcd {
 public:
  ModelEtcd(ModelCluster& cluster, MemberId id, Deadlines deadlines = {})
      : cluster(cluster), id(id), deadlines(deadlines) {
    auto& member = cluster.members.at(id).member;
    auto at = member.clientUrls.size() == 0 ? kj::str(member.name)
                                            : kj::str(member.clientUrls[0].slice(8));
    ownName = kj::str("etcd at ", at);
  }
  // Connects to the member that leads now.
  explicit ModelEtcd(ModelCluster& cluster) : ModelEtcd(cluster, cluster.leader) {}

  Faults faults;
  std::vector<std::string> calls;  // calls that were started: "put", "keepAlive"

  kj::StringPtr name() const override { return ownName; }

  kj::Promise<RangeResult> range(Range request) override {
    auto needs = request.serializable ? kLocal : kLeader;
    return serve<RangeResult>("range", needs, deadlines.call,
                              [&c = cluster, r = kj::mv(request)]() { return c.store.range(r); });
  }
  kj::Promise<PutResult> put(Put request) override {
    kj::Vector<Operation> operations;
    operations.add().init<Put>(kj::mv(request));
    return change("put", {nullptr, operations.releaseAsArray(), nullptr}).then([](TxnResult&& r) {
      return r.results[0].get<PutResult>();
    });
  }
  kj::Promise<DeleteResult> remove(Delete request) override {
    kj::Vector<Operation> operations;
    operations.add().init<Delete>(kj::mv(request));
    return change("remove", {nullptr, operations.releaseAsArray(), nullptr})
        .then([](TxnResult&& r) { return r.results[0].get<DeleteResult>(); });
  }
  kj::Promise<TxnResult> txn(Txn request) override { return change("txn", kj::mv(request)); }

  kj::Promise<kj::Own<Watch>> watch(WatchRequest request) override {
    return serve<kj::Own<Watch>>(
        "watch", kLeader, deadlines.call,
        [&c = cluster, id = id, name = kj::str(ownName), silent = faults.silent,
         r = kj::mv(request)]() mutable {
          if (silent) return kj::Own<Watch>(kj::heap<SilentWatch>());
          auto watcher = c.store.watch(kj::mv(r));
          c.watchedThrough(id, kj::addRef(*watcher));
          return kj::Own<Watch>(kj::heap<ModelWatch>(kj::mv(name), kj::mv(watcher)));
        });
  }

  kj::Promise<Lease> grant(kj::Duration ttl) override {
    auto sent = cluster.timer.now();
    return serve<Lease>("grant", kLeader, deadlines.call, [&c = cluster, ttl, sent]() {
      requireSpace(c);
      auto lease = c.store.grant(ttl);
      c.leasesChanged();
      lease.sent = sent;
      return lease;
    });
  }
  kj::Promise<Lease> keepAlive(LeaseId lease) override {
    auto sent = cluster.timer.now();
    return serve<Lease>("keepAlive", kLeader, deadlines.call, [&c = cluster, lease, sent]() {
      auto kept = c.store.keepAlive(lease);
      c.leasesChanged();
      if (kept.ttl == 0 * kj::SECONDS) noLease(lease);
      kept.sent = sent;
      return kept;
    });
  }
  kj::Promise<void> revoke(LeaseId lease) override {
    return serve<Nothing>("revoke", kLeader, deadlines.call,
                          [&c = cluster, lease]() {
                            c.store.revoke(lease);
                            return Nothing();
                          })
        .ignoreResult();
  }

  kj::Promise<MemberList> members(bool linearizable = true) override {
    return serve<MemberList>("members", linearizable ? kLeader : kVoter, deadlines.call,
                             [&c = cluster, id = id]() { return MemberList{c.list(), id}; });
  }
  kj::Promise<MemberAdded> addMember(kj::Array<kj::String> urls, bool learner) override {
    return serve<MemberAdded>("addMember", kLeader, deadlines.change,
                              [&c = cluster, asked = id, urls = kj::mv(urls), learner]() {
                                return c.add(asked, urls, learner);
                              });
  }
  kj::Promise<kj::Array<Member>> removeMember(MemberId member) override {
    return serve<kj::Array<Member>>(
        "removeMember", kLeader, deadlines.change,
        [&c = cluster, asked = id, member]() { return c.remove(asked, member); });
  }
  // etcd does not store that the member is a learner, because the request cannot say so.
  kj::Promise<kj::Array<Member>> updateMember(MemberId member,
                                              kj::Array<kj::String> urls) override {
    return serve<kj::Array<Member>>(
        "updateMember", kLeader, deadlines.change,
        [&c = cluster, member, urls = kj::mv(urls)]() mutable {
          auto found = c.members.find(member);
          if (found == c.members.end()) fail(ErrorKind::kNotFound, "etcdserver: member not found");
          for (auto& item : c.members) {
            if (item.first == member || item.second.member.peerUrls[0] != urls[0]) continue;
            fail(ErrorKind::kFailedPrecondition, "etcdserver: Peer URLs already exists");
          }
          found->second.member.peerUrls = kj::mv(urls);
          found->second.member.learner = false;
          return c.list();
        });
  }
  kj::Promise<kj::Array<Member>> promoteMember(MemberId member) override {
    return serve<kj::Array<Member>>("promoteMember", kLeader, deadlines.change,
                                    [&c = cluster, member]() { return c.promote(member); });
  }

  kj::Promise<Status> status() override {
    return serve<Status>("status", kLocal, deadlines.call, [&c = cluster, id = id]() {
      Status status;
      status.member = id;
      status.cluster = 0xc1;
      status.version = kj::str(c.version);
      status.dbSize = c.dbSize;
      status.dbSizeInUse = c.dbSizeInUse;
      status.leader = c.leader;
      status.raftTerm = c.term;
      status.raftIndex = status.raftAppliedIndex = static_cast<uint64_t>(c.store.revision) + 3;
      status.revision = c.store.revision;
      status.learner = c.members.at(id).member.learner;
      kj::Vector<kj::String> errors;
      if (c.leader == 0) errors.add(kj::str("etcdserver: no leader"));
      for (auto& a : c.alarms) {
        errors.add(kj::str("memberID:", a.member, " alarm:",
                           a.type == Alarm::Type::kNoSpace ? "NOSPACE" : "CORRUPT", " "));
      }
      status.errors = errors.releaseAsArray();
      return status;
    });
  }
  kj::Promise<void> moveLeader(MemberId to) override {
    return serve<Nothing>("moveLeader", kLeader, deadlines.change,
                          [&c = cluster, id = id, to]() {
                            c.moveLeader(id, to);
                            return Nothing();
                          })
        .ignoreResult();
  }
  kj::Promise<kj::Array<Alarm>> alarms() override {
    return serve<kj::Array<Alarm>>("alarms", kLeader, deadlines.call, [&c = cluster]() {
      return kj::heapArray<Alarm>(c.alarms.begin(), c.alarms.end());
    });
  }
  kj::Promise<kj::Array<Alarm>> disarm(Alarm alarm) override {
    return serve<kj::Array<Alarm>>("disarm", kLeader, deadlines.call, [&c = cluster, alarm]() {
      std::vector<Alarm> removed;
      auto all = c.alarms;
      for (auto& a : all) {
        if (alarm.type != Alarm::Type::kNone && a.type != alarm.type) continue;
        if (alarm.member != 0 && a.member != alarm.member) continue;
        for (auto& gone : c.disarm(a)) removed.push_back(gone);
      }
      return kj::heapArray<Alarm>(removed.data(), removed.size());
    });
  }
  kj::Promise<void> defragment() override {
    return serve<Nothing>("defragment", kVoter, deadlines.heavy,
                          [&c = cluster]() {
                            c.dbSize = c.dbSizeInUse;
                            return Nothing();
                          })
        .ignoreResult();
  }
  kj::Promise<uint64_t> snapshot(SnapshotSink sink) override {
    constexpr size_t kPiece = 32768;
    auto ends = faults.snapshotEnds;
    bool damaged = faults.snapshotDamaged;
    auto bytes = co_await serve<kj::Array<kj::byte>>(
        "snapshot", kLocal, deadlines.piece,
        [&c = cluster]() { return kj::heapArray<kj::byte>(c.database.asPtr()); });
    uint64_t sent = 0;
    auto send = [&](kj::ArrayPtr<const kj::byte> piece, uint64_t remaining) {
      sent += piece.size();
      if (sent > ends.orDefault(UINT64_MAX) || !cluster.alive(id)) {
        fail(ErrorKind::kUnavailable, kj::str("the connection to ", ownName, " was lost: closed"));
      }
      return sink(piece, remaining);
    };
    for (size_t at = 0; at < bytes.size(); at += kPiece) {
      auto end = kj::min(bytes.size(), at + kPiece);
      co_await send(bytes.slice(at, end), bytes.size() - end);
    }
    kj::byte hash[SHA256_DIGEST_LENGTH];
    SHA256(bytes.begin(), bytes.size(), hash);
    hash[0] ^= damaged;
    co_await send(hash, 0);
    co_return sent;
  }

 private:
  struct Nothing {};
  enum Needs { kLocal, kVoter, kLeader };  // a learner answers only kLocal calls

  ModelCluster& cluster;
  MemberId id;
  Deadlines deadlines;
  kj::String ownName;

  class SilentWatch final : public Watch {
   public:
    kj::Promise<Events> next() override { return kj::NEVER_DONE; }
  };
  class ModelWatch final : public Watch {
   public:
    ModelWatch(kj::String name, kj::Own<ModelStore::Watcher> watcher)
        : name(kj::mv(name)), watcher(kj::mv(watcher)) {}
    kj::Promise<Events> next() override {
      while (watcher->pending.empty() && watcher->over == nullptr) {
        auto paf = kj::newPromiseAndFulfiller<void>();
        watcher->waiting = kj::mv(paf.fulfiller);
        co_await paf.promise;
      }
      if (!watcher->pending.empty()) {
        auto events = kj::mv(watcher->pending.front());
        watcher->pending.pop_front();
        co_return kj::mv(events);
      }
      kj::throwFatalException(named(name, KJ_ASSERT_NONNULL(watcher->over)));
    }

   private:
    kj::String name;
    kj::Own<ModelStore::Watcher> watcher;
  };

  static kj::Exception named(kj::StringPtr name, const kj::Exception& e) {
    return error(kindOf(e), kj::str(name, ": ", messageOf(e)));
  }
  [[noreturn]] static void noLease(LeaseId lease) {
    fail(ErrorKind::kNotFound,
         kj::str("lease ", kj::hex(static_cast<uint64_t>(lease)), " has expired or was revoked"));
  }
  static void requireSpace(const ModelCluster& c) {
    for (auto& a : c.alarms) {
      if (a.type != Alarm::Type::kNoSpace) continue;
      fail(ErrorKind::kResourceExhausted, "etcdserver: mvcc: database space exceeded");
    }
  }

  kj::Promise<TxnResult> change(kj::StringPtr method, Txn request) {
    return serve<TxnResult>(method, kLeader, deadlines.call, [&c = cluster, r = kj::mv(request)]() {
      for (auto& o : r.then) {
        if (o.is<Put>()) requireSpace(c);
      }
      return c.store.txn(r);
    });
  }

  template <typename T>
  kj::Promise<T> serve(kj::StringPtr method, Needs needs, kj::Duration deadline,
                       kj::Function<T()> effect) {
    calls.push_back(method.cStr());
    auto paf = kj::newPromiseAndFulfiller<T>();
    cluster.run(answer(cluster, id, kj::str(ownName), faults, needs, kj::mv(effect),
                       kj::mv(paf.fulfiller)));
    return within(cluster.timer, deadline, kj::mv(paf.promise),
                  kj::str(ownName, " has not answered ", method, " in time"));
  }

  // Uses nothing of the client, which may no longer exist.
  template <typename T>
  static kj::Promise<void> answer(ModelCluster& cluster, MemberId id, kj::String name,
                                  Faults faults, Needs needs, kj::Function<T()> effect,
                                  kj::Own<kj::PromiseFulfiller<T>> waiting) {
    auto reject = [&](ErrorKind kind, kj::StringPtr words) {
      waiting->reject(error(kind, kj::str(name, ": ", words)));
    };
    co_await kj::evalLater([]() {});
    if (faults.unreachable || !cluster.alive(id)) {
      reject(ErrorKind::kUnavailable, "Connection refused");
      co_return;
    }
    if (faults.hanging) co_await kj::Promise<void>(kj::NEVER_DONE);
    if (faults.effectAfter > 0 * kj::SECONDS) co_await cluster.timer.afterDelay(faults.effectAfter);
    if (!cluster.alive(id)) {
      reject(ErrorKind::kUnavailable, "the connection was lost: closed");
      co_return;
    }
    if (needs != kLocal && cluster.members.at(id).member.learner) {
      reject(ErrorKind::kUnavailable, "etcdserver: rpc not supported for learner");
      co_return;
    }
    if (needs == kLeader && cluster.unsettled()) co_await kj::Promise<void>(kj::NEVER_DONE);
    if (needs == kLeader && cluster.leader == 0) {
      reject(ErrorKind::kUnavailable, "etcdserver: no leader");
      co_return;
    }
    kj::Maybe<T> result;
    auto wrong = kj::runCatchingExceptions([&]() { result = effect(); });
    if (faults.answersLost) co_await kj::Promise<void>(kj::NEVER_DONE);
    if (faults.answerAfter > 0 * kj::SECONDS) co_await cluster.timer.afterDelay(faults.answerAfter);
    KJ_IF_MAYBE (e, wrong) {
      waiting->reject(named(name, *e));
    } else {
      waiting->fulfill(kj::mv(KJ_ASSERT_NONNULL(result)));
    }
  }
};

}  // namespace talos::etcd
