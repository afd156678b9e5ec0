// A file of this machine that a node reads, at its pace.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/io.h>
#include <kj/timer.h>

#include "rpc/stream.capnp.h"

namespace talos::talosctl {

class SentFile {
 public:
  // Throws naming the file.
  explicit SentFile(kj::StringPtr path);
  KJ_DISALLOW_COPY_AND_MOVE(SentFile);

  uint64_t size() const { return bytes; }
  // Bytes that it had when it was opened. FailedPrecondition: it was truncated.
  kj::Array<kj::byte> read(uint64_t at, size_t size) const;
  // Of all of it, read once for that. The loop goes on meanwhile.
  kj::Promise<kj::Array<kj::byte>> sha256(kj::Timer& timer) const;
  // `served` hears how far it was read. This object has to outlive the capability.
  rpc::ByteSource::Client source(kj::Function<void(uint64_t done, uint64_t size)> served) const;

 private:
  kj::String path;
  kj::AutoCloseFd fd;
  uint64_t bytes = 0;
};

}  // namespace talos::talosctl
