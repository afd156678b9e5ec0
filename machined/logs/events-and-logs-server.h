// Events and Logs as capabilities of the node, for one client: the number of streams that it may
// have open at once is bounded (client-call-limits.h).
#pragma once

#include "machined/logs/event-ring.h"
#include "machined/logs/log-store.h"
#include "machined/process1/client-call-limits.h"

namespace talos::machined {

// `previous` answers Events.previous(), and the same of Logs: earlier boots are not in the rings.
using PreviousEvents = kj::Function<kj::Promise<void>(rpc::Events::PreviousParams::Reader)>;
rpc::Events::Client serveEvents(Events& events, PreviousEvents previous,
                                kj::Own<ClientCalls> calls);

// `kernel` answers Logs.kernel(): the kernel's log is not one of the rings.
using KernelLog = kj::Function<kj::Promise<void>(rpc::Logs::KernelParams::Reader)>;
using PreviousLog = kj::Function<kj::Promise<void>(rpc::Logs::PreviousParams::Reader)>;
rpc::Logs::Client serveLogs(Logs& logs, KernelLog kernel, PreviousLog previous,
                            kj::Own<ClientCalls> calls);

}  // namespace talos::machined
