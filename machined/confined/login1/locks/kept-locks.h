// The locks of login1 beyond its own life. Their holders have the writing ends of pipes; the
// reading ends, with what the holders said, are in a message that login1 has sent to itself, over a
// pair of sockets of which process 1 holds both ends and each start of login1 gets them. So nobody
// else reads what programs of the bus write, and a lock that is released while no login1 runs is
// one whose pipe has ended.
//
// Each change is one message with all locks; the ones before it are removed when it is there. After
// a crash at any line there is a whole message, the newest one or the one before: they differ in a
// lock that its holder has released, or has not got yet, and either has a pipe that has ended.
#pragma once

#include <kj/io.h>
#include <kj/vector.h>

#include "machined/confined/login1/locks/inhibitors.h"

namespace talos::login1 {

// The message: one byte for its format, then the locks as InhibitorSpec, in the order of the pipes.
constexpr size_t kMostKeptBytes = 64 << 10;
kj::Array<kj::byte> encodeLocks(kj::ArrayPtr<const Inhibitor* const> locks);
// FailedPrecondition for anything but `count` locks. Their texts are as they were sent: what of
// them is a valid lock is the part of Inhibitors::add().
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
  // Those of the newest message, which stays. A message that is damaged is removed and reported in
  // the log, and there are none.
  kj::Vector<Lock> restore();

  struct Reference {
    const Inhibitor* lock;
    int pipe;
  };
  // Replaces what is kept. At most kMostInhibitors.
  void replace(kj::ArrayPtr<const Reference> all);

 private:
  kj::AutoCloseFd sending, receiving;

  size_t leaveNewest();
  void removeOldest();
  kj::Vector<Lock> read();
};

}  // namespace talos::login1
