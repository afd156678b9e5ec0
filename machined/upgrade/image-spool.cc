#include "machined/upgrade/image-spool.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "machined/install/new-file.h"

namespace talos::machined {
namespace {

constexpr size_t kDigestPiece = 1u << 20;
constexpr kj::StringPtr kName = "the image, on EPHEMERAL"_kj;

[[noreturn]] void noRoom(int fd, uint64_t needed) {
  struct statvfs fs;
  uint64_t left = fstatvfs(fd, &fs) == 0 ? uint64_t{fs.f_bavail} * fs.f_frsize : 0;
  fail(ErrorKind::kFailedPrecondition,
       kj::str("EPHEMERAL (/var) has no room for the image: it needs ", (needed >> 20) + 1,
               " MiB, and there are ", left >> 20, " MiB left"));
}

void writeAll(int fd, kj::ArrayPtr<const kj::byte> bytes, uint64_t offset) {
  while (bytes.size() > 0) {
    ssize_t n = pwrite(fd, bytes.begin(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == ENOSPC) noRoom(fd, bytes.size());
    if (n < 0) KJ_FAIL_SYSCALL("write", errno, kName);
    bytes = bytes.slice(static_cast<size_t>(n), bytes.size());
    offset += static_cast<uint64_t>(n);
  }
}

// In place, so that a gigabyte takes no memory of ours: a signature by Ed25519 needs all of it at
// once.
class Mapped {
 public:
  Mapped(int fd, size_t size) : size(size) {
    memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) KJ_FAIL_SYSCALL("mmap", errno);
  }
  ~Mapped() { munmap(memory, size); }
  KJ_DISALLOW_COPY_AND_MOVE(Mapped);
  kj::ArrayPtr<const kj::byte> bytes() const {
    return kj::arrayPtr(static_cast<const kj::byte*>(memory), size);
  }

 private:
  void* memory;
  size_t size;
};

}  // namespace

kj::Promise<kj::Own<ImageSpool>> ImageSpool::make(UvLoop& uv, kj::StringPtr folder) {
  auto file = kj::atomicRefcounted<File>();
  co_await uv.blocking([file = kj::atomicAddRef(*file), folder = kj::str(folder)]() mutable {
    int raw;
    KJ_SYSCALL(raw = open(folder.cStr(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), folder);
    file->fd = kj::AutoCloseFd(raw);
  });
  co_return kj::heap<ImageSpool>(uv, kj::mv(file));
}

kj::Promise<void> ImageSpool::reserve(uint64_t bytes) {
  return uv.blocking([file = kj::atomicAddRef(*file), bytes]() mutable {
    if (fallocate(file->fd, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) == 0) return;
    if (errno == ENOSPC) noRoom(file->fd, bytes);
    if (errno != EOPNOTSUPP) KJ_FAIL_SYSCALL("fallocate", errno);
  });
}

kj::Promise<void> ImageSpool::add(kj::Array<kj::byte> bytes) {
  auto size = bytes.size();
  co_await uv.blocking([file = kj::atomicAddRef(*file), bytes = kj::mv(bytes),
                        at = filled]() mutable { writeAll(file->fd, bytes, at); });
  filled += size;
}

kj::Promise<kj::String> ImageSpool::digest() {
  return uv.blocking([file = kj::atomicAddRef(*file), size = filled]() mutable {
    install::Digest digest;
    auto piece = kj::heapArray<kj::byte>(kDigestPiece);
    for (uint64_t at = 0; at < size;) {
      auto n = readAt(file->fd, at, piece.slice(0, kj::min(size - at, piece.size())), kName);
      KJ_REQUIRE(n > 0, "the image on EPHEMERAL has become shorter");
      digest.add(piece.slice(0, n));
      at += n;
    }
    return digest.hex();
  });
}

kj::Promise<bool> ImageSpool::hasSignature(kj::Own<pki::VerifyKey> key,
                                           kj::Array<kj::byte> signature) {
  return uv.blocking([file = kj::atomicAddRef(*file), size = filled, key = kj::mv(key),
                      signature = kj::mv(signature)]() mutable {
    return key->verifies(Mapped(file->fd, size).bytes(), signature);
  });
}

kj::Promise<kj::Array<const kj::byte>> ImageSpool::read(uint64_t offset, size_t size) {
  return uv.blocking([file = kj::atomicAddRef(*file), offset, size, filled = filled]() mutable {
    auto begin = kj::min(offset, filled);
    auto bytes = kj::heapArray<kj::byte>(kj::min(size, filled - begin));
    auto n = readAt(file->fd, begin, bytes, kName);
    return kj::heapArray<const kj::byte>(bytes.begin(), n);
  });
}

}  // namespace talos::machined
