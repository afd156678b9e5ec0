// etcd, as its users here see it: the calls of version 3 that they need, as promises and plain
// structs. `EtcdClient` (etcd-client.h) is the real one, `ModelEtcd` (test-etcd.h) the one of
// tests.
//
// Nothing is repeated by itself: only the caller knows what may be done twice. Every call has a
// deadline of its own, which the server knows; a promise that is dropped ends the call, but what
// it had asked for may have been done. After DeadlineExceeded or Unavailable that is unknown too:
// read before writing again, or write so that twice is once (`Txn` with a comparison).
//
// Errors carry the server's name and etcd's own words ("etcd at 10.5.0.2:2379: etcdserver: no
// leader"). Kinds that a caller can act on:
//   kUnavailable         not reached, no leader, the leader changed, a member that was not seen for
//                        5 s yet, asked of a learner (it answers only status(), snapshot() and
//                        serializable reads): ask again
//   kDeadlineExceeded    no answer in time: ask again
//   kNotFound            no such lease or member
//   kFailedPrecondition  a change of members that etcd refuses now (a learner that is not in sync,
//                        one learner too many, members that have not started), not the leader
//   kResourceExhausted   the database is full (an alarm), or too many requests
//   kInvalidArgument     the request is wrong in itself; a revision that is in the future
//   kConflict            the revision that was asked for has been compacted: read anew
//   kUnauthenticated     TLS: no certificate, or one that is refused
//
// Keys and values are bytes; a kj::String of them may have zeros inside.
#pragma once

#include <kj/array.h>
#include <kj/async.h>
#include <kj/function.h>
#include <kj/one-of.h>
#include <kj/string.h>
#include <kj/time.h>

#include "common/base/error.h"

namespace talos::etcd {

using LeaseId = int64_t;  // 0: none
using MemberId = uint64_t;
using Revision = int64_t;  // of the whole store; counts up with each change

struct KeyValue {
  kj::String key, value;
  Revision createRevision = 0, modRevision = 0;
  int64_t version = 0;  // 1 when created
  LeaseId lease = 0;
};

// --- keys ---

struct Keys {
  kj::String key;
  bool prefix = false;  // all keys that begin with it; an empty one: all keys
};

struct Range {
  enum class Order { kKey, kCreateRevision, kModRevision };

  Keys keys;
  Order order = Order::kKey;
  bool descending = false;
  int64_t limit = 0;          // 0: none
  bool serializable = false;  // from this member's own store, perhaps old, also without a leader
  bool keysOnly = false, countOnly = false;
  Revision revision = 0;           // 0: now
  Revision maxCreateRevision = 0;  // only keys that were created at it or before; 0: any
};

struct RangeResult {
  Revision revision = 0;  // of the store, when it was read
  kj::Array<KeyValue> kvs;
  int64_t count = 0;  // all that there are, whatever the limit was
  bool more = false;  // than the limit
};

struct Put {
  kj::String key, value;
  LeaseId lease = 0;
};

struct Delete {
  Keys keys;
};

struct PutResult {
  Revision revision = 0;
};

struct DeleteResult {
  Revision revision = 0;
  int64_t deleted = 0;
};

// One condition of a transaction.
struct Compare {
  enum class What { kVersion, kCreateRevision, kModRevision, kLease, kValue };
  enum class Is { kEqual, kGreater, kLess, kNotEqual };

  kj::String key;
  What what;
  Is is = Is::kEqual;
  int64_t number = 0;  // for all but kValue
  kj::String value = nullptr;

  static Compare absent(kj::String key) { return {kj::mv(key), What::kCreateRevision}; }
  static Compare created(kj::String key, Revision at) {
    return {kj::mv(key), What::kCreateRevision, Is::kEqual, at};
  }
  static Compare modified(kj::String key, Revision at) {
    return {kj::mv(key), What::kModRevision, Is::kEqual, at};
  }
  static Compare valued(kj::String key, kj::String value) {
    return {kj::mv(key), What::kValue, Is::kEqual, 0, kj::mv(value)};
  }
};

using Operation = kj::OneOf<Put, Delete, Range>;
using OperationResult = kj::OneOf<PutResult, DeleteResult, RangeResult>;

// `then` when all comparisons hold, `otherwise` when one does not; one revision for all of it.
struct Txn {
  kj::Array<Compare> compare;
  kj::Array<Operation> then, otherwise;
};

struct TxnResult {
  Revision revision = 0;
  bool succeeded = false;              // the comparisons held
  kj::Array<OperationResult> results;  // of the branch that was done, in its order
};

// --- watches ---

struct WatchRequest {
  Keys keys;
  Revision from = 0;  // the first change that is of interest; 0: what comes after now
  bool puts = true, deletes = true;
};

struct Event {
  bool deleted = false;
  KeyValue kv;  // of a deletion: key and modRevision only
};

struct Events {
  Revision revision = 0;  // of the store when they were sent
  kj::Array<Event> events;
};

// Dropping it ends the watch.
class Watch {
 public:
  virtual ~Watch() noexcept(false) = default;

  // The next changes, oldest first, none twice and none missing; waits until there are some. At
  // least one; those of one revision may come in several pieces. Rejects when the watch is over:
  // kUnavailable when the connection or the leader was lost, kConflict when what it would have
  // reported next was compacted. The owner reads and watches anew. One at a time.
  virtual kj::Promise<Events> next() = 0;
};

// --- leases ---

struct Lease {
  LeaseId id = 0;
  kj::Duration ttl = 0 * kj::SECONDS;  // what was granted: perhaps more than was asked for
  // Taken before the request was sent. The lease lives at least until sent + ttl, whatever the
  // answer took: a holder that stops by then has stopped in time.
  kj::TimePoint sent = kj::origin<kj::TimePoint>();

  kj::TimePoint until() const { return sent + ttl; }
};

struct LeaseStatus {
  LeaseId id = 0;
  kj::Duration left = 0 * kj::SECONDS, granted = 0 * kj::SECONDS;
  kj::Array<kj::String> keys;
};

// --- members ---

struct Member {
  MemberId id = 0;
  kj::String name;  // empty: has not started yet
  kj::Array<kj::String> peerUrls, clientUrls;
  bool learner = false;
};

struct MemberList {
  kj::Array<Member> members;
  MemberId answeredBy = 0;
};

struct MemberAdded {
  Member member;
  kj::Array<Member> members;
};

// --- one server ---

struct Status {
  MemberId member = 0;
  uint64_t cluster = 0;
  kj::String version;
  int64_t dbSize = 0, dbSizeInUse = 0;
  MemberId leader = 0;  // 0: none
  uint64_t raftIndex = 0, raftTerm = 0, raftAppliedIndex = 0;
  int64_t revision = 0;  // the newest of its data
  bool learner = false;
  kj::Array<kj::String> errors;  // alarms and the like, in etcd's words
};

struct Alarm {
  enum class Type { kNone, kNoSpace, kCorrupt };

  MemberId member = 0;
  Type type = Type::kNone;
};

struct StoreHash {
  uint32_t hash = 0;
  Revision revision = 0, compactRevision = 0;
};

// Takes a piece of a snapshot and how many bytes of the database come after it (not counted: the 32
// bytes of its SHA-256, which are the last piece); the next comes when its promise is resolved.
using SnapshotSink =
    kj::Function<kj::Promise<void>(kj::ArrayPtr<const kj::byte> piece, uint64_t remaining)>;

// How long is waited for an answer, connecting included. A write that is in flight when the leader
// dies is answered by etcd after 6 to 7 seconds: whoever has waited for a second asks again
// instead, perhaps another server.
struct Deadlines {
  kj::Duration call = 1 * kj::SECONDS;    // keys, leases, the beginning of a watch, status
  kj::Duration change = 5 * kj::SECONDS;  // of members and of the leader
  kj::Duration heavy = 60 * kj::SECONDS;  // defragment, hashKv: by the size of the database
  kj::Duration piece = 10 * kj::SECONDS;  // of a snapshot, from one to the next
  kj::Duration silence = 15 * kj::SECONDS;
};

class Etcd {
 public:
  virtual ~Etcd() noexcept(false) = default;

  // Its name in errors: "etcd at 10.5.0.2:2379".
  virtual kj::StringPtr name() const = 0;

  virtual kj::Promise<RangeResult> range(Range request) = 0;
  virtual kj::Promise<PutResult> put(Put request) = 0;
  virtual kj::Promise<DeleteResult> remove(Delete request) = 0;
  virtual kj::Promise<TxnResult> txn(Txn request) = 0;

  // Resolves when the server watches: no change after that is missed. It ends when the server has
  // no leader any more. Without one that answers within the usual time, DeadlineExceeded.
  virtual kj::Promise<kj::Own<Watch>> watch(WatchRequest request) = 0;

  virtual kj::Promise<Lease> grant(kj::Duration ttl) = 0;
  // One beat. NotFound when the lease has expired or was revoked: its keys are gone.
  virtual kj::Promise<Lease> keepAlive(LeaseId id) = 0;
  // Deletes its keys.
  virtual kj::Promise<void> revoke(LeaseId id) = 0;
  virtual kj::Promise<LeaseStatus> timeToLive(LeaseId id) = 0;

  // linearizable: what the leader knows; otherwise what this member knows.
  virtual kj::Promise<MemberList> members(bool linearizable = true) = 0;
  virtual kj::Promise<MemberAdded> addMember(kj::Array<kj::String> peerUrls, bool learner) = 0;
  virtual kj::Promise<kj::Array<Member>> removeMember(MemberId id) = 0;
  virtual kj::Promise<kj::Array<Member>> updateMember(MemberId id,
                                                      kj::Array<kj::String> peerUrls) = 0;
  // Of a learner to a voting member.
  virtual kj::Promise<kj::Array<Member>> promoteMember(MemberId id) = 0;

  // About the server that is asked.
  virtual kj::Promise<Status> status() = 0;
  // Only the leader does it.
  virtual kj::Promise<void> moveLeader(MemberId to) = 0;
  virtual kj::Promise<kj::Array<Alarm>> alarms() = 0;
  // Of type kNone: all of them. Returns those that were removed.
  virtual kj::Promise<kj::Array<Alarm>> disarm(Alarm alarm) = 0;
  // The server answers nothing else meanwhile: seconds for each gigabyte.
  virtual kj::Promise<void> defragment() = 0;
  virtual kj::Promise<StoreHash> hashKv(Revision revision = 0) = 0;
  // The database file and 32 bytes, its SHA-256. Returns how many bytes that were.
  virtual kj::Promise<uint64_t> snapshot(SnapshotSink sink) = 0;
};

}  // namespace talos::etcd
