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

}  // namespace talos
