#include "talosctl/client/sent-file.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/sha256.h"

namespace talos::talosctl {
namespace {

constexpr size_t kAtOnce = 64u << 10;  // limit of one read in rpc/stream.capnp

// Reads bytes of a file that is known to be long enough.
void readAll(int fd, uint64_t offset, kj::ArrayPtr<kj::byte> bytes, kj::StringPtr path) {
  for (size_t done = 0; done < bytes.size();) {
    auto rest = bytes.slice(done, bytes.size());
    ssize_t n = pread(fd, rest.begin(), rest.size(), static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      fail(ErrorKind::kFailedPrecondition, kj::str("cannot read ", path, ": ", strerror(errno)));
    }
    if (n == 0)
      fail(ErrorKind::kFailedPrecondition, kj::str(path, " was truncated while being read"));
    done += static_cast<size_t>(n);
  }
}

class FileSource final : public rpc::ByteSource::Server {
 public:
  FileSource(int fd, kj::StringPtr path, uint64_t size,
             kj::Function<void(uint64_t, uint64_t)> served)
      : fd(fd), path(path), size(size), served(kj::mv(served)) {}

  kj::Promise<void> read(ReadContext context) override {
    auto params = context.getParams();
    auto begin = kj::min(params.getOffset(), size);
    auto wanted = kj::min(kj::min(size_t{params.getSize()}, kAtOnce), size - begin);
    auto bytes = kj::heapArray<kj::byte>(wanted);
    readAll(fd, begin, bytes, path);
    context.getResults().setBytes(bytes);
    if (begin + wanted > farthest) {
      farthest = begin + wanted;
      served(farthest, size);
    }
    return kj::READY_NOW;
  }

 private:
  int fd;
  kj::StringPtr path;
  uint64_t size, farthest = 0;
  kj::Function<void(uint64_t, uint64_t)> served;
};

}  // namespace

SentFile::SentFile(kj::StringPtr name) : path(kj::str(name)) {
  // Does not wait for the other end if the path is a FIFO.
  fd = kj::AutoCloseFd(open(path.cStr(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat info = {};
  if (fd.get() < 0 || fstat(fd, &info) != 0) {
    fail(ErrorKind::kNotFound, kj::str("cannot read ", path, ": ", strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) fail(ErrorKind::kInvalidArgument, kj::str(path, " is not a file"));
  bytes = static_cast<uint64_t>(info.st_size);
}

kj::Array<kj::byte> SentFile::read(uint64_t at, size_t size) const {
  auto piece = kj::heapArray<kj::byte>(size);
  readAll(fd, at, piece, path);
  return piece;
}

kj::Promise<kj::Array<kj::byte>> SentFile::sha256(kj::Timer& timer) const {
  Sha256 hash;
  auto block = kj::heapArray<kj::byte>(1u << 20);
  for (uint64_t at = 0; at < bytes;) {
    auto part = block.slice(0, kj::min(bytes - at, block.size()));
    readAll(fd, at, part, path);
    hash.add(part);
    at += part.size();
    // Lets the event loop poll, so that an interrupt is handled.
    if (at < bytes) co_await timer.afterDelay(0 * kj::SECONDS);
  }
  co_return hash.finish();
}

rpc::ByteSource::Client SentFile::source(kj::Function<void(uint64_t, uint64_t)> served) const {
  return kj::heap<FileSource>(fd, path, bytes, kj::mv(served));
}

}  // namespace talos::talosctl
