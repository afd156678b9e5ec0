// Memory rings of log bytes, one for each service id, `machined` and `controller-runtime`, which
// has the lines of daemons' controllers as well (controller-lines.h).
//
// A ring (log-ring.h) is a memfd of 1 MiB that process 1 holds too (name "log/<id>"): the lines
// survive the brain, and so do positions, so a follower that lost its connection goes on where it
// was. Pages are touched only as the log grows. Positions are the count of bytes ever written to
// the ring; the newest 1 MiB (less 2 KiB) can be read. Output that does not end in a newline is
// kept back until it does or reaches 8 KiB, and is kept over a crash too.
//
// Nothing here blocks, and no service can take the loop for itself: 64 KiB of a pipe are read in
// one turn of the loop, then everybody else has theirs. A service that writes faster than that
// waits for its own pipe.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/map.h>
#include <kj/vector.h>

#include "machined/logs/log-ring.h"
#include "machined/process1/process1.h"
#include "rpc/node.capnp.h"

namespace talos::machined {

// The lines that somebody wants of a log.
struct LogQuery {
  bool follow = false;
  int tailLines = -1;                        // the last ones of those; negative: all
  uint64_t from = 0;                         // a position, instead of tailLines and since
  kj::String contains = nullptr;             // only lines with this text
  kj::Maybe<kj::TimePoint> since = nullptr;  // only newer lines (LogRing::since())
};

class Logs {
 public:
  // Takes up the predecessor's rings and the pipes that still have writers.
  Logs(Process1& process1, kj::UnixEventPort& port,
       const kj::MonotonicClock& clock = kj::systemCoarseMonotonicClock());
  ~Logs() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Logs);

  // Appends whole lines. Makes the ring if the id is new. A crash before process 1 holds a new ring
  // (the next turn of the loop) loses it.
  void append(kj::StringPtr id, kj::ArrayPtr<const char> bytes);

  // The writing end of a pipe whose output goes to the ring `id`; blocking, close-on-exec. The
  // pipe's reading end is held by process 1 (name "pipe/<id>"), so its writers never see EPIPE
  // while the brain is away. Always the same pipe for the same id. Resolves when process 1 holds
  // both.
  kj::Promise<kj::AutoCloseFd> writer(kj::StringPtr id);

  // Also copies every line of every ring to this function (console, debug: true).
  void tee(kj::Function<void(kj::StringPtr id, kj::ArrayPtr<const char> lines)> copy);

  // At the next line of any log, and the next new log.
  kj::Promise<void> changed();

  // Reads what waits in the pipe of this log, at most 64 KiB: the last lines of a program that has
  // just ended.
  void takeIn(kj::StringPtr id);

  kj::Vector<kj::String> ids() const;  // sorted
  // The ring of one, for whoever keeps its lines longer.
  kj::Maybe<const LogRing&> ring(kj::StringPtr id) const;
  // The Logs capability, without kernel(), which machined/api/kmsg.h adds. NotFound: unknown id.
  // `from` behind the end is of an earlier boot and reads everything; before the oldest line, the
  // sink gets the size of the gap. Without follow the promise resolves when the sink has processed
  // the last line.
  kj::Promise<void> read(kj::StringPtr id, LogQuery query, rpc::LogSink::Client sink);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::machined
