// The service `trustd`: on machines that have something to sign with (RootSecrets/os), from the
// moment that they have it. Elsewhere there is no such service and nothing listens on its port.
//
// Its listening socket is made once and held by process 1 as "listen/trustd"; a new brain takes it
// up and adopts the service. It stays until the machine goes down: neither type nor authority of a
// machine changes without that, and without secrets trustd refuses everybody by itself.
#pragma once

#include <kj/async-io.h>

#include "machined/resources/store.h"
#include "machined/services/supervisor.h"

namespace talos::machined {

class TrustdService {
 public:
  struct World {
    Store& store;
    Supervisor& supervisor;
    kj::LowLevelAsyncIoProvider& lowLevel;
    kj::Function<kj::Promise<kj::AutoCloseFd>()> listen;  // the held socket, or a new one
  };
  explicit TrustdService(World world) : world(kj::mv(world)) {}
  KJ_DISALLOW_COPY_AND_MOVE(TrustdService);

  // Looks at the store now, and from then on at each change. Resolves when what is there already is
  // loaded.
  kj::Promise<void> follow();

 private:
  World world;
  kj::Own<void> secretsChanged;
  kj::AutoCloseFd listening;
  bool wanted = false;
  kj::Promise<void> loading = nullptr;

  bool look();
  kj::Promise<void> load();
};

}  // namespace talos::machined
