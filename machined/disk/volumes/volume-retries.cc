#include "machined/disk/volumes/volume-retries.h"

namespace talos::machined {

kj::Maybe<kj::StringPtr> VolumeRetries::failure(kj::StringPtr id, kj::StringPtr key,
                                                kj::TimePoint now) {
  KJ_IF_MAYBE (attempt, attempts.find(id)) {
    bool waits = attempt->key == key && now < attempt->again;
    if (!waits) return nullptr;
    attempt->seen = true;
    return attempt->error.asPtr();
  }
  return nullptr;
}

void VolumeRetries::failed(kj::StringPtr id, kj::StringPtr key, kj::StringPtr error,
                           kj::TimePoint now) {
  auto wait = kFirst;
  KJ_IF_MAYBE (attempt, attempts.find(id)) {
    if (attempt->key == key) wait = kj::min(2 * attempt->wait, kLongest);
  }
  attempts.upsert(kj::str(id), Attempt{kj::str(key), kj::str(error), wait, now + wait},
                  [](Attempt& old, Attempt&& fresh) { old = kj::mv(fresh); });
}

kj::Maybe<kj::TimePoint> VolumeRetries::endPass() {
  attempts.eraseAll([](const kj::String&, const Attempt& attempt) { return !attempt.seen; });
  kj::Maybe<kj::TimePoint> earliest;
  for (auto& attempt : attempts) {
    attempt.value.seen = false;
    earliest = kj::min(earliest.orDefault(attempt.value.again), attempt.value.again);
  }
  return earliest;
}

}  // namespace talos::machined
