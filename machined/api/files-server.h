// The Files capability: what is in the node's file tree, read-only.
//
// Every method is a loop of two steps: the thread pool prepares a bounded piece (some names, 64
// KiB), the sink takes it. So the loop is never held up by a disk, a slow reader makes the walk
// slow, and memory is one piece and what the sink's flow-control window lets out. A dropped call
// ends after its current piece.
#pragma once

#include "machined/process1/uv-loop.h"
#include "rpc/files.capnp.h"

namespace talos::machined {

class FilesServer final : public rpc::Files::Server {
 public:
  explicit FilesServer(UvLoop& uv) : uv(uv) {}

  kj::Promise<void> list(ListContext context) override;
  kj::Promise<void> diskUsage(DiskUsageContext context) override;
  kj::Promise<void> read(ReadContext context) override;
  kj::Promise<void> copy(CopyContext context) override;

 private:
  UvLoop& uv;
};

}  // namespace talos::machined
