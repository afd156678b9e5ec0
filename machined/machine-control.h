// What the rest of the brain lets its API do with the machine as a whole.
#pragma once

#include <kj/string.h>

#include "rpc/machine.capnp.h"

namespace talos::machined {

class MachineControl {
 public:
  virtual ~MachineControl() noexcept(false) = default;

  virtual void fillStatus(rpc::Status::Builder out) const = 0;
  // "metal", "container" …: rpc Version.platform and .mode. In container mode reboot and shutdown
  // are refused by the API (FailedPrecondition naming the mode).
  virtual kj::StringPtr platform() const = 0;
  virtual kj::StringPtr mode() const = 0;

  // Begin the sequence, pre-empting a running one, and return at once; the answer to the caller
  // goes out before the machine goes down (the sequence's first phase stops services; connections
  // live until then).
  virtual void reboot() = 0;
  virtual void shutdown() = 0;
};

// Where a service's processes are accounted for, below /sys/fs/cgroup. The brain shares one with
// process 1.
inline kj::String serviceCgroup(kj::StringPtr id) {
  return id == "machined" ? kj::str("init") : kj::str("system/", id);
}

}  // namespace talos::machined
