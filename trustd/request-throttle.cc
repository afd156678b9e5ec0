#include "trustd/request-throttle.h"

namespace talos::trustd {
kj::Duration Throttle::wait(const Ip& caller, kj::TimePoint now) const {
  KJ_IF_MAYBE (entry, entries.find(holderOf(caller))) {
    if (entry->allowedAt > now) return entry->allowedAt - now;
  }
  return 0 * kj::SECONDS;
}

void Throttle::failed(const Ip& caller, kj::TimePoint now) {
  auto key = holderOf(caller);
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
  auto& entry = entries.findOrCreate(key, [&]() {
    return kj::TreeMap<Ip, Entry>::Entry{key, Entry{Backoff({kFirst, kLongest}), now, now}};
  });
  if (now - entry.last > kForget) entry.backoff.reset();
  entry.last = now;
  entry.allowedAt = now + entry.backoff.next();
}

void Throttle::succeeded(const Ip& caller) {
  auto key = holderOf(caller);
  if (entries.find(key) != nullptr) entries.erase(key);
}

}  // namespace talos::trustd
