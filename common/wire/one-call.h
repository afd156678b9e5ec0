// Sees one call of a membrane end: stands in the place of the capability for this call alone.
//
// Only calls that come by a connection are seen: those of this process itself do not pass. Nothing
// is copied, so a stream keeps its flow control, and a caller can use what the call will return.
#pragma once

#include <capnp/capability.h>

namespace talos {

// Lives until the call has ended. One that is dropped ends with neither method called.
class OneCall {
 public:
  virtual ~OneCall() noexcept(false) = default;
  virtual void answered() {}
  virtual void failed(const kj::Exception&) {}
};

capnp::Capability::Client forOneCall(capnp::Capability::Client target, kj::Own<OneCall> call);

}  // namespace talos
