// The servers to query, made from the names in the config, and the facts about each. No I/O.
//
// With one name, up to four of its addresses are separate servers, so that one wrong server of a
// pool is outvoted. With several names each has one vote, however many addresses it has: the others
// are spares in case one does not answer. A server that refuses service (DENY, RSTR) is not queried
// again; a server that requests fewer queries (RATE) is paused, twice as long each time, from 2 to
// 17 minutes.
#pragma once

#include <kj/array.h>
#include <kj/map.h>
#include <kj/time.h>
#include <kj/timer.h>
#include <kj/vector.h>

#include "common/net/ntp.h"

namespace talos::machined {

struct TimeSource {
  kj::String name;                   // as in the config
  kj::Vector<kj::String> addresses;  // the first one is queried
  kj::Maybe<ntp::Sample> best;       // of this volley: the one with the least delay
  kj::Vector<kj::Duration> delays;   // the latest eight
  kj::String problem;                // why there is no sample, with the address
  unsigned misses = 0;               // in a row
  unsigned rateLimits = 0;
  kj::TimePoint pausedUntil = kj::origin<kj::TimePoint>();

  kj::String shown() const;  // "pool.ntp.org (192.0.2.1)"; "10.5.0.1"
  kj::Duration leastDelay() const;
};

class TimeSources {
 public:
  explicit TimeSources(kj::Array<kj::String> names);

  // Returns names whose addresses are not known, or do not answer any more.
  kj::Vector<kj::String> toResolve() const;
  // Updates a name's addresses. A server that answers, and whose address is still among them, stays
  // unchanged.
  void resolved(kj::StringPtr name, kj::ArrayPtr<const kj::String> addresses);
  void unresolved(kj::StringPtr name, kj::String why);

  // Returns the servers that may be queried now. Valid until resolved() is called.
  kj::Vector<TimeSource*> queryable(kj::TimePoint now);
  // Returns the time when the first server may be queried again, if no server may be queried now.
  kj::TimePoint firstQueryTime() const;
  // Handles the answer to a query. Returns true if the server's next address should be tried
  // immediately.
  bool handleAnswer(TimeSource& source, ntp::Verdict verdict, kj::TimePoint now);

  void forgetSamples();
  kj::ArrayPtr<kj::Own<TimeSource>> all() { return sources; }
  size_t size() const { return sources.size(); }
  // Returns the number of votes if all servers answered; names without an address count too.
  size_t votes() const;
  // Returns the problems of the servers, one after the other.
  kj::String problems() const;

 private:
  kj::Array<kj::String> names;
  kj::Vector<kj::Own<TimeSource>> sources;
  kj::TreeMap<kj::String, kj::String> unknown;  // name → why
  kj::TreeMap<kj::String, kj::String> refused;  // address → its refusal code
};

// Selects the time servers that agree: the largest group whose claims have a point in common, as in
// Marzullo's algorithm (RFC 5905 §11.2.1). Two correct servers outvote a wrong one. Pure.

// "The true offset is in offset ± error." Both are far from the ends of their range.
struct Claim {
  kj::Duration offset, error;
};

struct Agreement {
  kj::Vector<size_t> members;  // of the claims, in their order
  size_t best;                 // the member with the least error
};

// Returns nullptr unless the group is more than half of the claims and has at least `needed`
// members.
kj::Maybe<Agreement> agree(kj::ArrayPtr<const Claim> claims, size_t needed = 1);

}  // namespace talos::machined
