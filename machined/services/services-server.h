// The Services capability: what the API may see and do with services.
#pragma once

#include "machined/services/supervisor.h"
#include "rpc/machine.capnp.h"

namespace talos::machined {

// The crash reports that are kept. Both reject with NotFound, and with Unavailable while they
// cannot be reached.
class CrashArchive {
 public:
  // The core of this report, compressed with zstd.
  virtual kj::Promise<kj::Array<kj::byte>> core(kj::StringPtr report) = 0;
  virtual kj::Promise<void> remove(kj::StringPtr report) = 0;

 protected:
  ~CrashArchive() = default;
};

// Both have to outlive all clients; without `crashes` there are none. An answer to start and
// restart is given before the service is up: its events show the rest.
rpc::Services::Client serveServices(Supervisor& supervisor,
                                    kj::Maybe<CrashArchive&> crashes = nullptr);

}  // namespace talos::machined
