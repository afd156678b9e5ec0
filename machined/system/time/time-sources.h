// The servers that are asked, made of the names in the config, and what is known of each. No I/O.
//
// With one name, up to four of its addresses are separate servers, so that one wrong server of a
// pool is outvoted. With several names each has one vote, however many addresses it has: the others
// are spares for when one does not answer. A server that refuses service (DENY, RSTR) is not asked
// again; one that asks for fewer queries (RATE) is paused, twice as long each time, from 2 to 17
// minutes.
#pragma once

#include <kj/map.h>
#include <kj/timer.h>
#include <kj/vector.h>

#include "common/net/ntp.h"

namespace talos::machined {

struct TimeSource {
  kj::String name;                   // as the config has it
  kj::Vector<kj::String> addresses;  // the first one is asked
  kj::Maybe<ntp::Sample> best;       // of this volley: that with the least delay
  kj::Vector<kj::Duration> delays;   // the newest eight
  kj::String problem;                // why there is no sample, and from which address
  unsigned misses = 0;               // in a row
  unsigned rebukes = 0;
  kj::TimePoint quietUntil = kj::origin<kj::TimePoint>();

  kj::String shown() const;  // "pool.ntp.org (192.0.2.1)"; "10.5.0.1"
  kj::Duration leastDelay() const;
};

class TimeSources {
 public:
  explicit TimeSources(kj::Array<kj::String> names);

  // Names whose addresses are not known, or do not answer any more.
  kj::Vector<kj::String> toResolve() const;
  // A server whose address is among them still, and that answers, stays as it is.
  void resolved(kj::StringPtr name, kj::ArrayPtr<const kj::String> addresses);
  void unresolved(kj::StringPtr name, kj::String why);

  // Those that may be asked now. Valid until resolved() is called.
  kj::Vector<TimeSource*> askable(kj::TimePoint now);
  // When the first may be asked again, if none may now.
  kj::TimePoint firstAskable() const;
  // The answer to a query. True when its next address is worth trying at once.
  bool handleAnswer(TimeSource& source, ntp::Verdict verdict, kj::TimePoint now);

  void forgetSamples();
  kj::ArrayPtr<kj::Own<TimeSource>> all() { return sources; }
  size_t size() const { return sources.size(); }
  // How many would have a say if all were well: names that stand for no address count too.
  size_t votes() const;
  // The problems of the servers, one after the other.
  kj::String problems() const;

 private:
  kj::Array<kj::String> names;
  kj::Vector<kj::Own<TimeSource>> sources;
  kj::TreeMap<kj::String, kj::String> unknown;  // name → why
  kj::TreeMap<kj::String, kj::String> refused;  // address → its code of refusal
};

}  // namespace talos::machined
