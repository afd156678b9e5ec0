#include "machined/logs/log-since.h"

#include <stdint.h>

namespace talos::machined {
namespace {

// Returns the age; negative: in the future. nullptr: all lines, or an age beyond any log.
kj::Maybe<int64_t> nanosecondsAgo(rpc::LogSince::Reader since, kj::Date wall) {
  int64_t ago;
  switch (since.which()) {
    case rpc::LogSince::ALWAYS:
      return nullptr;
    case rpc::LogSince::AGE:
      if (__builtin_mul_overflow(since.getAge(), 1'000'000, &ago)) return nullptr;
      return ago;
    case rpc::LogSince::TIME:
      if (__builtin_sub_overflow((wall - kj::UNIX_EPOCH) / kj::NANOSECONDS, since.getTime(),
                                 &ago)) {
        return nullptr;
      }
      return ago;
  }
  return nullptr;  // a field of a newer client
}

}  // namespace

kj::Maybe<kj::TimePoint> momentOf(rpc::LogSince::Reader since, kj::TimePoint now, kj::Date wall) {
  KJ_IF_MAYBE (ago, nanosecondsAgo(since, wall)) {
    auto origin = kj::origin<kj::TimePoint>();
    int64_t moment;
    if (__builtin_sub_overflow((now - origin) / kj::NANOSECONDS, *ago, &moment)) {
      moment = *ago > 0 ? 0 : INT64_MAX;
    }
    return origin + kj::max(moment, int64_t{0}) * kj::NANOSECONDS;
  }
  return nullptr;
}

kj::Maybe<kj::TimePoint> momentOf(rpc::LogSince::Reader since) {
  return momentOf(since, kj::systemCoarseMonotonicClock().now(),
                  kj::systemPreciseCalendarClock().now());
}

kj::Maybe<kj::Date> dateOf(rpc::LogSince::Reader since, kj::Date wall) {
  KJ_IF_MAYBE (ago, nanosecondsAgo(since, wall)) {
    return wall - *ago * kj::NANOSECONDS;
  }
  return nullptr;
}

}  // namespace talos::machined
