// Events and Logs as capabilities of the node, for one client: how many streams it may have open at
// once is bounded (client-calls.h).
#pragma once

#include "machined/process1/client-calls.h"
#include "machined/telemetry/event-ring.h"
#include "machined/telemetry/log-store.h"

namespace talos::machined {

rpc::Events::Client serveEvents(Events& events, kj::Own<ClientCalls> calls);

// `kernel` answers Logs.kernel(): the kernel's log is not one of the rings.
using KernelLog = kj::Function<kj::Promise<void>(rpc::Logs::KernelParams::Reader)>;
rpc::Logs::Client serveLogs(Logs& logs, KernelLog kernel, kj::Own<ClientCalls> calls);

}  // namespace talos::machined
