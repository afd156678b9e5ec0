// Join tokens of the cluster, in its etcd: makes, lists and revokes them, and spends each for one
// key.
//
// Owns the keys under kTokensPrefix, and nothing in memory: every node of the control plane sees
// the same tokens at once. A change is one transaction that compares the record that was read. So
// if a token is spent for two keys at the same time, one of them gets it, and a token that is
// revoked meanwhile admits no worker. After a crash, or a lost answer, the caller repeats the call
// and gets the result: spending for the same key and revoking take effect once. Times are this
// node's clock.
//
// Reads for callers that may have no token are shared: all calls that arrive while one read of etcd
// is under way wait for the next, which begins at the earliest kReadPause later.
#pragma once

#include <kj/timer.h>
#include <kj/vector.h>

#include <map>

#include "common/etcd/etcd.h"
#include "etcd-supervisor/tokens/token-record.h"

namespace talos::supervisor {

constexpr int64_t kShortestToken = 60, kLongestToken = 30 * 24 * 3600;  // s
constexpr size_t kMostTokens = 5000;
constexpr auto kReadPause = 50 * kj::MILLISECONDS;

class JoinTokenBook final : private kj::TaskSet::ErrorHandler {
 public:
  struct Dependencies {
    kj::Timer& timer;
    const kj::Clock& clock;
    // Returns the local member; throws FailedPrecondition if it does not run.
    kj::Function<etcd::Etcd&()> member;
    size_t most = kMostTokens;
  };
  explicit JoinTokenBook(Dependencies deps) : deps(kj::mv(deps)), tasks(*this) {}
  KJ_DISALLOW_COPY_AND_MOVE(JoinTokenBook);

  struct Made {
    kj::String token, id;
    int64_t ends;  // s since 1970
  };
  // Errors of all calls: rpc/etcd.capnp, rpc/join-tokens.capnp.
  kj::Promise<Made> create(kj::StringPtr hostname, uint64_t ttl, kj::StringPtr createdBy);
  struct Listed {
    kj::String id;
    TokenRecord record;
  };
  kj::Promise<kj::Vector<Listed>> list();  // the oldest first
  kj::Promise<void> revoke(kj::StringPtr id);
  // Revokes all tokens that a snapshot has brought back, through this member, which is the only
  // one: the snapshot may predate their being spent or revoked. Errors are the member's; the next
  // call continues.
  kj::Promise<void> revokeForRecovery(etcd::Etcd& member);

  using FillFound = kj::Function<void(kj::Maybe<const TokenRecord&> record, int64_t now)>;
  // `fill` gets the record that exists in the end.
  kj::Promise<void> find(kj::StringPtr id, FillFound fill);
  kj::Promise<void> spend(kj::StringPtr id, kj::ArrayPtr<const kj::byte> digest,
                          kj::StringPtr fingerprint, kj::StringPtr usedBy, FillFound fill);

  int64_t now() const { return (deps.clock.now() - kj::UNIX_EPOCH) / kj::SECONDS; }

 private:
  Dependencies deps;
  // Ids of one read, and its results.
  struct Batch : kj::Refcounted {
    std::map<kj::String, kj::Maybe<TokenRecord>> records;
    kj::ForkedPromise<void> done = nullptr;
    kj::Own<kj::PromiseFulfiller<void>> fulfiller;
  };
  kj::Maybe<kj::Own<Batch>> next;
  bool reading = false;
  kj::TimePoint notBefore = kj::origin<kj::TimePoint>();
  kj::TaskSet tasks;

  struct Stored {
    TokenRecord record;
    etcd::Revision revision;
  };
  kj::Promise<kj::Maybe<Stored>> read(kj::StringPtr id);
  kj::Promise<bool> replace(kj::StringPtr id, etcd::Revision revision, const TokenRecord& record);
  kj::Promise<bool> remove(kj::StringPtr key, etcd::Revision revision);
  kj::Promise<size_t> makeRoom();
  kj::Promise<void> readAll(Batch& batch);
  kj::Promise<void> readBatches();
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::supervisor
