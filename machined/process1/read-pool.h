// A thread pool for reads that clients of the API ask for: files, mounts, /proc.
//
// The boot and the config use libuv's pool (uv-loop.h), which is one for the process: a client
// whose read hangs on a dead mount must not take a thread of that one away. Here a thread that
// hangs is counted, reported, and replaced by another, up to a bound; when it comes back it is one
// of the pool again. Beyond the bound the pool refuses at once, and everything else of the node
// goes on. A client has only so many threads, so one whose reads hang or take long leaves the
// others theirs; beside one that hangs it has another, for it may be the one that looks for the
// cause.
//
// Work owns what it uses. It is made and destroyed on the loop's thread, one call at a time runs on
// one of the pool's. Dropping the promise abandons the result; work that has begun runs to its end.
// At the end of the pool work that hangs is left behind with its thread. Not thread-safe.
#pragma once

#include <kj/async-unix.h>
#include <kj/function.h>
#include <kj/refcount.h>
#include <kj/string.h>
#include <kj/timer.h>

namespace talos {

class ReadPool {
 public:
  struct Options {
    unsigned threads = 2;                        // as many as the processors of a small node
    unsigned mostThreads = 8;                    // with those that hang; each is a stack
    unsigned perClient = 1;                      // threads, without those that hang
    unsigned hangingPerClient = 2;               // with so many it is refused
    size_t mostQueued = 256;                     // calls of all clients that wait for their turn
    kj::Duration hangsAfter = 30 * kj::SECONDS;  // a disk that retries takes some of them
  };
  // `report` gets a line when a thread hangs and when it goes on.
  ReadPool(kj::UnixEventPort& port, kj::Timer& timer, Options options,
           kj::Function<void(kj::StringPtr)> report);
  ~ReadPool() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(ReadPool);

  // `doing`: for messages ("reading the mounts"). `client`: whose it is (ClientCalls::number); 0:
  // nobody's. Unavailable when all threads hang or too many of this client, ResourceExhausted when
  // too many wait.
  template <typename F>
  auto run(kj::StringPtr doing, F&& work, uint64_t client = 0) -> kj::Promise<decltype(work())>;

  // As one client has it.
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
