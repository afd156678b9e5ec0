// Records of what clients did to this node, on their way to the log `audit`, which machined keeps.
//
// A record is sent when its call has ended, and the call is answered when machined has the record.
// While machined is not reachable the record is sent again, for `patience`; then the whole record
// is written to apid's own log. Of the denied calls of one client the first `refusals` in a window
// are recorded one by one, the rest as a number when the window ends: nobody can flood the log with
// calls that are denied. Records under way are bounded; more of them go to apid's own log at once.
//
// Nothing survives a restart of apid: the calls under way fail with it.
#pragma once

#include <kj/map.h>
#include <kj/timer.h>

#include "common/wire/audit.h"
#include "rpc/local.capnp.h"

namespace talos::apid {

// Who makes a call.
struct Caller {
  kj::String name;     // in its certificate; empty: it has none
  kj::String address;  // where it is
  kj::String via;      // the machine that forwarded the call; empty: nobody
  Caller clone() const { return {kj::str(name), kj::str(address), kj::str(via)}; }
};

class AuditLog final : private kj::TaskSet::ErrorHandler {
 public:
  struct Limits {
    kj::Duration patience = 5 * kj::SECONDS;
    kj::Duration window = 60 * kj::SECONDS;
    unsigned refusals = 30;   // of one client in a window
    unsigned names = 256;     // clients that are told apart in a window
    unsigned underWay = 256;  // records
  };
  AuditLog(kj::Timer& timer, rpc::Machined::Client machined, Limits limits);
  AuditLog(kj::Timer& timer, rpc::Machined::Client machined);
  KJ_DISALLOW_COPY_AND_MOVE(AuditLog);

  // Of the calls that this caller makes with these roles. The log must outlive the trail.
  kj::Own<AuditTrail> trail(Caller caller, kj::ArrayPtr<const kj::String> roles);

 private:
  class Trail;
  struct Record;
  struct Refusals {
    unsigned told = 0, more = 0;
  };
  kj::Timer& timer;
  rpc::Machined::Client machined;
  Limits limits;
  unsigned underWay = 0;
  kj::HashMap<kj::String, Refusals> refused;  // by name, in this window
  kj::Promise<void> windowEnd = kj::READY_NOW;
  kj::TaskSet tasks{*this};

  bool fold(kj::StringPtr name);
  void endWindow();
  kj::Promise<void> add(kj::Own<Record> record);
  kj::Promise<void> deliver(kj::Own<Record> record);
  kj::Promise<void> deliverOnce(const Record& record);
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::apid
