// The lines of a log file on a disk, as a log of the API: all or the last ones, and those that
// come.
//
// Read by the pool for reads, so a disk that hangs costs its caller only. A file that is renamed
// and made anew (rotation) is read to its end and then the new one from its beginning. A position
// is a place in the file, + 1; one of a file that has been rotated since may skip lines of it.
#pragma once

#include <kj/async-unix.h>
#include <kj/time.h>

#include "machined/process1/read-pool.h"
#include "rpc/stream.capnp.h"

namespace talos::machined {

// The lines that somebody wants. Without either: all of them.
struct LineFilter {
  kj::String contains = nullptr;        // those with this text
  kj::Maybe<kj::Date> since = nullptr;  // from the first one on that begins with such a time

  bool keepsAll() const { return contains.size() == 0 && since == nullptr; }
  // Lines come in their order. Pure.
  bool keeps(kj::ArrayPtr<const char> line);
};

struct LineFile {
  bool follow = false;
  int tailLines = -1;  // the last ones of those that the filter keeps; negative: all
  uint64_t from = 0;   // a position; 0: as tailLines and the filter's time say
  LineFilter filter = {};
};

struct LineFileSource {
  ReadPool::Client pool;
  kj::UnixEventPort& port;
  kj::Timer& timer;
};

// Without follow it resolves at the end; a line without its end gets one then. NotFound;
// Unavailable when the disk does not answer within 60 s.
kj::Promise<void> readLineFile(LineFileSource source, kj::String path, LineFile what,
                               rpc::LogSink::Client sink);

}  // namespace talos::machined
