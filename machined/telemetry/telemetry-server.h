// Events and Logs as capabilities of the node.
#pragma once

#include "machined/telemetry/event-ring.h"
#include "machined/telemetry/log-store.h"

namespace talos::machined {

// `previous` answers Events.previous(), and that of Logs: earlier boots are not in the rings.
using PreviousEvents = kj::Function<kj::Promise<void>(rpc::Events::PreviousParams::Reader)>;
rpc::Events::Client serveEvents(Events& events, PreviousEvents previous);

// `kernel` answers Logs.kernel(): the kernel's log is not one of the rings.
using KernelLog = kj::Function<kj::Promise<void>(rpc::Logs::KernelParams::Reader)>;
using PreviousLog = kj::Function<kj::Promise<void>(rpc::Logs::PreviousParams::Reader)>;
rpc::Logs::Client serveLogs(Logs& logs, KernelLog kernel, PreviousLog previous);

}  // namespace talos::machined
