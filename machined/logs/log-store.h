// Memory rings of log bytes, one for each service ID, `machined` and `controller-runtime`, which
// has the lines of daemons' controllers as well (controller-lines.h).
//
// A ring (log-ring.h) is a memfd of 1 MiB that process 1 holds too (name "log/<id>"): the lines
// survive the brain, and so do positions, so a follower that lost its connection continues at its
// position. Pages are touched only as the log grows. Positions are the count of bytes ever written
// to the ring; the newest 1 MiB (less 2 KiB) can be read. Output without a newline at its end is
// held back until the newline arrives or the output reaches 8 KiB, also across a crash.
//
// Nothing here blocks, and no service can occupy the loop: one turn of the loop reads 64 KiB of a
// pipe, then all others get their turn. A service that writes faster waits for its pipe.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/map.h>
#include <kj/vector.h>

#include "machined/logs/log-ring.h"
#include "machined/process1/process1.h"
#include "rpc/node.capnp.h"

namespace talos::machined {

// The lines of a log that a client wants.
struct LogQuery {
  bool follow = false;
  int tailLines = -1;                        // the last of the selected lines; negative: all
  uint64_t from = 0;                         // a position; replaces tailLines and since
  kj::String contains = nullptr;             // only lines with this text
  kj::Maybe<kj::TimePoint> since = nullptr;  // only newer lines (LogRing::since())
};

class Logs {
 public:
  // Restores the predecessor's rings and the pipes that still have writers.
  Logs(Process1& process1, kj::UnixEventPort& port,
       const kj::MonotonicClock& clock = kj::systemCoarseMonotonicClock());
  ~Logs() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Logs);

  // Appends whole lines. Makes the ring if the ID is new. A crash before process 1 holds a new ring
  // (the next turn of the loop) loses it.
  void append(kj::StringPtr id, kj::ArrayPtr<const char> bytes);

  // Returns the write end of a pipe whose output goes to the ring `id`; blocking, close-on-exec.
  // Process 1 holds the pipe's read end (name "pipe/<id>"), so its writers never get EPIPE while
  // the brain is away. Always the same pipe for the same ID. Resolves when process 1 holds both.
  kj::Promise<kj::AutoCloseFd> writer(kj::StringPtr id);

  // Also copies every line of every ring to this function (console, debug: true).
  void tee(kj::Function<void(kj::StringPtr id, kj::ArrayPtr<const char> lines)> copy);

  // Resolves at the next line of any log, and at the next new log.
  kj::Promise<void> changed();

  // Reads the waiting bytes in the pipe of this log, at most 64 KiB: the last lines of a program
  // that has just exited.
  void readWaiting(kj::StringPtr id);

  kj::Vector<kj::String> ids() const;  // sorted
  // Returns the ring of a log, for a part that keeps its lines longer.
  kj::Maybe<const LogRing&> ring(kj::StringPtr id) const;
  // Serves the Logs capability, without kernel(), which machined/api/kmsg.h adds. Throws NotFound
  // for an unknown ID. A `from` beyond the end belongs to an earlier boot and reads everything; if
  // `from` is before the oldest line, the sink gets the size of the gap. Without follow the promise
  // resolves when the sink has processed the last line.
  kj::Promise<void> read(kj::StringPtr id, LogQuery query, rpc::LogSink::Client sink);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::machined
