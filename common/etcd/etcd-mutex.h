// A mutex of the whole cluster, stored in etcd in the format of etcd's concurrency package, so that
// programs that use that package and programs that use this one exclude each other.
//
// Each process that wants the mutex creates a key "<prefix>/<lease id in hex>" with a lease; the
// owner of the oldest key holds the mutex, the others wait in order. The lease is renewed while the
// mutex is held or waited for. A process that crashes or is cut off loses the mutex when the lease
// ends, and learns it earlier: lost() is reported by the monotonic clock shortly before the lease
// ends, whether or not etcd answers. Nothing has to be cleaned up after a crash.
//
// A dropped promise or lock gives up its place in the background, if etcd can be reached; otherwise
// its lease expires.
#pragma once

#include <kj/timer.h>

#include "common/etcd/etcd.h"

namespace talos::etcd {

class Mutex {
 public:
  struct Options {
    kj::String prefix;                    // "talos:v1:etcdUpgradeMutex"
    kj::String holder;                    // name of this process, for the processes that wait
    kj::Duration ttl = 60 * kj::SECONDS;  // time to live of the lease
  };
  // One mutex may be locked several times: each lock waits for the others. The mutex must outlive
  // its locks.
  Mutex(Etcd& etcd, kj::Timer& timer, Options options);
  ~Mutex() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Mutex);

  class Lock {
   public:
    virtual ~Lock() noexcept(false) = default;
    // Rejects when the lease has ended or is about to end: from then on another process may hold
    // the mutex. Does not resolve otherwise. May be called several times.
    virtual kj::Promise<void> lost() = 0;
    // Resolves when this lock blocks no other process any more: etcd has confirmed the release, or
    // the lease has ended. Must be called at most once, and as the last call.
    virtual kj::Promise<void> release() = 0;
    // Returns the lease with which the lock ends; another process may revoke it.
    virtual LeaseId leaseId() const = 0;
  };

  // Reports the holder ("cp-1") when the caller has to wait, and when the holder changes.
  using Waiting = kj::Function<void(kj::StringPtr holder)>;
  // Keeps trying while etcd cannot be reached. DeadlineExceeded names the holder, or the error.
  kj::Promise<kj::Own<Lock>> lock(kj::Duration deadline, Waiting waiting);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::etcd
