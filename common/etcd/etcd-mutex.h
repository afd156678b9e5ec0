// A mutex of the whole cluster, kept in etcd as its own concurrency package keeps them, so programs
// that use that one take turns with those that use this.
//
// Each process that wants it creates a key "<prefix>/<lease id in hex>" with a lease; the oldest
// key holds it, the others wait in order. The lease is renewed while the mutex is held or waited
// for. Whoever crashes or is cut off loses it when the lease ends, and knows it before: lost() is
// reported by the monotonic clock at the latest a moment before that, whether or not etcd answers.
// Nothing has to be cleaned up after a crash.
//
// A promise or a lock that is dropped gives up its place in the background, as far as etcd can be
// reached; otherwise its lease ends by itself.
#pragma once

#include <kj/timer.h>

#include "common/etcd/etcd.h"

namespace talos::etcd {

class Mutex {
 public:
  struct Options {
    kj::String prefix;                    // "talos:v1:etcdUpgradeMutex"
    kj::String holder;                    // who we are, for those who wait
    kj::Duration ttl = 60 * kj::SECONDS;  // of the lease
  };
  // One mutex may be locked several times: each waits for the others. Lives longer than its locks.
  Mutex(Etcd& etcd, kj::Timer& timer, Options options);
  ~Mutex() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Mutex);

  class Lock {
   public:
    virtual ~Lock() noexcept(false) = default;
    // Rejects when the lease is gone or about to be: from then on another may hold the mutex. Does
    // not resolve otherwise. May be asked several times.
    virtual kj::Promise<void> lost() = 0;
    // Resolves when nobody is kept waiting by us any more: etcd has confirmed it, or the lease is
    // over. Asked once, and nothing else after it.
    virtual kj::Promise<void> release() = 0;
    // The lock ends with this lease, which another process may revoke.
    virtual LeaseId leaseId() const = 0;
  };

  // Hears who holds it ("cp-1"), when there is somebody to wait for and when that changes.
  using Waiting = kj::Function<void(kj::StringPtr holder)>;
  // Tries on while etcd cannot be reached. DeadlineExceeded says who holds it, or what was wrong.
  kj::Promise<kj::Own<Lock>> lock(kj::Duration deadline, Waiting waiting);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::etcd
