// A line of a log as its stream means it: its time, its severity and its text.
//
// Pure and total: a line is foreign text (a service printed it), and any bytes are some line.
#pragma once

#include <kj/string.h>
#include <kj/time.h>

#include "rpc/config-monitoring.capnp.h"

namespace talos::logd {

struct LineTag {
  kj::String key, value;
};

// A line and where it is from.
struct LogLine {
  config::LogStream stream = config::LogStream::SERVICES;
  kj::StringPtr id;  // of the service
  kj::ArrayPtr<const char> text;
  kj::Date received = kj::UNIX_EPOCH;  // its time where it has none itself
};

// Of syslog (RFC 5424 table 2).
enum Severity : unsigned { kErr = 3, kWarning = 4, kInfo = 6, kDebug = 7 };
constexpr unsigned kDaemonFacility = 3, kAuditFacility = 13, kFacilityCount = 24;

struct ParsedLine {
  kj::ArrayPtr<const char> text;
  kj::Date time = kj::UNIX_EPOCH;
  unsigned severity = kInfo, facility = kDaemonFacility;
  struct Kernel {
    uint64_t sequence, microseconds;
  };
  kj::Maybe<Kernel> kernel;
  kj::Maybe<kj::String> event;  // JSON
  kj::String ownText;           // that `text` may be of
};

// The line's text outlives it.
ParsedLine parseLine(const LogLine& line);

// The service of a line; "kernel" and "events" of the streams that have none.
kj::StringPtr sourceOf(const LogLine& line);
// "error", "warn", "info" or "debug".
kj::StringPtr levelName(unsigned severity);
// "emerg" to "debug": of 0 to 7.
kj::StringPtr priorityName(unsigned severity);
// "kern"; the number of one that syslog does not have.
kj::String facilityName(unsigned facility);

}  // namespace talos::logd
