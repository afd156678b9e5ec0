// Audit records of the calls of $audit methods: their text and their outcome.
//
// Pure but for AuditTrail, which the owner of the log implements. A record is made when the call
// has ended: answered, failed, refused, or dropped by its caller. The answer waits until the trail
// has taken the record, so that the record of a call that shuts the node down is not lost.
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
    kj::String text;     // from describeCall()
    kj::String outcome;  // "ok", or kind and message of the failure
    bool refused;        // the caller lacks the role, so the call was not made
    kj::Duration duration;
  };
  // Must not reject. Dropping the promise does not stop the recording.
  virtual kj::Promise<void> record(Call call) = 0;
};

// `Services.restart(id: "kubelet")`. Fields with their default value are left out, $secret fields
// are ***, bytes (documents) are only counted, and the text has at most kLongestCall characters.
constexpr size_t kLongestCall = 1024;
kj::String describeCall(kj::StringPtr method, capnp::DynamicStruct::Reader params);

// Returns "ok", or "NotFound: there is no service …".
kj::String outcomeOf(const kj::Maybe<kj::Exception>& failure);

// Stands in for `target` for one call, and records it; with a `refusal` the call is not made.
// Results of an audited call do not pass through a membrane again: such a method returns no
// capabilities.
capnp::Capability::Client audited(capnp::Capability::Client target, kj::String method,
                                  capnp::StructSchema params, kj::Own<AuditTrail> trail,
                                  kj::Maybe<kj::Exception> refusal);

}  // namespace talos
