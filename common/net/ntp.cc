#include "common/net/ntp.h"

#include <kj/debug.h>
#include <stdio.h>

namespace talos::ntp {
namespace {

constexpr int64_t kGiga = 1'000'000'000;
constexpr int64_t kSecondsTo1970 = 2'208'988'800;  // from 1900
constexpr int64_t kEra = int64_t(1) << 32;         // seconds
constexpr int64_t kEra0Begin = kEra / 2;           // since 1900: 1968-01-20T03:14:08Z

struct Split {
  int64_t seconds, rest;
};
Split split(int64_t value, int64_t by) {  // rest >= 0
  int64_t seconds = value / by, rest = value % by;
  return rest < 0 ? Split{seconds - 1, rest + by} : Split{seconds, rest};
}

// Rounds up, and the reverse rounds down, so that a nanosecond is preserved and a second is never
// exceeded.
uint64_t fractionOf(int64_t nanoseconds) {
  return ((uint64_t(nanoseconds) << 32) + kGiga - 1) / kGiga;
}
int64_t nanosecondsOf(uint64_t fraction) {
  return int64_t((fraction * kGiga) >> 32);
}

// 16 bits of seconds, 16 of their fraction; rounded up, for it is a possible error.
uint32_t shortOf(kj::Duration d) {
  auto [seconds, rest] = split(d / kj::NANOSECONDS, kGiga);
  if (seconds < 0) return 0;
  if (seconds >= 0xffff) return 0xffff0000;
  return uint32_t(seconds << 16) + uint32_t(((rest << 16) + kGiga - 1) / kGiga);
}
kj::Duration durationOf(uint32_t value) {
  return int64_t(value >> 16) * kj::SECONDS +
         ((int64_t(value & 0xffff) * kGiga) >> 16) * kj::NANOSECONDS;
}

template <typename T>
void put(kj::ArrayPtr<kj::byte> out, size_t at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out[at + i] = kj::byte(value >> (8 * (sizeof(T) - 1 - i)));
}
template <typename T>
T get(kj::ArrayPtr<const kj::byte> in, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = T(value << 8) | in[at + i];
  return value;
}

kj::String kissCode(uint32_t referenceId) {
  char text[5] = {};
  for (int i = 0; i < 4; ++i) {
    char c = char(referenceId >> (24 - 8 * i));
    text[i] = c > ' ' && c < 0x7f ? c : '?';
  }
  return kj::str(text);
}

KissOfDeath kiss(uint32_t referenceId) {
  auto code = kissCode(referenceId);
  auto action = code == "DENY" || code == "RSTR" ? KissOfDeath::Action::kStop
                : code == "RATE"                 ? KissOfDeath::Action::kSlowDown
                                                 : KissOfDeath::Action::kNone;
  return {action, kj::mv(code)};
}

Verdict refuse(kj::String error) {
  return Rejected{kj::mv(error), false};
}

// Returns ((received - sent) + (transmitted - (sent + elapsed))) / 2, for clocks that are centuries
// apart.
kj::Duration halfOfSum(kj::Date received, kj::Date transmitted, kj::Date sent,
                       kj::Duration elapsed) {
  auto at = [](kj::Date d) { return __int128((d - kj::UNIX_EPOCH) / kj::NANOSECONDS); };
  auto half =
      (at(received) + at(transmitted) - 2 * at(sent) - __int128(elapsed / kj::NANOSECONDS)) / 2;
  constexpr __int128 kMost = INT64_MAX - 60 * kGiga;  // room for an error
  return int64_t(kj::max(-kMost, kj::min(kMost, half))) * kj::NANOSECONDS;
}

// Returns the error of a reply that is unusable whatever its timestamps.
kj::Maybe<kj::String> complaint(const Packet& p) {
  if (p.leap == kUnsynchronised || p.stratum >= 16) {
    return kj::str("the server's own clock is not synchronised");
  }
  if (p.receive.raw == 0 || p.transmit.raw == 0) return kj::str("the answer carries no time");
  // Compares within half an era, whichever era it is.
  if (p.reference.raw != 0 && int64_t(p.transmit.raw - p.reference.raw) < 0) {
    return kj::str("the server's reference time is in its own future");
  }
  if (int64_t(p.transmit.raw - p.receive.raw) < 0) {
    return kj::str("the server sent the answer before it received the query");
  }
  if (p.transmit.date() < kOldest) {
    return kj::str("the server's time is before 2021");
  }
  return nullptr;
}

}  // namespace

Timestamp Timestamp::of(kj::Date date) {
  auto [seconds, rest] = split((date - kj::UNIX_EPOCH) / kj::NANOSECONDS, kGiga);
  return {(uint64_t(seconds + kSecondsTo1970) << 32) + fractionOf(rest)};
}

kj::Date Timestamp::date() const {
  auto seconds = int64_t(raw >> 32);
  if (seconds < kEra0Begin) seconds += kEra;
  return kj::UNIX_EPOCH + (seconds - kSecondsTo1970) * kj::SECONDS +
         nanosecondsOf(raw & 0xffffffff) * kj::NANOSECONDS;
}

kj::Array<kj::byte> encode(const Packet& p) {
  auto out = kj::heapArray<kj::byte>(kPacketSize);
  out[0] = kj::byte((p.leap & 3) << 6 | (p.version & 7) << 3 | (p.mode & 7));
  out[1] = p.stratum;
  out[2] = kj::byte(p.poll);
  out[3] = kj::byte(p.precision);
  put(out, 4, shortOf(p.rootDelay));
  put(out, 8, shortOf(p.rootDispersion));
  put(out, 12, p.referenceId);
  put(out, 16, p.reference.raw);
  put(out, 24, p.origin.raw);
  put(out, 32, p.receive.raw);
  put(out, 40, p.transmit.raw);
  return out;
}

kj::Maybe<Packet> decode(kj::ArrayPtr<const kj::byte> in) {
  if (in.size() < kPacketSize) return nullptr;
  Packet p;
  p.leap = in[0] >> 6;
  p.version = in[0] >> 3 & 7;
  p.mode = in[0] & 7;
  p.stratum = in[1];
  p.poll = int8_t(in[2]);
  p.precision = int8_t(in[3]);
  p.rootDelay = durationOf(get<uint32_t>(in, 4));
  p.rootDispersion = durationOf(get<uint32_t>(in, 8));
  p.referenceId = get<uint32_t>(in, 12);
  p.reference.raw = get<uint64_t>(in, 16);
  p.origin.raw = get<uint64_t>(in, 24);
  p.receive.raw = get<uint64_t>(in, 32);
  p.transmit.raw = get<uint64_t>(in, 40);
  return p;
}

kj::Array<kj::byte> makeQuery(uint64_t nonce) {
  Packet p;
  p.mode = kClient;
  p.transmit.raw = nonce;
  return encode(p);
}

Verdict judge(kj::ArrayPtr<const kj::byte> reply, uint64_t nonce, kj::Date sent,
              kj::Duration elapsed) {
  KJ_REQUIRE(elapsed >= 0 * kj::NANOSECONDS);
  KJ_IF_MAYBE (p, decode(reply)) {
    if (p->mode != kServer || p->origin.raw != nonce) {
      return Rejected{kj::str("not an answer to this query"), true};
    }
    if (p->version < 3 || p->version > kVersion) {
      return refuse(kj::str("unsupported version ", unsigned(p->version)));
    }
    if (p->stratum == 0) return kiss(p->referenceId);
    KJ_IF_MAYBE (error, complaint(*p)) return refuse(kj::mv(*error));

    auto received = p->receive.date(), transmitted = p->transmit.date();
    Sample s;
    s.offset = halfOfSum(received, transmitted, sent, elapsed);
    s.delay = elapsed - (transmitted - received);
    // Two clocks do not run alike: a little less than nothing is possible.
    if (s.delay < -1 * kj::MILLISECONDS) {
      return refuse(kj::str("the server claims more processing time than the round trip took"));
    }
    s.delay = kj::max(s.delay, 0 * kj::NANOSECONDS);
    s.rootDistance = p->rootDelay / 2 + p->rootDispersion;
    s.stratum = p->stratum;
    s.leap = p->leap;
    if (s.error() > kMaxError) {
      return refuse(kj::str("its error may be up to ", s.error() / kj::MILLISECONDS, " ms"));
    }
    return s;
  }
  return Rejected{kj::str("the answer has ", reply.size(), " bytes, which is not the size of one"),
                  true};
}

kj::Maybe<kj::Array<kj::byte>> answer(kj::ArrayPtr<const kj::byte> query, kj::Date received,
                                      kj::Date sending, const ServerClock& clock) {
  KJ_IF_MAYBE (q, decode(query)) {
    if (q->mode != kClient || q->version < 1 || q->version > kVersion) return nullptr;
    Packet p;
    p.version = q->version;
    p.mode = kServer;
    p.stratum = clock.stratum;
    p.poll = q->poll;
    p.precision = -20;  // a microsecond
    p.rootDispersion = clock.rootDispersion;
    p.referenceId = clock.referenceId;
    p.reference = Timestamp::of(received);
    p.origin = q->transmit;
    p.receive = Timestamp::of(received);
    p.transmit = Timestamp::of(sending);
    return encode(p);
  }
  return nullptr;
}

kj::String showOffset(kj::Duration offset) {
  auto ns = offset / kj::NANOSECONDS;
  auto size = ns < 0 ? -double(ns) : double(ns);
  auto sign = ns < 0 ? "-" : "+";
  char text[48];
  if (size >= 1e9) {
    snprintf(text, sizeof text, "%s%.3fs", sign, size / 1e9);
  } else if (size >= 1e6) {
    snprintf(text, sizeof text, "%s%.3fms", sign, size / 1e6);
  } else if (ns != 0) {
    snprintf(text, sizeof text, "%s%.0fus", sign, size / 1e3);
  } else {
    return kj::str("0");
  }
  return kj::str(text);
}

}  // namespace talos::ntp
