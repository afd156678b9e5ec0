// The public record of one service: its state, its 64 newest events and its health.
//
// It is kept twice: in this class, and as an rpc::Service that process 1 holds ("service/<id>",
// machined/process1/value-in-memory-file.h), so the history survives a crash of the brain. The held
// record is replaced as a whole for each event. A record that cannot be read counts as missing: the
// process itself still runs.
#pragma once

#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

#include <deque>

#include "rpc/machine.capnp.h"

namespace talos::machined {

// Converts to Service.uptime. KJ's monotonic clock is the kernel's, so it continues over a restart
// of the brain.
uint64_t nanosecondsOf(kj::TimePoint uptime);

class ServiceRecord {
 public:
  static constexpr size_t kKept = 64;

  // `uptime` is by the clock that is never set, for the age of the event.
  void add(rpc::ServiceState state, kj::StringPtr message, kj::Date now, kj::TimePoint uptime);
  // Returns true if this is a change (which gets an event).
  bool setHealth(bool healthy, kj::StringPtr message, kj::Date now);
  void forgetHealth();

  rpc::ServiceState state() const { return newest; }
  bool healthy() const { return !unknown && good; }
  kj::StringPtr lastMessage() const {
    return events.empty() ? ""_kj : kj::StringPtr(events.back().message);
  }

  void fill(rpc::Service::Builder out) const;
  void fillHealth(rpc::Health::Builder out) const;
  // Restores the newest 64 events of the same ID.
  void restore(rpc::Service::Reader in);

 private:
  struct Event {
    kj::String message;
    rpc::ServiceState state;
    uint64_t time;    // ns since 1970
    uint64_t uptime;  // ns since the start of the node; 0 if not known
  };
  std::deque<Event> events;  // oldest first
  rpc::ServiceState newest = rpc::ServiceState::INITIALIZED;
  unsigned starts = 0;  // how often it became RUNNING
  bool unknown = true, good = false;
  kj::String healthMessage;
  uint64_t healthChange = 0;
};

}  // namespace talos::machined
