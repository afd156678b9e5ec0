// The network time protocol on the wire: packets, timestamps, the judgement of replies (RFC 5905
// §6-8 and its figure 24, RFC 4330 §3-5, the advice of RFC 8633 §3). Pure: no socket, no clock, no
// randomness.
//
// A timestamp of 64 bits wraps every 136 years. It is read as the time between 1968 and 2104, as
// RFC 4330 §3 says, whatever the local clock shows: the local clock is the one that may be wrong.
//
// A query carries a random number in place of the client's clock; the number does not reveal the
// clock and cannot be guessed. A reply that does not repeat the number is not from the server that
// we queried, or is late, or is a duplicate.
#pragma once

#include <kj/array.h>
#include <kj/one-of.h>
#include <kj/string.h>
#include <kj/time.h>
#include <stdint.h>

namespace talos::ntp {

constexpr uint16_t kPort = 123;
constexpr size_t kPacketSize = 48;  // without extensions and authenticators, which are not used

// A time in seconds since 1900 modulo 2^32, and their fraction in 2^-32 s.
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
// Decodes a packet; skips extensions and authenticators after the header. Returns nullptr if it is
// too short.
kj::Maybe<Packet> decode(kj::ArrayPtr<const kj::byte> bytes);

// Returns a client's query, which reveals nothing about the client (RFC 8633 §3.7).
kj::Array<kj::byte> makeQuery(uint64_t nonce);

// Measurement from one reply. The true offset is within offset ± (delay/2 + rootDistance).
struct Sample {
  kj::Duration offset = 0 * kj::NANOSECONDS;  // the server's clock minus ours
  kj::Duration delay = 0 * kj::NANOSECONDS;   // round trip without the server's own time; >= 0
  kj::Duration rootDistance = 0 * kj::NANOSECONDS;  // the server's own possible error
  uint8_t stratum = 0, leap = 0;

  kj::Duration error() const { return delay / 2 + rootDistance; }
};

// A server's request to stop or slow down (RFC 5905 §7.4).
struct KissOfDeath {
  enum class Action { kStop, kSlowDown, kNone } action;  // DENY and RSTR; RATE; others
  kj::String code;                                       // printable
};

// A reply that gives no valid time.
struct Rejected {
  kj::String error;
  bool forged = false;  // not an answer to this query: the true answer may still come
};

using Verdict = kj::OneOf<Sample, KissOfDeath, Rejected>;

// Most that half of the round trip and the server's own error together may be for a usable time.
// Generous: Windows servers say several seconds.
constexpr kj::Duration kMaxError = 5 * kj::SECONDS;
// Oldest time that a correct clock can show.
constexpr kj::Date kOldest = kj::UNIX_EPOCH + 1609459200 * kj::SECONDS;  // 2021

// Judges a datagram from the server's address, for the query with this nonce that left at `sent` by
// our clock; it came `elapsed` later.
Verdict judge(kj::ArrayPtr<const kj::byte> reply, uint64_t nonce, kj::Date sent,
              kj::Duration elapsed);

// The server's side: answers a query, with at most the query's length; nullptr for anything but a
// query.
struct ServerClock {
  uint8_t stratum = 1;
  uint32_t referenceId = 0;
  kj::Duration rootDispersion = 0 * kj::NANOSECONDS;
};
kj::Maybe<kj::Array<kj::byte>> answer(kj::ArrayPtr<const kj::byte> query, kj::Date received,
                                      kj::Date sending, const ServerClock& clock);

// Returns "+1.250ms", "-3.2s", "+12us", "0", for users and for the resource TimeStatus.
kj::String showOffset(kj::Duration offset);

}  // namespace talos::ntp
