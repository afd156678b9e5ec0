// The console, as records of a kernel log, of a node whose kernel log belongs to another machine: a
// node in a container writes to descriptor 1 what others write to the kernel's log, and the ring
// `machined` has the same lines. Process 1's lines are on the console only.
#pragma once

#include "machined/logs/log-store.h"

namespace talos::machined {

// Converts "2021/03/01 12:00:05 text" of the ring to "user:    info:
// [2021-03-01T12:00:05.000000000Z]: [talos] text"; a line without a time, from a crash, stays
// without one. Without newlines.
kj::String consoleLogRecord(kj::ArrayPtr<const char> line);

// Serves Logs.kernel() of such a node; positions are those of the ring.
kj::Promise<void> serveConsoleLog(Logs& logs, rpc::Logs::KernelParams::Reader params);

}  // namespace talos::machined
