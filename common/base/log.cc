#include "common/base/log.h"

#include <errno.h>
#include <kj/vector.h>
#include <unistd.h>

#include "common/base/date.h"
#include "common/base/url-secrets.h"
#include "common/text/foreign-text.h"
#include "common/text/plain-text.h"

namespace talos::log {
namespace {

// Lowest level that the program writes; like descriptor 2, it belongs to the whole program.
const std::atomic<uint8_t>* lowest = nullptr;

kj::StringPtr nameOf(Level level) {
  switch (level) {
    case Level::kDebug:
      return "debug"_kj;
    case Level::kInfo:
      return "info"_kj;
    case Level::kWarning:
      return "warning"_kj;
    case Level::kError:
      return "error"_kj;
  }
  return "error"_kj;
}

// Needs no quotes.
bool plain(kj::StringPtr value) {
  if (value.size() == 0) return false;
  for (char c : value) {
    if (c == ' ' || c == '"' || c == '=' || c == '\\') return false;
  }
  return isPlainText(value);
}

void append(kj::Vector<char>& out, kj::StringPtr text) {
  out.addAll(text);
}

void appendValue(kj::Vector<char>& out, kj::StringPtr value) {
  if (plain(value)) return append(out, value);
  addQuoted(out, value, Surface::kLog);
}

}  // namespace

kj::String formatFields(std::initializer_list<Field> fields) {
  kj::Vector<char> out;
  for (auto& field : fields) {
    if (!out.empty()) out.add(' ');
    append(out, field.key);
    out.add('=');
    appendValue(out, withoutUrlPasswords(field.value));
  }
  return kj::heapString(out.begin(), out.size());
}

kj::String format(Level level, kj::StringPtr message, std::initializer_list<Field> fields) {
  auto begin = formatFields({{"level", nameOf(level)}, {"message", message}});
  return fields.size() == 0 ? kj::mv(begin) : kj::str(begin, ' ', formatFields(fields));
}

void followLevel(const std::atomic<uint8_t>& level) {
  lowest = &level;
}

bool writes(Level level) {
  uint8_t stored = lowest == nullptr ? 0 : lowest->load(std::memory_order_relaxed);
  auto least = stored == 0 ? Level::kInfo : static_cast<Level>(stored - 1);
  return level >= least;
}

void write(Level level, kj::StringPtr message, std::initializer_list<Field> fields) {
  if (!writes(level)) return;
  auto time = dateTextMs(kj::systemPreciseCalendarClock().now());
  auto line = kj::str("time=", time, ' ', format(level, message, fields), '\n');
  auto rest = line.asArray();
  while (rest.size() > 0) {
    ssize_t n = ::write(STDERR_FILENO, rest.begin(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // no reader: a daemon must not exit because of its log
    rest = rest.slice(n, rest.size());
  }
}

}  // namespace talos::log
