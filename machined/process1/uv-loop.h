// libuv inside the KJ loop: its thread pool with promises.
//
// All promises and coroutines run on KJ's loop. UvLoop watches uv_backend_fd() and a KJ timer of
// uv_backend_timeout() and calls uv_run(UV_RUN_NOWAIT). Traps that this file hides: the promise is
// armed before uv_run (KJ's observer is edge-triggered); libuv is run again after any handle is
// started; timeout 0 of a loop without active handles must count as no timeout; the observer dies
// before the loop.
//
// Reads for clients stay apart in a separate pool (read-pool.h), because one that hangs would take
// a thread from the boot. Programs without libuv use worker-threads.h.
//
// Idle cost is zero: no wake-up unless libuv has something to do. One UvLoop per KJ loop; not
// thread-safe. It starts no children: process 1 does this.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/debug.h>
#include <kj/function.h>

namespace talos {

class UvLoop {
 public:
  UvLoop(kj::UnixEventPort& port, kj::Timer& timer);
  ~UvLoop() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(UvLoop);

  // Runs `work` on libuv's thread pool; the result (or the exception it threw) comes back on the
  // loop. Dropping the promise abandons the result; the work itself runs to its end. `work` owns
  // what it uses.
  template <typename F>
  auto blocking(F&& work) -> kj::Promise<decltype(work())>;

  // Returns how often libuv was run: the count of an idle loop stays the same.
  uint64_t turns() const;

 private:
  struct Impl;
  kj::Own<Impl> impl;
  kj::Promise<void> blockingErased(kj::Function<void()> work);
};

// --- inline
// ----------------------------------------------------------------------------------------
template <typename F>
auto UvLoop::blocking(F&& work) -> kj::Promise<decltype(work())> {
  using T = decltype(work());
  if constexpr (kj::isSameType<T, void>()) {
    return blockingErased(kj::fwd<F>(work));
  } else {
    // Both references are counted on the loop's thread only: the pool's thread uses the slot but
    // neither makes nor drops a reference (blockingErased destroys `work` on the loop).
    struct Slot : kj::Refcounted {
      kj::Maybe<T> value;
    };
    auto slot = kj::refcounted<Slot>();
    auto job = [work = kj::fwd<F>(work), slot = kj::addRef(*slot)]() mutable {
      slot->value = work();
    };
    return blockingErased(kj::mv(job)).then([slot = kj::mv(slot)]() mutable -> T {
      return kj::mv(KJ_ASSERT_NONNULL(slot->value));
    });
  }
}

}  // namespace talos
