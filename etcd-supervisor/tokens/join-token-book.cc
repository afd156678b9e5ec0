#include "etcd-supervisor/tokens/join-token-book.h"

#include <algorithm>
#include <vector>

#include "common/base/error.h"
#include "common/base/join-token.h"
#include "common/base/log.h"
#include "common/net/text-values.h"
#include "common/text/size.h"
#include "common/tls/pki.h"

namespace talos::supervisor {
namespace {

// etcd takes at most 128 operations in a transaction.
constexpr size_t kReadAtOnce = 64;
// Attempts when another client changes the record between reading and writing it.
constexpr unsigned kAttempts = 5;

kj::String keyOf(kj::StringPtr id) {
  return kj::str(kTokensPrefix, id);
}

kj::String cut(kj::StringPtr text, size_t most) {
  return kj::heapString(text.slice(0, kj::min(text.size(), most)));
}

[[noreturn]] void failConflict(kj::StringPtr id) {
  fail(ErrorKind::kUnavailable,
       kj::str("the join token ", id, " was changed ", kAttempts, " times meanwhile; retry"));
}

void requireValid(kj::StringPtr hostname, uint64_t ttl) {
  if (ttl < kShortestToken || ttl > kLongestToken) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("a join token for ", timeSpan(ttl), "; it must be ", timeSpan(kShortestToken),
                 " to ", timeSpan(kLongestToken)));
  }
  if (hostname.size() == 0) return;
  KJ_IF_MAYBE (problem, config::hostNameProblem(hostname)) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", hostname, "\" is not a valid host name: ", *problem));
  }
}

kj::String lowerCase(kj::StringPtr text) {
  auto result = kj::str(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

}  // namespace

kj::Promise<JoinTokenBook::Made> JoinTokenBook::create(kj::StringPtr host, uint64_t ttl,
                                                       kj::StringPtr by) {
  requireValid(host, ttl);
  auto hostname = lowerCase(host), createdBy = cut(by, kMostUsedBy);
  auto count = co_await makeRoom();
  if (count >= deps.most) {
    fail(ErrorKind::kResourceExhausted, kj::str("there are ", count, " join tokens, at most ",
                                                deps.most, "; revoke those that are not needed"));
  }
  // An id may be there already, once in two billion tries.
  for (unsigned i = 0; i < kAttempts; ++i) {
    auto token = kj::str(kJoinTokenPrefix, kj::StringPtr(pki::makeToken()));
    auto id = KJ_ASSERT_NONNULL(joinTokenId(token));
    TokenRecord record;
    auto out = record.change();
    out.setDigest(joinTokenDigest(token));
    out.setHostname(hostname);
    out.setCreated(now());
    out.setEnds(now() + static_cast<int64_t>(ttl));
    out.setCreatedBy(createdBy);
    etcd::Txn txn;
    txn.compare = kj::arr(etcd::Compare::absent(keyOf(id)));
    txn.then = kj::arr(etcd::Operation(etcd::Put{keyOf(id), record.bytes()}));
    auto answer = co_await deps.member().txn(kj::mv(txn));
    if (answer.succeeded) co_return Made{kj::mv(token), kj::mv(id), record.get().getEnds()};
  }
  failConflict("");
}

kj::Promise<kj::Vector<JoinTokenBook::Listed>> JoinTokenBook::list() {
  auto answer = co_await deps.member().range({.keys = {kj::str(kTokensPrefix), true}});
  kj::Vector<Listed> all;
  for (auto& kv : answer.kvs) {
    auto id = kj::str(kv.key.slice(kTokensPrefix.size()));
    auto failure = kj::runCatchingExceptions([&] {
      auto record = TokenRecord::parse(kv.value);
      if (!isForgotten(record.get(), now())) all.add(Listed{kj::str(id), kj::mv(record)});
    });
    KJ_IF_MAYBE (e, failure) {
      log::warn("cannot read a join token; it is left out", {{"id", id}, {"error", messageOf(*e)}});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](auto& a, auto& b) {
    return a.record.get().getCreated() < b.record.get().getCreated();
  });
  co_return kj::mv(all);
}

kj::Promise<bool> JoinTokenBook::remove(kj::StringPtr key, etcd::Revision revision) {
  etcd::Txn txn;
  txn.compare = kj::arr(etcd::Compare::modified(kj::str(key), revision));
  txn.then = kj::arr(etcd::Operation(etcd::Delete{{kj::str(key), false}}));
  co_return (co_await deps.member().txn(kj::mv(txn))).succeeded;
}

// Removes the records that are not needed any more and, while there are too many, the oldest of the
// unusable ones. Returns the number of all that are left. A record that cannot be read stays.
kj::Promise<size_t> JoinTokenBook::makeRoom() {
  struct Ended {
    int64_t at;
    const etcd::KeyValue* record;
    bool forgotten;
  };
  auto answer = co_await deps.member().range({.keys = {kj::str(kTokensPrefix), true}});
  std::vector<Ended> ended;
  for (auto& kv : answer.kvs) {
    kj::runCatchingExceptions([&] {
      auto record = TokenRecord::parse(kv.value);
      KJ_IF_MAYBE (at, endedAt(record.get(), now())) {
        ended.push_back({*at, &kv, isForgotten(record.get(), now())});
      }
    });
  }
  std::stable_sort(ended.begin(), ended.end(), [](auto& a, auto& b) { return a.at < b.at; });
  size_t left = answer.kvs.size();
  for (auto& old : ended) {
    if (!old.forgotten && left < deps.most) break;
    if (co_await remove(old.record->key, old.record->modRevision)) --left;
  }
  co_return left;
}

// Reads a record; one that cannot be read counts as an unknown token.
kj::Promise<kj::Maybe<JoinTokenBook::Stored>> JoinTokenBook::read(kj::StringPtr id) {
  auto answer = co_await deps.member().range({.keys = {keyOf(id), false}});
  kj::Maybe<Stored> found;
  for (auto& kv : answer.kvs) {
    kj::runCatchingExceptions(
        [&] { found = Stored{TokenRecord::parse(kv.value), kv.modRevision}; });
  }
  co_return kj::mv(found);
}

kj::Promise<bool> JoinTokenBook::replace(kj::StringPtr id, etcd::Revision revision,
                                         const TokenRecord& record) {
  etcd::Txn txn;
  txn.compare = kj::arr(etcd::Compare::modified(keyOf(id), revision));
  txn.then = kj::arr(etcd::Operation(etcd::Put{keyOf(id), record.bytes()}));
  co_return (co_await deps.member().txn(kj::mv(txn))).succeeded;
}

kj::Promise<void> JoinTokenBook::revoke(kj::StringPtr given) {
  auto id = kj::str(given);
  auto unknown = [&] {
    fail(ErrorKind::kNotFound, kj::str("there is no join token with the id \"", id,
                                       "\"; talosctl token list shows them"));
  };
  if (!isJoinTokenId(id)) unknown();
  for (unsigned i = 0; i < kAttempts; ++i) {
    auto found = co_await read(id);
    if (found == nullptr) unknown();
    auto& stored = KJ_ASSERT_NONNULL(found);
    if (stored.record.get().getRevokedAt() != 0) co_return;
    stored.record.change().setRevokedAt(now());
    if (co_await replace(id, stored.revision, stored.record)) co_return;
  }
  failConflict(id);
}

kj::Promise<void> JoinTokenBook::revokeForRecovery(etcd::Etcd& member) {
  auto answer = co_await member.range({.keys = {kj::str(kTokensPrefix), true}});
  kj::Vector<etcd::Operation> writes;
  for (auto& kv : answer.kvs) {
    // A record that cannot be read counts as an unknown token.
    kj::runCatchingExceptions([&] {
      auto record = TokenRecord::parse(kv.value);
      if (record.get().getRevokedAt() != 0) return;
      record.change().setRevokedAt(kj::max(now(), 1));
      record.change().setRecovered(true);
      writes.add(etcd::Put{kj::str(kv.key), record.bytes()});
    });
  }
  auto count = writes.size();
  kj::Maybe<kj::Exception> failure;
  for (size_t from = 0; from < count && failure == nullptr; from += kReadAtOnce) {
    etcd::Txn txn;
    auto some = kj::heapArrayBuilder<etcd::Operation>(kj::min(kReadAtOnce, count - from));
    while (!some.isFull()) some.add(kj::mv(writes[from + some.size()]));
    txn.then = some.finish();
    co_await member.txn(kj::mv(txn))
        .then([](etcd::TxnResult&&) {}, [&](kj::Exception&& e) { failure = kj::mv(e); });
  }
  KJ_IF_MAYBE (e, failure) {
    if (kindOf(*e) != ErrorKind::kResourceExhausted) kj::throwFatalException(kj::mv(*e));
    // A database that is full still takes deletions: then the list does not have them any more.
    co_await member.remove({{kj::str(kTokensPrefix), true}});
  }
  log::info("join tokens of the snapshot are revoked", {{"count", count}});
}

kj::Promise<void> JoinTokenBook::spend(kj::StringPtr givenId,
                                       kj::ArrayPtr<const kj::byte> givenDigest,
                                       kj::StringPtr givenFingerprint, kj::StringPtr by,
                                       FillFound fill) {
  auto id = kj::str(givenId), fingerprint = cut(givenFingerprint, kMostUsedBy);
  auto usedBy = cut(by, kMostUsedBy);
  auto digest = kj::heapArray(givenDigest);
  if (!isJoinTokenId(id)) co_return fill(nullptr, now());
  for (unsigned i = 0; i < kAttempts; ++i) {
    auto found = co_await read(id);
    if (found == nullptr) co_return fill(nullptr, now());
    auto& stored = KJ_ASSERT_NONNULL(found);
    auto at = now();
    capnp::MallocMessageBuilder message;
    auto observed = message.initRoot<rpc::JoinTokens::Found>();
    fillFound(observed, stored.record, digest, at);
    if (observed.getState() != rpc::JoinTokens::Found::State::UNUSED) {
      co_return fill(stored.record, at);
    }
    auto record = stored.record.change();
    record.setUsedAt(at);
    record.setUsedBy(usedBy);
    record.setFingerprint(fingerprint);
    if (co_await replace(id, stored.revision, stored.record)) co_return fill(stored.record, at);
  }
  failConflict(id);
}

// --- shared reads ---

kj::Promise<void> JoinTokenBook::find(kj::StringPtr given, FillFound fill) {
  auto id = kj::str(given);
  if (!isJoinTokenId(id)) co_return fill(nullptr, now());
  if (next == nullptr) {
    auto fresh = kj::refcounted<Batch>();
    auto paf = kj::newPromiseAndFulfiller<void>();
    fresh->done = paf.promise.fork();
    fresh->fulfiller = kj::mv(paf.fulfiller);
    next = kj::mv(fresh);
  }
  auto batch = kj::addRef(*KJ_ASSERT_NONNULL(next));
  batch->records[kj::str(id)] = nullptr;
  if (!reading) {
    reading = true;
    tasks.add(readBatches());
  }
  co_await batch->done.addBranch();
  fill(batch->records.at(id).map([](TokenRecord& r) -> const TokenRecord& { return r; }), now());
}

kj::Promise<void> JoinTokenBook::readBatches() {
  while (next != nullptr) {
    co_await deps.timer.atTime(notBefore);
    notBefore = deps.timer.now() + kReadPause;
    auto batch = kj::mv(KJ_ASSERT_NONNULL(next));
    next = nullptr;
    kj::Maybe<kj::Exception> failure;
    co_await kj::evalNow([&] { return readAll(*batch); }).catch_([&](kj::Exception&& e) {
      failure = kj::mv(e);
    });
    KJ_IF_MAYBE (e, failure) {
      batch->fulfiller->reject(kj::mv(*e));
    } else {
      batch->fulfiller->fulfill();
    }
  }
  reading = false;
}

kj::Promise<void> JoinTokenBook::readAll(Batch& batch) {
  auto& member = deps.member();
  for (auto at = batch.records.begin(); at != batch.records.end();) {
    kj::Vector<etcd::Operation> reads;
    for (; at != batch.records.end() && reads.size() < kReadAtOnce; ++at) {
      reads.add(etcd::Range{.keys = {keyOf(at->first), false}});
    }
    etcd::Txn txn;
    txn.then = reads.releaseAsArray();
    auto answer = co_await member.txn(kj::mv(txn));
    for (auto& result : answer.results) {
      for (auto& kv : result.get<etcd::RangeResult>().kvs) {
        auto id = kj::str(kv.key.slice(kTokensPrefix.size()));
        kj::runCatchingExceptions(
            [&] { batch.records[kj::str(id)] = TokenRecord::parse(kv.value); });
      }
    }
  }
}

void JoinTokenBook::taskFailed(kj::Exception&& e) {
  log::error("cannot read join tokens", {{"error", messageOf(e)}});
}

}  // namespace talos::supervisor
