// Events and Logs as capabilities of the node.
#pragma once

#include "machined/telemetry/events.h"
#include "machined/telemetry/logs.h"

namespace talos::machined {

rpc::Events::Client serveEvents(Events& events);

// `kernel` answers Logs.kernel(): the kernel's log is not one of the rings.
using KernelLog = kj::Function<kj::Promise<void>(rpc::Logs::KernelParams::Reader)>;
rpc::Logs::Client serveLogs(Logs& logs, KernelLog kernel);

}  // namespace talos::machined
