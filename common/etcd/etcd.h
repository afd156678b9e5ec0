// Interface of etcd: the calls of version 3 that this project needs, as promises and plain structs.
// `EtcdClient` (etcd-client.h) implements it for a real etcd, `ModelEtcd` (test-etcd.h) for tests.
//
// No call is retried: only the caller knows which calls may take effect twice. Every call has a
// deadline, which the server knows. A dropped promise ends the call, but the call may have taken
// effect; so may a call that fails with DeadlineExceeded or Unavailable. The caller must then read
// before it writes again, or write so that a second write has no effect (`Txn` with a comparison).
//
// Errors carry the server's name and etcd's own words ("etcd at 10.5.0.2:2379: etcdserver: no
// leader"). Kinds that a caller can act on:
//   kUnavailable         not reached, no leader, the leader changed, a member that was not seen for
//                        5 s yet, a call to a learner (it answers only status(), snapshot() and
//                        serializable reads): retry
//   kDeadlineExceeded    no answer in time: retry
//   kNotFound            no such lease or member
//   kFailedPrecondition  a change of members that etcd refuses now (a learner that is not in sync,
//                        one learner too many, members that have not started, a peer URL that
//                        another member has), not the leader
//   kResourceExhausted   the database is full (an alarm), or too many requests
//   kInvalidArgument     the request itself is wrong; a revision in the future
//   kConflict            the requested revision has been compacted: read again
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

using LeaseId = int64_t;  // 0 if none
using MemberId = uint64_t;
using Revision = int64_t;  // of the whole store; each change increases it

struct KeyValue {
  kj::String key, value;
  Revision createRevision = 0, modRevision = 0;
  int64_t version = 0;  // 1 when created
  LeaseId lease = 0;
};

// --- keys ---

struct Keys {
  kj::String key;
  bool prefix = false;  // all keys that begin with `key`; if it is empty, all keys
};

struct Range {
  enum class Order { kKey, kCreateRevision, kModRevision };

  Keys keys;
  Order order = Order::kKey;
  bool descending = false;
  int64_t limit = 0;          // 0 if none
  bool serializable = false;  // from this member's copy, which may be old; works without a leader
  bool keysOnly = false, countOnly = false;
  Revision revision = 0;           // 0 for now
  Revision maxCreateRevision = 0;  // only keys created at this revision or before; 0 for any
};

struct RangeResult {
  Revision revision = 0;  // revision of the store when it was read
  kj::Array<KeyValue> kvs;
  int64_t count = 0;  // number of all matching keys, whatever the limit was
  bool more = false;  // there are more keys than the limit
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

// `then` is done if all comparisons hold, `otherwise` if one does not; one revision for the whole
// transaction.
struct Txn {
  kj::Array<Compare> compare;
  kj::Array<Operation> then, otherwise;
};

struct TxnResult {
  Revision revision = 0;
  bool succeeded = false;              // the comparisons held
  kj::Array<OperationResult> results;  // results of the branch that was done, in its order
};

// --- watches ---

struct WatchRequest {
  Keys keys;
  Revision from = 0;  // first revision to report; 0 for changes from now on
  bool puts = true, deletes = true;
};

struct Event {
  bool deleted = false;
  KeyValue kv;  // for a deletion key and modRevision only
};

struct Events {
  Revision revision = 0;  // revision of the store when the events were sent
  kj::Array<Event> events;
};

// A watch. Dropping it ends it.
class Watch {
 public:
  virtual ~Watch() noexcept(false) = default;

  // Returns the next changes, oldest first, without duplicates or gaps; waits until there is at
  // least one. The changes of one revision may come in several batches. Rejects when the watch has
  // ended: kUnavailable if the connection or the leader was lost, kConflict if the next changes to
  // report were compacted. The owner must then read and watch again. One call at a time.
  virtual kj::Promise<Events> next() = 0;
};

// --- leases ---

struct Lease {
  LeaseId id = 0;
  kj::Duration ttl = 0 * kj::SECONDS;  // granted time to live; may be more than requested
  // Time before the request was sent. The lease lives at least until sent + ttl, however long the
  // answer took: a holder that stops by then has stopped in time.
  kj::TimePoint sent = kj::origin<kj::TimePoint>();

  kj::TimePoint until() const { return sent + ttl; }
};

// --- members ---

struct Member {
  MemberId id = 0;
  kj::String name;  // empty if it has not started yet
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
  MemberId leader = 0;  // 0 if none
  uint64_t raftIndex = 0, raftTerm = 0, raftAppliedIndex = 0;
  int64_t revision = 0;  // newest revision of the server's data
  bool learner = false;
  kj::Array<kj::String> errors;  // alarms and other errors, in etcd's words
};

struct Alarm {
  enum class Type { kNone, kNoSpace, kCorrupt };

  MemberId member = 0;
  Type type = Type::kNone;
};

// Takes a piece of a snapshot and the number of bytes of the database that come after it (without
// the 32 bytes of its SHA-256, which are the last piece); the next piece comes when the promise is
// resolved.
using SnapshotSink =
    kj::Function<kj::Promise<void>(kj::ArrayPtr<const kj::byte> piece, uint64_t remaining)>;

// Times to wait for an answer, including the time to connect. etcd answers a write that is in
// flight when the leader dies only after 6 to 7 seconds: a caller should retry after a second
// instead, possibly at another server.
struct Deadlines {
  kj::Duration call = 1 * kj::SECONDS;    // keys, leases, the start of a watch, status
  kj::Duration change = 5 * kj::SECONDS;  // changes of members and of the leader
  kj::Duration heavy = 60 * kj::SECONDS;  // defragment: depends on the size of the database
  kj::Duration piece = 10 * kj::SECONDS;  // from one piece of a snapshot to the next
  kj::Duration silence = 15 * kj::SECONDS;
};

class Etcd {
 public:
  virtual ~Etcd() noexcept(false) = default;

  // Returns the server's name in errors: "etcd at 10.5.0.2:2379".
  virtual kj::StringPtr name() const = 0;

  virtual kj::Promise<RangeResult> range(Range request) = 0;
  virtual kj::Promise<PutResult> put(Put request) = 0;
  virtual kj::Promise<DeleteResult> remove(Delete request) = 0;
  virtual kj::Promise<TxnResult> txn(Txn request) = 0;

  // Resolves when the server watches: no change after that is missed. The watch ends when the
  // server has no leader any more. Fails with DeadlineExceeded if the watch has not begun within
  // the usual time.
  virtual kj::Promise<kj::Own<Watch>> watch(WatchRequest request) = 0;

  virtual kj::Promise<Lease> grant(kj::Duration ttl) = 0;
  // Renews the lease once. NotFound if the lease has expired or was revoked: its keys are gone.
  virtual kj::Promise<Lease> keepAlive(LeaseId id) = 0;
  // Ends the lease and deletes its keys.
  virtual kj::Promise<void> revoke(LeaseId id) = 0;

  // Lists the members as the leader knows them (`linearizable`) or as this member knows them.
  virtual kj::Promise<MemberList> members(bool linearizable = true) = 0;
  virtual kj::Promise<MemberAdded> addMember(kj::Array<kj::String> peerUrls, bool learner) = 0;
  virtual kj::Promise<kj::Array<Member>> removeMember(MemberId id) = 0;
  // Replaces the peer URLs of a voting member. Not for a learner, which etcd would store as a
  // voter.
  virtual kj::Promise<kj::Array<Member>> updateMember(MemberId id,
                                                      kj::Array<kj::String> peerUrls) = 0;
  // Makes a learner a voting member.
  virtual kj::Promise<kj::Array<Member>> promoteMember(MemberId id) = 0;

  // Returns the status of the server that this client calls.
  virtual kj::Promise<Status> status() = 0;
  // Moves the leadership; only the leader accepts this call.
  virtual kj::Promise<void> moveLeader(MemberId to) = 0;
  virtual kj::Promise<kj::Array<Alarm>> alarms() = 0;
  // Removes an alarm; for the type kNone, all alarms. Returns the removed alarms.
  virtual kj::Promise<kj::Array<Alarm>> disarm(Alarm alarm) = 0;
  // Defragments the database. Meanwhile the server answers no other call: seconds for each
  // gigabyte.
  virtual kj::Promise<void> defragment() = 0;
  // Sends the database file and its SHA-256 (32 bytes) to `sink`. Returns the number of bytes sent.
  virtual kj::Promise<uint64_t> snapshot(SnapshotSink sink) = 0;
};

}  // namespace talos::etcd
