// Keeps the locks of login1 across restarts of login1. A lock's holder has the writing end of a
// pipe. The reading ends, and the texts of the holders, are in a message that login1 has sent to
// itself over a pair of sockets. Process 1 holds both ends of the pair and passes them to each
// start of login1. So no other program reads what programs of the bus write, and the pipe of a lock
// that is released while login1 does not run has ended.
//
// Each change sends one message with all locks, and then removes the earlier messages. After a
// crash at any line there is a whole message, the newest or the one before it. The two differ in a
// lock that its holder has released, or has not received yet; in both cases the pipe has ended.
#pragma once

#include <kj/io.h>
#include <kj/vector.h>

#include "machined/confined/login1/locks/inhibitors.h"

namespace talos::login1 {

// The message: one byte for its format, then the locks as InhibitorSpec, in the order of the pipes.
constexpr size_t kMostKeptBytes = 64 << 10;
kj::Array<kj::byte> encodeLocks(kj::ArrayPtr<const Inhibitor* const> locks);
// Throws FailedPrecondition unless the message has `count` locks. The texts are as they were sent:
// Inhibitors::add() checks if a lock is valid.
kj::Vector<Inhibitor> decodeLocks(kj::ArrayPtr<const kj::byte> message, size_t count);

class KeptLocks {
 public:
  // A connected pair (SOCK_SEQPACKET).
  KeptLocks(kj::AutoCloseFd sending, kj::AutoCloseFd receiving)
      : sending(kj::mv(sending)), receiving(kj::mv(receiving)) {}
  KJ_DISALLOW_COPY_AND_MOVE(KeptLocks);

  struct Lock {
    Inhibitor lock;
    kj::AutoCloseFd pipe;  // the reading end; reading does not wait
  };
  // Returns the locks of the newest message, which stays queued. Removes a damaged message, reports
  // it in the log, and returns no locks.
  kj::Vector<Lock> restore();

  struct Reference {
    const Inhibitor* lock;
    int pipe;
  };
  // Replaces the kept locks. `all` has at most kMostInhibitors.
  void replace(kj::ArrayPtr<const Reference> all);

 private:
  kj::AutoCloseFd sending, receiving;

  size_t leaveNewest();
  void removeOldest();
  kj::Vector<Lock> read();
};

}  // namespace talos::login1
