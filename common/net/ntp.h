// The network time protocol on the wire: packets, timestamps, what a reply is worth (RFC 5905
// §6-8 and its figure 24, RFC 4330 §3-5, the advice of RFC 8633 §3). Pure: no socket, no clock, no
// randomness.
//
// A timestamp of 64 bits comes round every 136 years. It is read as the one that lies between 1968
// and 2104, as RFC 4330 §3 says, whatever the local clock shows: that is the clock which is wrong.
//
// A query carries a random number in place of the client's clock (which a client reveals to nobody,
// and which nobody can guess). A reply that does not repeat it is not from whom we asked, or is
// late, or comes twice.
#pragma once

#include <kj/array.h>
#include <kj/one-of.h>
#include <kj/string.h>
#include <kj/time.h>
#include <stdint.h>

namespace talos::ntp {

constexpr uint16_t kPort = 123;
constexpr size_t kPacketSize = 48;  // without extensions and authenticators, which are not used

// Seconds since 1900 modulo 2^32, and their fraction in 2^-32 s.
struct Timestamp {
  uint64_t raw = 0;  // 0: "unknown" on the wire

  static Timestamp of(kj::Date date);
  kj::Date date() const;  // in whole nanoseconds: of(d).date() == d
  bool operator==(const Timestamp&) const = default;
};

enum Mode : uint8_t { kClient = 3, kServer = 4 };
constexpr uint8_t kVersion = 4;
constexpr uint8_t kUnsynchronised = 3;  // leap indicator: the clock was never set

struct Packet {
  uint8_t leap = 0;
  uint8_t version = kVersion;
  uint8_t mode = 0;
  uint8_t stratum = 0;             // 0: kiss of death; 1: has a reference clock; 16: unsynchronised
  int8_t poll = 0, precision = 0;  // log2 of seconds
  kj::Duration rootDelay = 0 * kj::NANOSECONDS, rootDispersion = 0 * kj::NANOSECONDS;
  uint32_t referenceId = 0;
  Timestamp reference, origin, receive, transmit;
};

kj::Array<kj::byte> encode(const Packet& packet);
// Extensions and authenticators behind the header are skipped. None when it is too short.
kj::Maybe<Packet> decode(kj::ArrayPtr<const kj::byte> bytes);

// A client's query, which reveals nothing about the client (RFC 8633 §3.7).
kj::Array<kj::byte> makeQuery(uint64_t nonce);

// The measurement that one reply gives. The true offset is within offset ± (delay/2 +
// rootDistance).
struct Sample {
  kj::Duration offset =
      0 * kj::NANOSECONDS;                   // of the server's clock from ours: + when ours is slow
  kj::Duration delay = 0 * kj::NANOSECONDS;  // round trip without the server's own time; >= 0
  kj::Duration rootDistance = 0 * kj::NANOSECONDS;  // the server's own possible error
  uint8_t stratum = 0, leap = 0;

  kj::Duration error() const { return delay / 2 + rootDistance; }
};

// A server that asks to be left alone (RFC 5905 §7.4).
struct KissOfDeath {
  enum class Action { kStop, kSlowDown, kNone } action;  // DENY and RSTR; RATE; others
  kj::String code;                                       // printable
};

// A reply from which no time can be taken.
struct Rejected {
  kj::String error;
  bool forged = false;  // not an answer to this query: the true one may still come
};

using Verdict = kj::OneOf<Sample, KissOfDeath, Rejected>;

// Half of the round trip and the server's own error together are not more than this, or the time
// is worth nothing. Generous: Windows servers say several seconds.
constexpr kj::Duration kMaxError = 5 * kj::SECONDS;
// No clock that is right shows an earlier time.
constexpr kj::Date kOldest = kj::UNIX_EPOCH + 1609459200 * kj::SECONDS;  // 2021

// A datagram from the server's address, for the query with this nonce that left at `sent` by our
// clock; it came `elapsed` later.
Verdict judge(kj::ArrayPtr<const kj::byte> reply, uint64_t nonce, kj::Date sent,
              kj::Duration elapsed);

// A server's side: the answer to a query, never longer than it; none for anything but one.
struct ServerClock {
  uint8_t stratum = 1;
  uint32_t referenceId = 0;
  kj::Duration rootDispersion = 0 * kj::NANOSECONDS;
};
kj::Maybe<kj::Array<kj::byte>> answer(kj::ArrayPtr<const kj::byte> query, kj::Date received,
                                      kj::Date sending, const ServerClock& clock);

// "+1.250ms", "-3.2s", "+12us", "0": for people and for the resource TimeStatus.
kj::String showOffset(kj::Duration offset);

}  // namespace talos::ntp
