// The console of a node whose kernel log is another machine's, as records of a kernel log: a node
// in a container writes to descriptor 1 what others write to the kernel's log, and the ring
// `machined` has the same lines. Process 1's own lines are on the console alone.
#pragma once

#include "machined/logs/log-store.h"

namespace talos::machined {

// "2021/03/01 12:00:05 text" of the ring as "user:    info: [2021-03-01T12:00:05.000000000Z]:
// [talos] text"; a line without a time, of a crash, has none. Without newlines.
kj::String consoleLogRecord(kj::ArrayPtr<const char> line);

// Logs.kernel() of such a node; positions are those of the ring.
kj::Promise<void> serveConsoleLog(Logs& logs, rpc::Logs::KernelParams::Reader params);

}  // namespace talos::machined
