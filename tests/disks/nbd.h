// The server's side of NBD, the protocol by which QEMU reads and writes a disk elsewhere: newstyle
// negotiation, fixed, of an export by its name, then requests, answered in their order.
// https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md
//
// The client is QEMU, which a guest may have taken over, so no request costs more than kMostAtOnce
// bytes or reaches beyond the export; a violation of the protocol ends the connection.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>

namespace talos::disk {

// The limit of one request, which is announced to the client. QEMU's own limit is the same.
constexpr uint32_t kMostAtOnce = 32 << 20;

// A disk that is served. Ranges are within it and consist of sectors. Operations that fail throw:
// the client gets "no space" for kResourceExhausted, else "input/output error". An operation that
// does not resolve is not answered, and later requests of the client are not read.
class Export {
 public:
  virtual ~Export() noexcept(false) = default;
  virtual uint64_t size() const = 0;
  virtual kj::Promise<void> read(uint64_t offset, kj::ArrayPtr<kj::byte> into) = 0;
  virtual kj::Promise<void> write(uint64_t offset, kj::ArrayPtr<const kj::byte> bytes,
                                  bool durable) = 0;
  virtual kj::Promise<void> zero(uint64_t offset, uint64_t length, bool durable) = 0;
  virtual kj::Promise<void> flush() = 0;
};

// Finds an export by its name. Called once for each name that the client requests, until one
// exists.
using FindExport = kj::Function<kj::Maybe<Export&>(kj::StringPtr name)>;

// Resolves when the client disconnects. Rejects when it violates the protocol.
kj::Promise<void> serveNbd(kj::AsyncIoStream& client, FindExport find);

}  // namespace talos::disk
