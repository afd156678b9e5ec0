// A thread pool for reads that clients of the API request: files, mounts, /proc.
//
// The boot and the config use libuv's pool (uv-loop.h), which is one for the process: a client
// whose read hangs on a dead mount must not take one of its threads. In this pool a hanging thread
// is counted, reported, and replaced by another, up to a limit; when its read ends it belongs to
// the pool again. Beyond the limit the pool refuses reads immediately, and the rest of the node
// continues. Each client may use only a few threads, so a client whose reads hang or are slow
// leaves threads to others; beside one that hangs it has another, which may be needed to look for
// the cause.
//
// Work owns what it uses. It is made and destroyed on the loop's thread, and runs, one call at a
// time, on a thread of the pool. Dropping the promise abandons the result; work that has begun runs
// to its end. At the end of the pool, hanging work is left behind with its thread. Not thread-safe.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/refcount.h>
#include <kj/string.h>
#include <kj/timer.h>

namespace talos {

class ReadPool {
 public:
  struct Options {
    unsigned threads = 2;                        // as many as the processors of a small node
    unsigned mostThreads = 8;                    // including those that hang; each is a stack
    unsigned perClient = 1;                      // threads, without those that hang
    unsigned hangingPerClient = 2;               // with so many, further reads are refused
    size_t mostQueued = 256;                     // calls of all clients that wait for their turn
    kj::Duration hangsAfter = 30 * kj::SECONDS;  // a disk that retries takes some of them
  };
  // `report` gets a line when a read hangs and when it ends.
  ReadPool(kj::Timer& timer, Options options, kj::Function<void(kj::StringPtr)> report);
  ~ReadPool() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(ReadPool);

  // Runs `work` on a thread. `doing`: for messages ("reading the mounts"). `client`: number of the
  // client (ClientCalls::number); 0: no client. Unavailable if all threads hang or too many of this
  // client, ResourceExhausted if too many wait.
  template <typename F>
  auto run(kj::StringPtr doing, F&& work, uint64_t client = 0) -> kj::Promise<decltype(work())>;

  // The pool for one client.
  struct Client {
    ReadPool& pool;
    uint64_t number;
    template <typename F>
    auto run(kj::StringPtr doing, F&& work) const {
      return pool.run(doing, kj::fwd<F>(work), number);
    }
  };
  Client of(uint64_t client) { return {*this, client}; }

  unsigned hanging() const;

 private:
  struct Impl;
  kj::Own<Impl> impl;
  kj::Promise<void> runErased(kj::StringPtr doing, kj::Function<void()> work, uint64_t client);
};

// --- inline

template <typename F>
auto ReadPool::run(kj::StringPtr doing, F&& work, uint64_t client)
    -> kj::Promise<decltype(work())> {
  using T = decltype(work());
  if constexpr (kj::isSameType<T, void>()) {
    return runErased(doing, kj::fwd<F>(work), client);
  } else {
    // Counted on the loop's thread only, as the work is.
    struct Slot : kj::Refcounted {
      kj::Maybe<T> value;
    };
    auto slot = kj::refcounted<Slot>();
    auto job = [work = kj::fwd<F>(work), slot = kj::addRef(*slot)]() mutable {
      slot->value = work();
    };
    return runErased(doing, kj::mv(job), client).then([slot = kj::mv(slot)]() mutable -> T {
      return kj::mv(KJ_ASSERT_NONNULL(slot->value));
    });
  }
}

}  // namespace talos
