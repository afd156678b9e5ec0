// Structured logs of a daemon: one line each to standard error, which its supervisor keeps as the
// service's log: "time=2026-11-20T12:07:35.042Z level=info message=listening address=0.0.0.0"
// Values are quoted when they have to be and control characters are escaped, so a line is always
// one line. Secrets are never logged: a caller passes names and places, not contents.
// Lines below the level are left out; by default those of kDebug. A debug line is for who looks for
// a cause: each step with the names of its things, and never more than a few for one event.
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

// From now on, each line counts with the level that is there: 1 + Level, 0 for the default. Once,
// in main(): it belongs to the whole program, as standard error does. Outlives it.
void followLevel(const std::atomic<uint8_t>& level);
// True when lines of this level are written: to spare the work of making others.
bool writes(Level level);

// The line as write() prints it, without the time and the newline (for tests and for other sinks).
kj::String format(Level level, kj::StringPtr message, std::initializer_list<Field> fields);
// Only the fields, in the same form: a line of another log.
kj::String formatFields(std::initializer_list<Field> fields);

}  // namespace talos::log
