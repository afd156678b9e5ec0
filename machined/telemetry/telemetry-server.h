// Events and Logs as capabilities of the node.
#pragma once

#include "machined/telemetry/event-ring.h"
#include "machined/telemetry/log-store.h"

namespace talos::machined {

rpc::Events::Client serveEvents(Events& events);

// `kernel` answers Logs.kernel(): the kernel's log is not one of the rings.
using KernelLog = kj::Function<kj::Promise<void>(rpc::Logs::KernelParams::Reader)>;
rpc::Logs::Client serveLogs(Logs& logs, KernelLog kernel);

}  // namespace talos::machined
