#include "common/base/date.h"

#include <time.h>

namespace talos {
namespace {

constexpr const char* kForm = "%Y-%m-%dT%H:%M:%S";

kj::String upToSeconds(int64_t seconds) {
  time_t time = seconds;
  struct tm parts = {};
  char text[40];
  if (gmtime_r(&time, &parts) == nullptr) return kj::str("second ", seconds);
  return kj::heapString(text, strftime(text, sizeof text, kForm, &parts));
}

// Rounds down, before 1970 too.
int64_t wholeMilliseconds(kj::Date date) {
  auto nanoseconds = (date - kj::UNIX_EPOCH) / kj::NANOSECONDS;
  auto result = nanoseconds / 1'000'000;
  return nanoseconds % 1'000'000 < 0 ? result - 1 : result;
}

}  // namespace

kj::String dateText(kj::Date date) {
  auto ms = wholeMilliseconds(date);
  return kj::str(upToSeconds(ms >= 0 ? ms / 1000 : (ms - 999) / 1000), 'Z');
}

kj::String dateTextMs(kj::Date date) {
  auto ms = wholeMilliseconds(date);
  auto seconds = ms >= 0 ? ms / 1000 : (ms - 999) / 1000;
  auto rest = kj::str(1000 + (ms - seconds * 1000));
  return kj::str(upToSeconds(seconds), '.', rest.slice(1), 'Z');
}

kj::Maybe<kj::Date> parseDate(kj::StringPtr text) {
  struct tm parts = {};
  auto* end = strptime(text.cStr(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return nullptr;
  int64_t seconds = timegm(&parts);
  // In 2262; a fraction of a second may be added.
  constexpr int64_t kLast = INT64_MAX / (kj::SECONDS / kj::NANOSECONDS) - 1;
  if (seconds > kLast || seconds < -kLast) return nullptr;
  return kj::UNIX_EPOCH + seconds * kj::SECONDS;
}

namespace {

constexpr size_t kSeconds = 19;  // characters up to the seconds
constexpr size_t kDigits = 9;    // of a fraction that count

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

// Parses "Z", "+02:00", "-03:30".
kj::Maybe<kj::Duration> parseOffset(kj::ArrayPtr<const char> text) {
  if (text.size() == 1 && text[0] == 'Z') return 0 * kj::SECONDS;
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return nullptr;
  for (size_t i : {1, 2, 4, 5}) {
    if (!isDigit(text[i])) return nullptr;
  }
  int hours = (text[1] - '0') * 10 + (text[2] - '0');
  int minutes = (text[4] - '0') * 10 + (text[5] - '0');
  if (hours > 23 || minutes > 59) return nullptr;
  auto offset = hours * kj::HOURS + minutes * kj::MINUTES;
  return text[0] == '-' ? -1 * offset : offset;
}

}  // namespace

kj::Maybe<kj::Date> parseTimestamp(kj::ArrayPtr<const char> text) {
  if (text.size() <= kSeconds) return nullptr;
  auto rest = text.slice(kSeconds, text.size());
  int64_t nanoseconds = 0, unit = 100'000'000;
  if (rest[0] == '.') {
    size_t digits = 1;
    while (digits < rest.size() && isDigit(rest[digits])) {
      if (digits <= kDigits) nanoseconds += (rest[digits] - '0') * unit;
      unit /= 10;
      ++digits;
    }
    if (digits == 1) return nullptr;
    rest = rest.slice(digits, rest.size());
  }
  KJ_IF_MAYBE (offset, parseOffset(rest)) {
    KJ_IF_MAYBE (date, parseDate(kj::str(text.slice(0, kSeconds), 'Z'))) {
      return *date + nanoseconds * kj::NANOSECONDS - *offset;
    }
  }
  return nullptr;
}

}  // namespace talos
