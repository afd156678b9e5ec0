// Structured logs of a daemon: one line each to standard error, which its supervisor keeps as the
// service's log: "time=2026-11-20T12:07:35.042Z level=info message=listening address=0.0.0.0"
// Values are quoted when they have to be and control characters are escaped, so a line is always
// one line. Secrets are never logged: a caller passes names and places, not contents. Lines below
// the level are left out; by default those of kDebug. Debug lines help to find a cause: each step
// with the names of its objects, and never more than a few lines for one event.
#pragma once

#include <kj/string.h>

#include <atomic>

namespace talos::log {

enum class Level { kDebug, kInfo, kWarning, kError };

struct Field {
  kj::StringPtr key;
  kj::String value;
  template <typename T>
  Field(kj::StringPtr key, T&& value) : key(key), value(kj::str(kj::fwd<T>(value))) {}
};

void write(Level level, kj::StringPtr message, std::initializer_list<Field> fields = {});
inline void debug(kj::StringPtr m, std::initializer_list<Field> f = {}) {
  write(Level::kDebug, m, f);
}
inline void info(kj::StringPtr m, std::initializer_list<Field> f = {}) {
  write(Level::kInfo, m, f);
}
inline void warn(kj::StringPtr m, std::initializer_list<Field> f = {}) {
  write(Level::kWarning, m, f);
}
inline void error(kj::StringPtr m, std::initializer_list<Field> f = {}) {
  write(Level::kError, m, f);
}

// Makes each later line use the level in this variable: 1 + Level, 0 for the default. Called once,
// in main(): like standard error, the level belongs to the whole program. The variable must outlive
// the program's logging.
void followLevel(const std::atomic<uint8_t>& level);
// Returns true if lines of this level are written, to save the work of making others.
bool writes(Level level);

// Returns the line as write() prints it, without the time and the newline (for tests and other
// sinks).
kj::String format(Level level, kj::StringPtr message, std::initializer_list<Field> fields);
// Returns only the fields, in the same form, for a line of another log.
kj::String formatFields(std::initializer_list<Field> fields);

}  // namespace talos::log
