// When a volume that could not be made or mounted is tried again: each attempt writes to its disk
// or derives keys, and may itself wake the next pass, by the events of the kernel about its disk.
//
// The same attempt is repeated after 30 s, then after twice as long, up to 10 min. An attempt is
// the same as long as its key is: its disk and its document. A disk that could not be read is an
// attempt, too, and so is a pass that failed. Pure: the time is passed in.
#pragma once

#include <kj/map.h>
#include <kj/string.h>
#include <kj/time.h>

namespace talos::machined {

class VolumeRetries {
 public:
  static constexpr auto kFirst = 30 * kj::SECONDS, kLongest = 10 * kj::MINUTES;

  // Returns the error of the same attempt, while it must not be repeated.
  kj::Maybe<kj::StringPtr> failure(kj::StringPtr id, kj::StringPtr key, kj::TimePoint now);
  void failed(kj::StringPtr id, kj::StringPtr key, kj::StringPtr error, kj::TimePoint now);
  void succeeded(kj::StringPtr id) { attempts.erase(id); }
  // Lets each volume be tried at once.
  void clear() { attempts.clear(); }
  // Ends a pass over the volumes: forgets the attempts that the pass did not come to, such as that
  // of a volume without a document. Returns when the next attempt is due, maybe in the past;
  // nullptr without one.
  kj::Maybe<kj::TimePoint> endPass();

 private:
  struct Attempt {
    kj::String key, error;
    kj::Duration wait;
    kj::TimePoint again;
    bool seen = true;  // in this pass
  };
  kj::TreeMap<kj::String, Attempt> attempts;  // the last one of each volume, by its ID
};

}  // namespace talos::machined
