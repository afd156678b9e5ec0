// The lines of a log file on a disk, as a log of the API: all lines or the last ones, and new lines
// as they are written.
//
// The pool for reads reads the file, so a disk that hangs blocks only its caller. A file that is
// renamed and created again (rotation) is read to its end, then the new file from its beginning. A
// position is an offset in the file, + 1; a position from before a rotation may skip lines of the
// new file.
#pragma once

#include <kj/async-unix.h>
#include <kj/time.h>

#include "machined/process1/read-pool.h"
#include "rpc/stream.capnp.h"

namespace talos::machined {

// A filter of lines. Without conditions: all lines.
struct LineFilter {
  kj::String contains = nullptr;        // lines with this text
  kj::Maybe<kj::Date> since = nullptr;  // from the first line with this time or a later one on

  bool keepsAll() const { return contains.size() == 0 && since == nullptr; }
  // Returns true if the line passes the filter. Must be called in the order of the lines. Pure.
  bool keeps(kj::ArrayPtr<const char> line);
};

struct LineFile {
  bool follow = false;
  int tailLines = -1;  // the last lines that pass the filter; negative: all
  uint64_t from = 0;   // a position; 0: chosen by tailLines and the filter's time
  LineFilter filter = {};
};

struct LineFileSource {
  ReadPool::Client pool;
  kj::UnixEventPort& port;
  kj::Timer& timer;
};

// Sends the lines to the sink. Without follow it resolves at the end; an incomplete last line gets
// a newline then. Throws NotFound; Unavailable if the disk does not answer within 60 s.
kj::Promise<void> readLineFile(LineFileSource source, kj::String path, LineFile what,
                               rpc::LogSink::Client sink);

}  // namespace talos::machined
