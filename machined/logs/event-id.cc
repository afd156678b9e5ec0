#include "machined/logs/event-id.h"

#include <tuple>

namespace talos::machined {
namespace {

constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuv";
constexpr size_t kLength = 20;  // 96 bits and 4 zero bits, five a character
constexpr uint64_t kSecond = 1'000'000'000;

kj::Maybe<unsigned> valueOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'v') return c - 'a' + 10;
  return nullptr;
}

}  // namespace

kj::String EventId::toString() const {
  auto bits = (unsigned __int128){seconds} << 68 | (unsigned __int128){nanoseconds} << 36 |
              (unsigned __int128){serial} << 4;
  auto text = kj::heapString(kLength);
  for (size_t i = 0; i < kLength; ++i) text[i] = kDigits[(bits >> (5 * (kLength - 1 - i))) & 31];
  return text;
}

kj::Maybe<EventId> EventId::parse(kj::StringPtr text) {
  if (text.size() != kLength) return nullptr;
  unsigned __int128 bits = 0;
  for (char c : text) {
    KJ_IF_MAYBE (v, valueOf(c)) {
      bits = bits << 5 | *v;
    } else {
      return nullptr;
    }
  }
  return EventId{static_cast<uint32_t>(bits >> 68), static_cast<uint32_t>(bits >> 36),
                 static_cast<uint32_t>(bits >> 4)};
}

bool EventId::operator<(const EventId& o) const {
  return std::tie(seconds, nanoseconds, serial) < std::tie(o.seconds, o.nanoseconds, o.serial);
}

EventId EventIdMaker::next(kj::Date now) {
  auto ns = (now - kj::UNIX_EPOCH) / kj::NANOSECONDS;
  if (ns > 0 && static_cast<uint64_t>(ns) > last) last = ns;
  return {static_cast<uint32_t>(last / kSecond), static_cast<uint32_t>(last % kSecond), serial++};
}

void EventIdMaker::resume(const EventId& id) {
  last = id.seconds * kSecond + id.nanoseconds;
  serial = id.serial + 1;
}

}  // namespace talos::machined
