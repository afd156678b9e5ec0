// Sends the records of calls that change this node to machined, which keeps them in the log
// `audit`.
//
// A record is sent when its call has ended, and the call is answered when machined has the record.
// While machined is unreachable, the record is retried, for `timeout`; then the whole record is
// written to apid's log. In each window, the first `refusals` denied calls of a client are recorded
// one by one, the rest as a number when the window ends, so that denied calls cannot flood the log.
// The number of pending records is bounded; records beyond it go to apid's log at once.
//
// Nothing survives a restart of apid: the calls in progress fail with it.
#pragma once

#include <kj/map.h>
#include <kj/timer.h>

#include "common/wire/audit.h"
#include "rpc/local.capnp.h"

namespace talos::apid {

// The caller of a call.
struct Caller {
  kj::String name;  // from its certificate; empty: no certificate
  kj::String address;
  kj::String via;      // node that forwarded the call; empty: not forwarded
  kj::String request;  // id of the request that the call belongs to; empty: no id
  Caller clone() const { return {kj::str(name), kj::str(address), kj::str(via), kj::str(request)}; }
};

class AuditLog final : private kj::TaskSet::ErrorHandler {
 public:
  struct Limits {
    kj::Duration timeout = 5 * kj::SECONDS;
    kj::Duration window = 60 * kj::SECONDS;
    unsigned refusals = 30;  // per client and window
    unsigned names = 256;    // clients that are counted separately in a window
    unsigned pending = 256;  // pending records
  };
  AuditLog(kj::Timer& timer, rpc::Machined::Client machined, Limits limits);
  AuditLog(kj::Timer& timer, rpc::Machined::Client machined);
  KJ_DISALLOW_COPY_AND_MOVE(AuditLog);

  // Returns the trail of calls that this caller makes with these roles. The log must outlive it.
  kj::Own<AuditTrail> trail(Caller caller, kj::ArrayPtr<const kj::String> roles);

 private:
  class Trail;
  struct Record;
  struct Refusals {
    unsigned recorded = 0, more = 0;
  };
  kj::Timer& timer;
  rpc::Machined::Client machined;
  Limits limits;
  unsigned pending = 0;
  kj::HashMap<kj::String, Refusals> refused;  // by name, in this window
  kj::Promise<void> windowEnd = kj::READY_NOW;
  kj::TaskSet tasks{*this};

  bool countOnly(kj::StringPtr name);
  void endWindow();
  kj::Promise<void> add(kj::Own<Record> record);
  kj::Promise<void> deliver(kj::Own<Record> record);
  kj::Promise<void> deliverOnce(const Record& record);
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::apid
