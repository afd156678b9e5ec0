// Serves the Containers capability: containers, their logs and their images, for one client.
// containerd answers each call; no state is kept.
#pragma once

#include <kj/async-unix.h>

#include "machined/process1/client-call-limits.h"
#include "machined/process1/read-pool.h"
#include "machined/services/containers/containerd-connection.h"
#include "rpc/containers.capnp.h"

namespace talos::machined {

struct ContainersParts {
  ReadPool& pool;
  kj::UnixEventPort& port;
  kj::Timer& timer;
  // Ends the process of a service of the node, which starts again; throws NotFound for another ID.
  kj::Function<kj::Promise<void>(kj::StringPtr id)> endService;
};
rpc::Containers::Client serveContainers(Containerd& containerd, ContainersParts parts,
                                        kj::Own<ClientCalls> calls);

}  // namespace talos::machined
