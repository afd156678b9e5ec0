// Serves the Files capability: the node's file tree, read-only.
//
// Every method is a loop of two steps: the pool for reads prepares a bounded piece (some names, 64
// KiB), and the sink takes the piece. So the loop never waits for a disk, a slow reader slows the
// walk down, and memory is one piece plus the contents of the sink's flow-control window. A dropped
// call ends after its current piece. A piece that a dead mount blocks ends the call
// (DeadlineExceeded). The number of calls that a client may have is bounded (client-call-limits.h),
// and so are the lists in its requests.
#pragma once

#include <kj/timer.h>

#include "machined/process1/client-call-limits.h"
#include "machined/process1/read-pool.h"
#include "rpc/files.capnp.h"

namespace talos::machined {

constexpr unsigned kMostUsagePaths = 256;  // paths of one call; a shell's pattern rarely gives more

class FilesServer final : public rpc::Files::Server {
 public:
  FilesServer(ReadPool& pool, kj::Timer& timer, kj::Own<ClientCalls> calls)
      : pool(pool), timer(timer), calls(kj::mv(calls)) {}

  kj::Promise<void> list(ListContext context) override;
  kj::Promise<void> diskUsage(DiskUsageContext context) override;
  kj::Promise<void> read(ReadContext context) override;
  kj::Promise<void> copy(CopyContext context) override;

 private:
  ReadPool& pool;
  kj::Timer& timer;
  kj::Own<ClientCalls> calls;
};

}  // namespace talos::machined
