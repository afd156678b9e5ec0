// A line of a log, parsed by the rules of its stream: its time, its severity and its text.
//
// Pure and total: a line is untrusted text (a service printed it), and any bytes are a line.
#pragma once

#include <kj/string.h>
#include <kj/time.h>

#include "rpc/config-monitoring.capnp.h"

namespace talos::logd {

struct LineTag {
  kj::String key, value;
};

// A line and its origin.
struct LogLine {
  config::LogStream stream = config::LogStream::SERVICES;
  kj::StringPtr id;  // id of the service
  kj::ArrayPtr<const char> text;
  kj::Date received = kj::UNIX_EPOCH;  // time for a line that contains none
};

// Severities of syslog (RFC 5424 table 2).
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
  kj::String ownText;           // `text` may point into this
};

// The line's text outlives the result.
ParsedLine parseLine(const LogLine& line);

// Returns the service of a line; "kernel" and "events" for the streams without services.
kj::StringPtr sourceOf(const LogLine& line);
// Returns "error", "warn", "info" or "debug".
kj::StringPtr levelName(unsigned severity);
// Returns "emerg" to "debug" for 0 to 7.
kj::StringPtr priorityName(unsigned severity);
// Returns "kern" and so on; the number for a facility that syslog does not have.
kj::String facilityName(unsigned facility);

}  // namespace talos::logd
