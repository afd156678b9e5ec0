// Limits log lines about peers, or about other subjects that a client can create in large numbers,
// so that they cannot displace everything else from a log.
//
// In a window each peer has its first `own` lines whatever the others do, and more of them, up to
// `perPeer`, as long as all peers together have not used up `shared`. Lines beyond that are
// counted, and the counts are written, the largest first, with the first line after the window.
// Peers beyond `peers` count as one. So a window has at most peers * own + shared + kCounts + 1
// lines. Nothing survives a crash: the counts of the current window are lost.
#pragma once

#include <kj/function.h>
#include <kj/map.h>
#include <kj/time.h>

#include "common/base/log.h"

namespace talos {

class LineLimit {
 public:
  struct Limits {
    unsigned own = 3;       // enough to see what happens, how often, and whether it continues
    unsigned perPeer = 20;  // a minute: as many as a person reads
    unsigned shared = 100;  // of all peers together, beyond their own
    unsigned peers = 128;   // more than nodes fail at once; with 3 lines each some 50 KB a minute
    kj::Duration window = 60 * kj::SECONDS;
    kj::StringPtr subject = "peer"_kj;  // name of the subject in the lines
  };
  // Writes a line of the program's log.
  using Write = kj::Function<void(log::Level level, kj::StringPtr message,
                                  std::initializer_list<log::Field> fields)>;
  static constexpr unsigned kCounts = 8;  // peers whose suppressed lines are counted one by one

  explicit LineLimit(const kj::MonotonicClock& clock) : LineLimit(clock, Limits()) {}
  LineLimit(const kj::MonotonicClock& clock, Limits limits)
      : LineLimit(clock, limits, Write(log::write)) {}
  // For a program whose log is not its standard error.
  LineLimit(const kj::MonotonicClock& clock, Limits limits, Write write);

  // Lines are counted by `key`; `peer` is written.
  void warn(kj::StringPtr message, kj::StringPtr key, kj::StringPtr peer, kj::StringPtr error);
  // Counts another line by `key`, too; returns true if the caller may write it.
  bool admits(kj::StringPtr key);

 private:
  struct Peer {
    unsigned lines = 0, suppressed = 0;
  };
  const kj::MonotonicClock& clock;
  Limits limits;
  Write write;
  kj::TimePoint since;
  unsigned shared = 0;
  kj::HashMap<kj::String, Peer> peers;

  void endWindow();
};

}  // namespace talos
