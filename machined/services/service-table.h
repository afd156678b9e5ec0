// The services of a node: program, uid, rights and health check of each (spec boot-and-services.md
// §7.3-7.4).
#pragma once

#include <kj/async-io.h>

#include "machined/services/supervisor.h"
#include "rpc/local.capnp.h"

namespace talos::machined {

// Where a service's processes are accounted for, below /sys/fs/cgroup. The brain shares one with
// process 1.
kj::String serviceCgroup(kj::StringPtr id);

// The listening socket is the caller's (held by process 1) and outlives the service.
ServiceDefinition networkdService(int listening, rpc::Networkd::Client networkd);
// `problem`: what keeps it from being healthy although it runs.
ServiceDefinition apidService(int listening, kj::LowLevelAsyncIoProvider& lowLevel,
                              kj::Function<kj::Maybe<kj::String>()> problem);
ServiceDefinition trustdService(int listening, kj::LowLevelAsyncIoProvider& lowLevel);

// Connects, sends nothing and waits until the server closes: it does that only if it accepts
// connections and looks at them. A socket that process 1 holds takes connections even when nobody
// serves it.
kj::Promise<void> serverTakesConnections(kj::LowLevelAsyncIoProvider& lowLevel, uint16_t port);

}  // namespace talos::machined
