// The health checks of the daemons (daemon-table.h): each rejects with the error.
#pragma once

#include "machined/brain/daemon-table.h"

namespace talos::machined {

kj::Promise<void> networkdIsReady(DaemonDependencies& deps);
kj::Promise<void> apidIsReady(DaemonDependencies& deps);
kj::Promise<void> trustdIsReady(DaemonDependencies& deps);
kj::Promise<void> registrydIsReady(DaemonDependencies& deps);
kj::Promise<void> etcdSupervisorIsReady(DaemonDependencies& deps);
kj::Promise<void> etcdIsHealthy(DaemonDependencies& deps);
kj::Promise<void> kubeletIsHealthy(DaemonDependencies& deps);
kj::Promise<void> containerdServes(DaemonDependencies& deps);
kj::Promise<void> login1Listens(DaemonDependencies& deps);

}  // namespace talos::machined
