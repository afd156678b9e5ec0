// Contents of a cluster of etcd, as its clients see them: keys with revisions and their history,
// transactions, leases, watches; for tests. Pure but for the clock, which is the test's.
//
// Refusals are exceptions with etcd's words; the code that answers a call prefixes its server's
// name. One store represents all replicas: a member that lags is not modelled.
#pragma once

#include <kj/debug.h>
#include <kj/refcount.h>
#include <kj/timer.h>
#include <kj/vector.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/etcd/etcd.h"

namespace talos::etcd {

class ModelStore {
 public:
  ModelStore(kj::Timer& timer, kj::Duration minTtl) : timer(timer), minTtl(minTtl) {}
  KJ_DISALLOW_COPY_AND_MOVE(ModelStore);

  Revision revision = 1, compacted = 0;

  // --- keys ---

  RangeResult range(const Range& request) const {
    requireKey(request.keys);
    if (request.revision > revision) {
      fail(ErrorKind::kInvalidArgument, "etcdserver: mvcc: required revision is a future revision");
    }
    if (request.revision != 0 && request.revision < compacted) {
      fail(ErrorKind::kConflict, "etcdserver: mvcc: required revision has been compacted");
    }
    if (request.revision == 0 || request.revision == revision) return select(keys, request);
    return select(keysAt(request.revision), request);
  }

  TxnResult txn(const Txn& request) {
    check(request.then);
    check(request.otherwise);
    TxnResult result;
    result.succeeded = std::all_of(request.compare.begin(), request.compare.end(),
                                   [&](auto& c) { return isSatisfied(c); });
    auto& branch = result.succeeded ? request.then : request.otherwise;
    for (auto& o : branch) {  // checked before any change
      if (o.is<Put>()) requireLease(o.get<Put>().lease);
    }
    kj::Vector<OperationResult> results;
    std::vector<Event> events;
    for (auto& o : branch) results.add(apply(o, events));
    commit(kj::mv(events));
    result.revision = revision;
    for (auto& r : results) stamp(r);
    result.results = results.releaseAsArray();
    return result;
  }

  // Compacts the history, as Kubernetes' API server does from time to time.
  void compact(Revision at) { compacted = at; }

  // --- leases ---

  Lease grant(kj::Duration ttl) {
    ttl = kj::max(ttl, minTtl);
    auto id = ++lastLease;
    leases[id] = {ttl, timer.now() + ttl, {}};
    return {id, ttl};
  }
  // Renews a lease. If there is no such lease, returns one with a time of zero.
  Lease keepAlive(LeaseId id) {
    auto found = leases.find(id);
    if (found == leases.end()) return {id};
    found->second.expires = timer.now() + found->second.ttl;
    return {id, found->second.ttl};
  }
  void revoke(LeaseId id) {
    requireLease(id);
    std::vector<Event> events;
    auto lease = kj::mv(leases.at(id));
    leases.erase(id);
    for (auto& key : lease.keys) {
      auto& kv = keys.at(key);
      kv.lease = 0;
      drop(key, events);
    }
    commit(kj::mv(events));
  }
  // Gives every lease its full time again, as a new leader does.
  void restartLeases() {
    for (auto& item : leases) item.second.expires = timer.now() + item.second.ttl;
  }
  void expireLeases() {
    for (;;) {
      auto due = std::find_if(leases.begin(), leases.end(),
                              [&](auto& item) { return item.second.expires <= timer.now(); });
      if (due == leases.end()) return;
      revoke(due->first);
    }
  }
  kj::Maybe<kj::TimePoint> nextExpiry() const {
    kj::Maybe<kj::TimePoint> next;
    for (auto& item : leases) {
      next = kj::min(item.second.expires, next.orDefault(item.second.expires));
    }
    return next;
  }
  size_t leaseCount() const { return leases.size(); }

  // --- watches ---

  // Events of one watch that its client has not read yet.
  struct Watcher : kj::Refcounted {
    WatchRequest request;
    std::deque<Events> pending;
    kj::Maybe<kj::Exception> over;
    kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> waiting;

    void wake() {
      KJ_IF_MAYBE (w, waiting) (*w)->fulfill();
      waiting = nullptr;
    }
    void end(kj::Exception&& error) {
      if (over == nullptr) over = kj::mv(error);
      wake();
    }
  };

  kj::Own<Watcher> watch(WatchRequest request) {
    requireKey(request.keys);
    auto watcher = kj::refcounted<Watcher>();
    watcher->request = kj::mv(request);
    auto from = watcher->request.from;
    if (from != 0 && from < compacted) {
      watcher->end(error(ErrorKind::kConflict, kj::str("cannot watch: revisions before ", compacted,
                                                       " have been compacted")));
    } else if (from != 0 && from <= revision) {
      std::vector<Event> events;  // the events that it missed come in one batch
      for (auto& e : history) {
        if (e.kv.modRevision >= from) events.push_back(copy(e));
      }
      deliver(*watcher, events);
    }
    watchers.push_back(kj::addRef(*watcher));
    return watcher;
  }

 private:
  struct LeaseState {
    kj::Duration ttl = 0 * kj::SECONDS;
    kj::TimePoint expires = kj::origin<kj::TimePoint>();
    std::set<std::string> keys;
  };
  using KeyMap = std::map<std::string, KeyValue>;

  kj::Timer& timer;
  kj::Duration minTtl;
  KeyMap keys;
  std::vector<Event> history;
  std::map<LeaseId, LeaseState> leases;
  LeaseId lastLease = 0x7000;
  std::vector<kj::Own<Watcher>> watchers;

  static std::string text(kj::StringPtr s) { return std::string(s.begin(), s.size()); }
  static KeyValue copy(const KeyValue& kv) {
    return {kj::str(kv.key), kj::str(kv.value), kv.createRevision,
            kv.modRevision,  kv.version,        kv.lease};
  }
  static Event copy(const Event& e) { return {e.deleted, copy(e.kv)}; }

  static void requireKey(const Keys& keys) {
    if (!keys.prefix) requireKey(keys.key);
  }
  static void requireKey(kj::StringPtr key) {
    if (key.size() == 0) fail(ErrorKind::kInvalidArgument, "etcdserver: key is not provided");
  }
  void requireLease(LeaseId id) const {
    if (id == 0 || leases.contains(id)) return;
    fail(ErrorKind::kNotFound, "etcdserver: requested lease not found");
  }
  static bool covers(const Keys& keys, kj::StringPtr key) {
    return keys.prefix ? key.startsWith(keys.key) : key == keys.key;
  }

  static void check(kj::ArrayPtr<const Operation> branch) {
    if (branch.size() > 128) {
      fail(ErrorKind::kInvalidArgument, "etcdserver: too many operations in txn request");
    }
    std::set<std::string> puts;
    bool twice = false;
    for (auto& o : branch) {
      if (!o.is<Put>()) continue;
      requireKey(o.get<Put>().key);
      twice = twice || !puts.insert(text(o.get<Put>().key)).second;
    }
    for (auto& o : branch) {
      if (!o.is<Delete>()) continue;
      for (auto& key : puts) {
        twice = twice || covers(o.get<Delete>().keys, kj::heapString(key.data(), key.size()));
      }
    }
    if (!twice) return;
    fail(ErrorKind::kInvalidArgument, "etcdserver: duplicate key given in txn request");
  }

  bool isSatisfied(const Compare& c) const {
    auto found = keys.find(text(c.key));
    static const KeyValue kNone;
    auto& kv = found == keys.end() ? kNone : found->second;
    auto is = [&](const auto& actual, const auto& wanted) {
      switch (c.is) {
        case Compare::Is::kEqual:
          return actual == wanted;
        case Compare::Is::kGreater:
          return actual > wanted;
        case Compare::Is::kLess:
          return actual < wanted;
        case Compare::Is::kNotEqual:
          return actual != wanted;
      }
      KJ_UNREACHABLE;
    };
    switch (c.what) {
      case Compare::What::kVersion:
        return is(kv.version, c.number);
      case Compare::What::kCreateRevision:
        return is(kv.createRevision, c.number);
      case Compare::What::kModRevision:
        return is(kv.modRevision, c.number);
      case Compare::What::kLease:
        return is(kv.lease, c.number);
      case Compare::What::kValue:
        return found != keys.end() && is(text(kv.value), text(c.value));
    }
    KJ_UNREACHABLE;
  }

  OperationResult apply(const Operation& operation, std::vector<Event>& events) {
    OperationResult result;
    KJ_SWITCH_ONEOF(operation) {
      KJ_CASE_ONEOF(put, Put) {
        set(put, events);
        result.init<PutResult>();
      }
      KJ_CASE_ONEOF(remove, Delete) {
        requireKey(remove.keys);
        std::vector<std::string> gone;
        for (auto& item : keys) {
          if (covers(remove.keys, item.second.key)) gone.push_back(item.first);
        }
        for (auto& key : gone) drop(key, events);
        result.init<DeleteResult>().deleted = static_cast<int64_t>(gone.size());
      }
      KJ_CASE_ONEOF(range, Range) {
        requireKey(range.keys);
        result.init<RangeResult>(select(keys, range));
      }
    }
    return result;
  }

  void set(const Put& put, std::vector<Event>& events) {
    auto name = text(put.key);
    auto& kv = keys[name];
    if (kv.version == 0) {
      kv.key = kj::str(put.key);
      kv.createRevision = revision + 1;
    }
    if (kv.lease != 0) leases.at(kv.lease).keys.erase(name);
    kv.value = kj::str(put.value);
    kv.modRevision = revision + 1;
    ++kv.version;
    kv.lease = put.lease;
    if (kv.lease != 0) leases.at(kv.lease).keys.insert(name);
    events.push_back({false, copy(kv)});
  }

  void drop(const std::string& name, std::vector<Event>& events) {
    auto& kv = keys.at(name);
    if (kv.lease != 0) leases.at(kv.lease).keys.erase(name);
    events.push_back({true, {kj::str(kv.key), nullptr, 0, revision + 1}});
    keys.erase(name);
  }

  // Commits the events of one transaction, which all have one revision.
  void commit(std::vector<Event> events) {
    if (events.empty()) return;
    ++revision;
    std::erase_if(watchers, [](auto& w) { return !w->isShared() || w->over != nullptr; });
    for (auto& w : watchers) deliver(*w, events);
    for (auto& e : events) history.push_back(kj::mv(e));
  }

  void stamp(OperationResult& result) const {
    KJ_SWITCH_ONEOF(result) {
      KJ_CASE_ONEOF(put, PutResult) {
        put.revision = revision;
      }
      KJ_CASE_ONEOF(remove, DeleteResult) {
        remove.revision = revision;
      }
      KJ_CASE_ONEOF(range, RangeResult) {
        range.revision = revision;
      }
    }
  }

  void deliver(Watcher& watcher, const std::vector<Event>& events) const {
    auto& wanted = watcher.request;
    kj::Vector<Event> covered;
    for (auto& e : events) {
      if (!covers(wanted.keys, e.kv.key) || e.kv.modRevision < wanted.from) continue;
      if (e.deleted ? wanted.deletes : wanted.puts) covered.add(copy(e));
    }
    if (covered.empty()) return;
    watcher.pending.push_back({revision, covered.releaseAsArray()});
    watcher.wake();
  }

  KeyMap keysAt(Revision at) const {
    KeyMap result;
    for (auto& e : history) {
      if (e.kv.modRevision > at) break;
      if (e.deleted) {
        result.erase(text(e.kv.key));
      } else {
        result[text(e.kv.key)] = copy(e.kv);
      }
    }
    return result;
  }

  RangeResult select(const KeyMap& from, const Range& request) const {
    std::vector<const KeyValue*> found;
    int64_t count = 0;
    for (auto& item : from) {
      if (!covers(request.keys, item.second.key)) continue;
      ++count;
      auto most = request.maxCreateRevision;
      if (most == 0 || item.second.createRevision <= most) found.push_back(&item.second);
    }
    if (request.order != Range::Order::kKey) {
      bool created = request.order == Range::Order::kCreateRevision;
      std::stable_sort(found.begin(), found.end(), [&](auto* a, auto* b) {
        return created ? a->createRevision < b->createRevision : a->modRevision < b->modRevision;
      });
    }
    if (request.descending) std::reverse(found.begin(), found.end());
    RangeResult result;
    result.revision = revision;
    result.count = count;
    if (request.countOnly) return result;
    auto size = found.size();
    if (request.limit > 0) size = std::min(size, static_cast<size_t>(request.limit));
    result.more = size < found.size();
    kj::Vector<KeyValue> kvs;
    for (size_t i = 0; i < size; ++i) {
      auto& kv = kvs.add(copy(*found[i]));
      if (request.keysOnly) kv.value = nullptr;
    }
    result.kvs = kvs.releaseAsArray();
    return result;
  }
};

}  // namespace talos::etcd
