#include "trustd/request-throttle.h"

namespace talos::trustd {
namespace {

Ip keyOf(const Ip& caller) {
  return caller.family() == AF_INET6 ? caller.masked(64) : caller;
}

}  // namespace

kj::Duration Throttle::wait(const Ip& caller, kj::TimePoint now) const {
  KJ_IF_MAYBE (entry, entries.find(keyOf(caller))) {
    if (entry->heardAgain > now) return entry->heardAgain - now;
  }
  return 0 * kj::SECONDS;
}

void Throttle::failed(const Ip& caller, kj::TimePoint now) {
  auto key = keyOf(caller);
  if (entries.find(key) == nullptr && entries.size() >= most) {
    kj::Maybe<Ip> oldest;
    kj::TimePoint when = now;
    for (auto& row : entries) {
      if (oldest == nullptr || row.value.last < when) {
        oldest = row.key;
        when = row.value.last;
      }
    }
    KJ_IF_MAYBE (o, oldest) entries.erase(*o);
  }
  auto& entry = entries.findOrCreate(
      key, [&]() { return kj::TreeMap<Ip, Entry>::Entry{key, Entry{0, now, now}}; });
  if (now - entry.last > kForget) entry.failures = 0;
  auto pause = kFirst;
  for (unsigned i = 0; i < entry.failures && pause < kLongest; ++i) pause = pause * 2;
  entry.failures++;
  entry.last = now;
  entry.heardAgain = now + kj::min(pause, kLongest);
}

void Throttle::succeeded(const Ip& caller) {
  auto key = keyOf(caller);
  if (entries.find(key) != nullptr) entries.erase(key);
}

}  // namespace talos::trustd
