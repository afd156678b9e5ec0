// Structured logs of a daemon: one line each to standard error, which its supervisor keeps as the
// service's log: "time=2026-11-20T12:07:35.042Z level=info message=listening address=0.0.0.0"
// Values are quoted when they have to be and control characters are escaped, so a line is always
// one line. Secrets are never logged: a caller passes names and places, not contents.
#pragma once

#include <kj/string.h>

namespace talos::log {

enum class Level { kDebug, kInfo, kWarning, kError };

struct Field {
  kj::StringPtr key;
  kj::String value;
  template <typename T>
  Field(kj::StringPtr key, T&& value) : key(key), value(kj::str(kj::fwd<T>(value))) {}
};

void write(Level level, kj::StringPtr message, std::initializer_list<Field> fields = {});
inline void info(kj::StringPtr m, std::initializer_list<Field> f = {}) {
  write(Level::kInfo, m, f);
}
inline void warn(kj::StringPtr m, std::initializer_list<Field> f = {}) {
  write(Level::kWarning, m, f);
}
inline void error(kj::StringPtr m, std::initializer_list<Field> f = {}) {
  write(Level::kError, m, f);
}

// The line as write() prints it, without the time and the newline (for tests and for other sinks).
kj::String format(Level level, kj::StringPtr message, std::initializer_list<Field> fields);
// Only the fields, in the same form: a line of another log.
kj::String formatFields(std::initializer_list<Field> fields);

}  // namespace talos::log
