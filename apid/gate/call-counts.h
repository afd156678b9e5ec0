// Counts the calls of clients: by method, role and result, and how long each method takes. Calls
// that only return another interface are not counted: a client drops them as soon as it has made
// its next call. The counts are in the memory of this apid only; a restart begins at 0. Some calls
// also get a line in the log (call-log.h); with the log level debug, every call does.
//
// A client cannot make the counts grow: methods are those of the schema, and gRPC paths the
// existing ones; all others count as one.
#pragma once

#include <kj/map.h>

#include <map>
#include <string>

#include "apid/gate/call-log.h"
#include "common/tls/tls.h"
#include "common/wire/call-observer.h"
#include "common/wire/roles.h"

namespace talos::apid {

class CallCounts {
 public:
  // Bounds of the histograms in seconds; the last count is for longer calls.
  static constexpr double kBounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                       0.1,   0.25,   0.5,   1,    2.5,   10};
  static constexpr size_t kCounts = kj::size(kBounds) + 1;
  static constexpr kj::StringPtr kUnknown = "unknown"_kj;

  struct Method {
    uint64_t counts[kCounts] = {};  // number of calls by duration
    double seconds = 0;             // total duration
    // Number of calls by role and result.
    std::map<std::pair<kj::StringPtr, kj::StringPtr>, uint64_t> results;
    CallLog lines;

    void add(kj::StringPtr role, kj::StringPtr result, kj::Duration duration);
  };
  explicit CallCounts(const Rules& rules,
                      const kj::MonotonicClock& clock = kj::systemCoarseMonotonicClock())
      : rules(rules), clock(clock) {}
  KJ_DISALLOW_COPY_AND_MOVE(CallCounts);

  // Returns the observer for a connection of this peer. The counts must outlive it.
  kj::Own<CallObserver> observer(const Peer& peer);
  // Returns the counts by "Machine.version", or "/machine.MachineService/Version".
  const std::map<std::string, Method>& methods() const { return all; }

  // Returns the most powerful role of a peer: os:admin …, os:impersonator, none, or anonymous.
  static kj::StringPtr roleOf(const Peer& peer);

 private:
  class Observer;
  const Rules& rules;
  const kj::MonotonicClock& clock;
  std::map<std::string, Method> all;
  // Names of methods, by interface and ordinal; empty: not counted.
  kj::HashMap<uint64_t, kj::String> names;

  Method& methodOf(kj::StringPtr name);
  kj::StringPtr nameOf(uint64_t interfaceId, uint16_t methodId);
};

}  // namespace talos::apid
