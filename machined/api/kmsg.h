// The kernel's log: records of /dev/kmsg as lines, from any point on, for as long as a client
// reads.
//
// The parser is pure and total: any bytes are a record or nullptr. The reader keeps no copy of the
// log: the kernel's ring is the buffer, and the record's sequence number is the position in it. A
// reader that is slower than the kernel learns how many records were overwritten and continues with
// the oldest remaining one.
#pragma once

#include <kj/async-unix.h>
#include <kj/string.h>
#include <kj/time.h>

#include "rpc/node.capnp.h"

namespace talos::machined {

struct KmsgRecord {
  unsigned facility = 0;  // syslog(3), without the level's bits
  unsigned level = 0;     // 0 emerg ... 7 debug
  uint64_t sequence = 0;
  uint64_t microseconds = 0;         // since the boot
  kj::ArrayPtr<const char> message;  // part of the record's bytes
};

// Parses "6,339,5140900,-;NET: Registered ...\n SUBSYSTEM=net\n": prefix, message, and lines that
// begin with a blank and are not shown. Fields that later kernels add to the prefix are skipped.
kj::Maybe<KmsgRecord> parseKmsg(kj::ArrayPtr<const char> record);

// Returns "kern:    info: [2021-03-01T12:00:00.123456000Z]: NET: Registered ...\n". `boot` is the
// time when the kernel's clock was 0. Control characters are written as the kernel does, \x0a, so
// that a record stays one line. The kernel logs its command line: the secrets of talos.config are
// left out for every client.
kj::String formatKmsg(const KmsgRecord& record, kj::Date boot);

// Returns "<facility>,<level>,<sequence>,<microseconds>,<nanoseconds since 1970>;<message>\n": the
// same for programs (LogFeedSink.lines). The message has neither control characters nor secrets.
kj::String feedKmsg(const KmsgRecord& record, kj::Date boot);

// /dev/kmsg, or a test's model of it.
class KmsgSource {
 public:
  virtual ~KmsgSource() noexcept(false) = default;
  struct Read {
    size_t size = 0;
    int error = 0;  // errno: EAGAIN at the end, EPIPE when the next record was overwritten
  };
  virtual Read read(kj::ArrayPtr<char> buffer) = 0;  // one record
  virtual kj::Promise<void> whenReadable() = 0;
  virtual void rewind() = 0;  // to the oldest record
  virtual void skipToEnd() = 0;
};

kj::Own<KmsgSource> openKmsg(kj::UnixEventPort& port, kj::StringPtr path = "/dev/kmsg");

struct KmsgOptions {
  bool follow = false;
  bool onlyNew = false;
  uint64_t from = 0;  // first sequence number; a number of an earlier boot means all records
  kj::Date boot = kj::UNIX_EPOCH;
  kj::StringPtr contains = nullptr;  // only lines with this text; used until the promise resolves
  uint64_t sinceMicroseconds = 0;    // only records from this time since the boot on
  kj::String (*format)(const KmsgRecord& record, kj::Date boot) = formatKmsg;
};
// Returns at the end of the log; with `follow` it runs until it is dropped. The sink's `missed`
// counts records here.
kj::Promise<void> readKmsg(kj::Own<KmsgSource> source, KmsgOptions options,
                           rpc::LogSink::Client sink);

// Returns the time when the kernel's clock was 0, by the present clocks.
kj::Date kernelEpoch();

// Serves Logs.kernel() of the node: `return serveKernelLog(port, context.getParams());`
kj::Promise<void> serveKernelLog(kj::UnixEventPort& port, rpc::Logs::KernelParams::Reader params);

}  // namespace talos::machined
