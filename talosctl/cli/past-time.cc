#include "talosctl/cli/past-time.h"

#include <stdlib.h>
#include <time.h>

#include "common/base/date.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {
namespace {

constexpr size_t kMostDigits = 5;  // digits of a number of days

// Parses "2d" and "1d12h": days, followed by the durations that flags accept.
kj::Maybe<kj::Duration> parseAge(kj::StringPtr text) {
  if (text.startsWith("-")) text = text.slice(1);
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits == 0 || digits > kMostDigits || digits == text.size() || text[digits] != 'd') {
    return parseDuration(text);
  }
  auto days = atoi(text.cStr()) * kj::DAYS;
  auto rest = text.slice(digits + 1);
  if (rest.size() == 0) return days;
  return parseDuration(rest).map([&](kj::Duration more) { return days + more; });
}

kj::Maybe<kj::Date> parseUnixTime(kj::StringPtr text) {
  if (text.size() < 2 || text.size() > 11 || text[0] != '@') return nullptr;
  for (char c : text.slice(1)) {
    if (c < '0' || c > '9') return nullptr;
  }
  auto seconds = atoll(text.cStr() + 1);
  if (seconds > INT64_MAX / 1'000'000'000) return nullptr;
  return kj::UNIX_EPOCH + seconds * kj::SECONDS;
}

struct tm localParts(kj::Date date) {
  time_t seconds = (date - kj::UNIX_EPOCH) / kj::SECONDS;
  struct tm parts = {};
  localtime_r(&seconds, &parts);
  return parts;
}

// Returns nullptr for a day that its month does not have and for a leap second, which mktime()
// would change to another time.
kj::Maybe<kj::Date> dateOfLocal(struct tm parts) {
  auto checked = parts;
  checked.tm_isdst = -1;
  auto seconds = mktime(&checked);
  constexpr int64_t kLast = INT64_MAX / 1'000'000'000;
  if (checked.tm_mday != parts.tm_mday || checked.tm_sec != parts.tm_sec) return nullptr;
  if (seconds < -kLast || seconds > kLast) return nullptr;
  return kj::UNIX_EPOCH + int64_t(seconds) * kj::SECONDS;
}

kj::Maybe<kj::Date> parseLocal(kj::StringPtr text, kj::Date now) {
  auto today = localParts(now);
  today.tm_hour = today.tm_min = today.tm_sec = 0;
  if (text == "today") return dateOfLocal(today);
  if (text == "yesterday") {
    --today.tm_mday;
    today.tm_isdst = -1;
    if (mktime(&today) == -1) return nullptr;
    return dateOfLocal(today);
  }
  struct Form {
    const char* format;
    size_t size;  // strptime() would accept fewer digits
  };
  constexpr Form kForms[] = {{"%Y-%m-%d %H:%M:%S", 19},
                             {"%Y-%m-%dT%H:%M:%S", 19},
                             {"%Y-%m-%d %H:%M", 16},
                             {"%Y-%m-%dT%H:%M", 16},
                             {"%Y-%m-%d", 10},
                             {"%H:%M:%S", 8},
                             {"%H:%M", 5}};
  for (auto& form : kForms) {
    auto parts = today;
    auto end = strptime(text.cStr(), form.format, &parts);
    if (text.size() == form.size && end != nullptr && *end == '\0') return dateOfLocal(parts);
  }
  return nullptr;
}

kj::Maybe<kj::Date> parseWithZone(kj::StringPtr text) {
  auto form = kj::str(text);
  if (form.size() > 10 && form[10] == ' ') form[10] = 'T';
  return parseTimestamp(form);
}

}  // namespace

kj::Maybe<PastTime> parsePastTime(kj::StringPtr text, kj::Date now) {
  KJ_IF_MAYBE (age, parseAge(text)) return PastTime(*age);
  for (auto& date : {parseUnixTime(text), parseWithZone(text), parseLocal(text, now)}) {
    KJ_IF_MAYBE (found, date) return PastTime(*found);
  }
  return nullptr;
}

kj::Maybe<PastTime> pastTimeOf(kj::StringPtr flag, kj::StringPtr text, kj::Date now) {
  if (text.size() == 0) return nullptr;
  auto time = parsePastTime(text, now);
  KJ_IF_MAYBE (found, time) {
    KJ_IF_MAYBE (date, found->tryGet<kj::Date>()) {
      if (*date > now) {
        failUsage(kj::str("--", flag, " \"", text, "\" is ", dateText(*date),
                          ", which is still to come; it is ", dateText(now)));
      }
    }
    return time;
  }
  failUsage(kj::str("--", flag, " \"", text,
                    "\" is not a time; use how long ago (45s, 5m, 2h30m, 1d), or when (14:05, "
                    "2026-11-20, \"2026-11-20 14:05:30\", 2026-11-20T14:05:30Z, @1795176455, "
                    "today, yesterday)"));
}

}  // namespace talos::talosctl
