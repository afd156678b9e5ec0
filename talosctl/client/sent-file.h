// A file of this machine that a node reads at its own pace.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/io.h>
#include <kj/timer.h>

#include "rpc/stream.capnp.h"

namespace talos::talosctl {

class SentFile {
 public:
  // Opens the file; errors name it.
  explicit SentFile(kj::StringPtr path);
  KJ_DISALLOW_COPY_AND_MOVE(SentFile);

  uint64_t size() const { return bytes; }
  // Reads bytes that existed when the file was opened. FailedPrecondition if the file was
  // truncated.
  kj::Array<kj::byte> read(uint64_t at, size_t size) const;
  // Returns the digest of the whole file, which this function reads. The event loop continues
  // meanwhile.
  kj::Promise<kj::Array<kj::byte>> sha256(kj::Timer& timer) const;
  // `served` is called with the position up to which the node has read. This object must outlive
  // the capability.
  rpc::ByteSource::Client source(kj::Function<void(uint64_t done, uint64_t size)> served) const;

 private:
  kj::String path;
  kj::AutoCloseFd fd;
  uint64_t bytes = 0;
};

}  // namespace talos::talosctl
