// What calls that change something say of themselves, and how they are followed to their end.
//
// Pure but for the trail, which whoever owns the log brings. A record is made when the call has
// ended: answered, failed, refused, or dropped by its caller. The answer waits until the trail is
// done with the record, so that what a call says of a machine that then goes down is not lost.
#pragma once

#include <capnp/capability.h>
#include <capnp/dynamic.h>
#include <kj/string.h>
#include <kj/time.h>

namespace talos {

class AuditTrail {
 public:
  virtual ~AuditTrail() noexcept(false) = default;
  virtual kj::Own<AuditTrail> addRef() = 0;
  virtual kj::TimePoint now() = 0;

  struct Call {
    kj::String text;     // as describeCall() says it
    kj::String outcome;  // "ok", or kind and message of the failure
    bool refused;        // for want of a right: it was not made
    kj::Duration duration;
  };
  // Never rejects. Whoever drops the promise does not stop the recording.
  virtual kj::Promise<void> record(Call call) = 0;
};

// `Services.restart(id: "kubelet")`. What has its default value is left out, fields that are
// $secret are ***, of bytes (documents) there is only
// their number, and the whole has at most kLongestCall characters.
constexpr size_t kLongestCall = 1024;
kj::String describeCall(kj::StringPtr method, capnp::DynamicStruct::Reader params);

// "ok", or "NotFound: there is no service …".
kj::String outcomeOf(const kj::Maybe<kj::Exception>& failure);

// Takes the place of `target` for one call, and records it; with a `refusal` the call is not made.
// Neither results of an audited call nor what they hold go through a membrane again: such a method
// returns no capabilities.
capnp::Capability::Client audited(capnp::Capability::Client target, kj::String method,
                                  capnp::StructSchema params, kj::Own<AuditTrail> trail,
                                  kj::Maybe<kj::Exception> refusal);

}  // namespace talos
