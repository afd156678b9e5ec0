// The Files capability: what is in the node's file tree, read-only.
//
// Every method is a loop of two steps: the pool for reads prepares a bounded piece (some names, 64
// KiB), the sink takes it. So the loop is never held up by a disk, a slow reader makes the walk
// slow, and memory is one piece and what the sink's flow-control window lets out. A dropped call
// ends after its current piece. A piece that a dead mount keeps ends the call (DeadlineExceeded).
// How many calls a client may have is bounded (client-call-limits.h), and so are the lists that it
// gives.
#pragma once

#include <kj/timer.h>

#include "machined/process1/client-call-limits.h"
#include "machined/process1/read-pool.h"
#include "rpc/files.capnp.h"

namespace talos::machined {

constexpr unsigned kMostUsagePaths = 256;  // of one call; a shell's pattern rarely gives more

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
