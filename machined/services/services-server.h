// Serves the Services capability: the API's view of services, and its requests to them.
#pragma once

#include "machined/services/supervisor.h"
#include "rpc/machine.capnp.h"

namespace talos::machined {

// The stored crash reports. Both methods reject with NotFound, and with Unavailable while the
// reports cannot be reached.
class CrashArchive {
 public:
  // Returns the core of this report, compressed with zstd.
  virtual kj::Promise<kj::Array<kj::byte>> core(kj::StringPtr report) = 0;
  virtual kj::Promise<void> remove(kj::StringPtr report) = 0;

 protected:
  ~CrashArchive() = default;
};

// Both must outlive all clients; without `crashes` there are no crash reports. A start or restart
// is answered before the service is up: its events show the rest.
rpc::Services::Client serveServices(Supervisor& supervisor,
                                    kj::Maybe<CrashArchive&> crashes = nullptr);

}  // namespace talos::machined
