// Observes the end of one call of a membrane: takes the place of the capability for this call
// alone.
//
// Only calls that arrive over a connection are observed: calls within this process do not pass
// here. Nothing is copied, so a stream keeps its flow control, and a caller can pipeline calls on
// the result.
#pragma once

#include <capnp/capability.h>

namespace talos {

// Lives until the call has ended. If the call is dropped, neither method is called.
class OneCall {
 public:
  virtual ~OneCall() noexcept(false) = default;
  virtual void answered() {}
  virtual void failed(const kj::Exception&) {}
};

capnp::Capability::Client forOneCall(capnp::Capability::Client target, kj::Own<OneCall> call);

}  // namespace talos
