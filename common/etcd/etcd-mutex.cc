#include "common/etcd/etcd-mutex.h"

#include <kj/debug.h>

namespace talos::etcd {
namespace {

// After a failure that may pass: etcd needs seconds for a new leader.
constexpr auto kRetry = 500 * kj::MILLISECONDS;

bool mayPass(const kj::Exception& e) {
  switch (kindOf(e)) {
    case ErrorKind::kUnavailable:
    case ErrorKind::kDeadlineExceeded:
    case ErrorKind::kResourceExhausted:
    case ErrorKind::kConflict:
    case ErrorKind::kNotFound:  // of a lease that has ended: the next try has another
      return true;
    default:
      return false;
  }
}

// Returns how long before the lease's end its holder must stop.
kj::Duration marginOf(kj::Duration ttl) {
  return kj::min(2 * kj::SECONDS, ttl / 4);
}

// The progress of one try, for the message at its deadline.
struct Progress {
  kj::Maybe<kj::String> holder, problem;
};

}  // namespace

struct Mutex::Impl final : private kj::TaskSet::ErrorHandler {
  class Session;

  Etcd& etcd;
  kj::Timer& timer;
  Options options;
  kj::TaskSet tasks{*this};

  Impl(Etcd& etcd, kj::Timer& timer, Options options)
      : etcd(etcd), timer(timer), options(kj::mv(options)) {}

  void taskFailed(kj::Exception&&) override {}  // the lease expires

  kj::Promise<kj::Own<Lock>> lock(Progress& progress, Waiting& waiting);
  kj::Promise<kj::Own<Session>> begin();
  kj::Promise<void> enter(Session& session, Progress& progress, Waiting& waiting);
  kj::Promise<bool> pass(Session& session, Progress& progress, Waiting& waiting);
  kj::Promise<void> announce(Session& session);
  kj::Promise<void> end(Lease lease);
  void reportHolder(const KeyValue& first, Progress& progress, Waiting& waiting);

  // Returns nullptr on success; rejects with an error that retries cannot resolve.
  static kj::Promise<kj::Maybe<kj::Exception>> failureOf(kj::Promise<void> promise) {
    return promise.then([]() -> kj::Maybe<kj::Exception> { return nullptr; },
                        [](kj::Exception&& e) -> kj::Maybe<kj::Exception> {
                          if (!mayPass(e)) kj::throwFatalException(kj::mv(e));
                          return kj::mv(e);
                        });
  }
};

// A lease that is renewed, and the key that stands in the queue with it.
class Mutex::Impl::Session final : public Lock {
 public:
  Session(Impl& impl, Lease lease)
      : impl(impl),
        lease(lease),
        key(kj::str(impl.options.prefix, "/", kj::hex(static_cast<uint64_t>(lease.id)))),
        ending(renew().exclusiveJoin(expire()).fork()) {
    watched = ending.addBranch().eagerlyEvaluate([](kj::Exception&&) {});
  }
  ~Session() noexcept(false) override {
    if (!released) impl.tasks.add(impl.end(lease));
  }

  kj::Promise<void> lost() override { return ending.addBranch(); }
  kj::Promise<void> release() override {
    released = true;
    return impl.end(lease);
  }

  LeaseId leaseId() const override { return lease.id; }

  Impl& impl;
  Lease lease;
  kj::String key;
  Revision created = 0;  // 0: the key is not known to be there

 private:
  bool released = false;
  kj::ForkedPromise<void> ending;
  kj::Promise<void> watched = nullptr;

  kj::Promise<void> renew() {
    for (;;) {
      co_await impl.timer.atTime(lease.sent + lease.ttl / 3);
      for (;;) {
        if (released) co_await kj::Promise<void>(kj::NEVER_DONE);
        kj::Maybe<kj::Exception> wrong;
        auto beat = co_await impl.etcd.keepAlive(lease.id).catch_([&](kj::Exception&& e) {
          wrong = kj::mv(e);
          return Lease();
        });
        KJ_IF_MAYBE (e, wrong) {
          if (kindOf(*e) == ErrorKind::kNotFound) {
            fail(ErrorKind::kUnavailable,
                 kj::str(impl.options.prefix, " is lost: ", messageOf(*e)));
          }
          co_await impl.timer.afterDelay(kRetry);
        } else {
          lease = beat;
          break;
        }
      }
    }
  }

  kj::Promise<void> expire() {
    for (;;) {
      auto last = lease.until() - marginOf(lease.ttl);
      if (impl.timer.now() >= last) break;
      co_await impl.timer.atTime(last);
    }
    fail(ErrorKind::kUnavailable, kj::str(impl.options.prefix, " is lost: its lease of ", lease.ttl,
                                          " could not be renewed in time at ", impl.etcd.name()));
  }
};

Mutex::Mutex(Etcd& etcd, kj::Timer& timer, Options options)
    : impl(kj::heap<Impl>(etcd, timer, kj::mv(options))) {}
Mutex::~Mutex() noexcept(false) = default;

kj::Promise<kj::Own<Mutex::Lock>> Mutex::lock(kj::Duration deadline, Waiting waiting) {
  auto progress = kj::heap<Progress>();
  auto listener = kj::heap<Waiting>(kj::mv(waiting));
  auto locking = impl->lock(*progress, *listener);
  auto late = impl->timer.afterDelay(deadline).then(
      [this, deadline, &p = *progress]() -> kj::Promise<kj::Own<Lock>> {
        auto& prefix = impl->options.prefix;
        KJ_IF_MAYBE (problem, p.problem) {
          return error(ErrorKind::kDeadlineExceeded,
                       kj::str("cannot take ", prefix, " within ", deadline, ": ", *problem));
        }
        KJ_IF_MAYBE (holder, p.holder) {
          return error(ErrorKind::kDeadlineExceeded,
                       kj::str(prefix, " is held by ", *holder, "; waited ", deadline));
        }
        return error(ErrorKind::kDeadlineExceeded,
                     kj::str("cannot take ", prefix, " within ", deadline));
      });
  return locking.exclusiveJoin(kj::mv(late)).attach(kj::mv(listener), kj::mv(progress));
}

kj::Promise<kj::Own<Mutex::Lock>> Mutex::Impl::lock(Progress& progress, Waiting& waiting) {
  for (;;) {
    kj::Maybe<kj::Own<Session>> begun;
    auto wrong = co_await failureOf(begin().then([&](kj::Own<Session>&& s) { begun = kj::mv(s); }));
    KJ_IF_MAYBE (session, begun) {
      wrong =
          co_await failureOf(enter(**session, progress, waiting).exclusiveJoin((*session)->lost()));
      if (wrong == nullptr) co_return kj::mv(*session);
    }
    begun = nullptr;
    progress.problem = messageOf(KJ_ASSERT_NONNULL(wrong));
    co_await timer.afterDelay(kRetry);
  }
}

kj::Promise<kj::Own<Mutex::Impl::Session>> Mutex::Impl::begin() {
  auto lease = co_await etcd.grant(options.ttl);
  co_return kj::heap<Session>(*this, lease);
}

// Resolves when the session's key is the first. Failures are retried with the same place in the
// queue, as long as the lease lives.
kj::Promise<void> Mutex::Impl::enter(Session& session, Progress& progress, Waiting& waiting) {
  for (;;) {
    bool first = false;
    auto wrong =
        co_await failureOf(pass(session, progress, waiting).then([&](bool held) { first = held; }));
    if (first) co_return;
    KJ_IF_MAYBE (e, wrong) {
      if (kindOf(*e) == ErrorKind::kNotFound) kj::throwFatalException(kj::mv(*e));  // the lease
      progress.problem = messageOf(*e);
      co_await timer.afterDelay(kRetry);
    }
  }
}

// Returns true if the mutex is held now; otherwise the predecessor has gone, or we are not in the
// queue.
kj::Promise<bool> Mutex::Impl::pass(Session& session, Progress& progress, Waiting& waiting) {
  if (session.created == 0) co_await announce(session);
  Range request;
  request.keys = {kj::str(options.prefix, "/"), true};
  request.order = Range::Order::kCreateRevision;
  request.maxCreateRevision = session.created;
  auto queue = co_await etcd.range(kj::mv(request));
  if (queue.kvs.size() == 0 || queue.kvs.back().key != session.key) {
    session.created = 0;  // another client has deleted it
    fail(ErrorKind::kConflict, kj::str("the key ", session.key, " was deleted"));
  }
  progress.problem = nullptr;
  if (queue.kvs.size() == 1) co_return true;
  reportHolder(queue.kvs[0], progress, waiting);
  WatchRequest before;
  before.keys = {kj::str(queue.kvs[queue.kvs.size() - 2].key)};
  before.from = queue.revision + 1;
  before.puts = false;
  auto watch = co_await etcd.watch(kj::mv(before));
  co_await watch->next();
  co_return false;
}

// Creates the session's key. A repetition has no effect: it reads the key whose answer was lost.
kj::Promise<void> Mutex::Impl::announce(Session& session) {
  Txn txn;
  txn.compare = kj::arr(Compare::absent(kj::str(session.key)));
  kj::Vector<Operation> create, read;
  create.add().init<Put>(Put{kj::str(session.key), kj::str(options.holder), session.lease.id});
  read.add().init<Range>().keys.key = kj::str(session.key);
  txn.then = create.releaseAsArray();
  txn.otherwise = read.releaseAsArray();
  auto result = co_await etcd.txn(kj::mv(txn));
  if (result.succeeded) {
    session.created = result.revision;
    co_return;
  }
  KJ_REQUIRE(result.results.size() == 1 && result.results[0].is<RangeResult>());
  auto& kvs = result.results[0].get<RangeResult>().kvs;
  KJ_REQUIRE(kvs.size() == 1, "a key that is there and is not", session.key);
  session.created = kvs[0].createRevision;
}

void Mutex::Impl::reportHolder(const KeyValue& first, Progress& progress, Waiting& waiting) {
  auto holder = first.value.size() > 0
                    ? kj::str(first.value)
                    : kj::str("lease ", kj::hex(static_cast<uint64_t>(first.lease)));
  KJ_IF_MAYBE (known, progress.holder) {
    if (*known == holder) return;
  }
  waiting(holder);
  progress.holder = kj::mv(holder);
}

// Waits for the end of the lease, with which the key is deleted. A renewal under way may extend the
// lease once more, and etcd looks for expired leases every half second.
kj::Promise<void> Mutex::Impl::end(Lease lease) {
  auto until = timer.now() + lease.ttl + 2 * kj::SECONDS;
  for (;;) {
    kj::Maybe<kj::Exception> wrong;
    co_await etcd.revoke(lease.id).catch_([&](kj::Exception&& e) { wrong = kj::mv(e); });
    KJ_IF_MAYBE (e, wrong) {
      if (kindOf(*e) == ErrorKind::kNotFound || timer.now() >= until) co_return;
      co_await timer.afterDelay(kRetry);
    } else {
      co_return;
    }
  }
}

}  // namespace talos::etcd
