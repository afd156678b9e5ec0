// IDs of machine events: 20 characters whose order as text is the order of the events.
//
// 96 bits, big-endian: seconds since 1970 (32), nanoseconds of the second (32), serial number in
// this boot (32); in base32 with the digits 0-9a-v, which sort as their values do. A maker's IDs
// never decrease, even if the clock is set back.
#pragma once

#include <kj/string.h>
#include <kj/time.h>

namespace talos::machined {

struct EventId {
  uint32_t seconds = 0, nanoseconds = 0, serial = 0;

  kj::String toString() const;
  // Returns nullptr if the text is not an ID.
  static kj::Maybe<EventId> parse(kj::StringPtr text);
  bool operator<(const EventId& other) const;
};

class EventIdMaker {
 public:
  // Returns the next ID. `now` is the clock's time; a time before the last ID's counts as the last
  // ID's.
  EventId next(kj::Date now);
  // Continues after the last ID of a predecessor.
  void resume(const EventId& id);

 private:
  uint64_t last = 0;  // ns since 1970
  uint32_t serial = 0;
};

}  // namespace talos::machined
