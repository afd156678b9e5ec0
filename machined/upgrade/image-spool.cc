#include "machined/upgrade/image-spool.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "machined/disk/installer/synced-file.h"

namespace talos::machined {
namespace {

constexpr size_t kPiece = 1u << 20;
constexpr kj::StringPtr kName = "the image, on EPHEMERAL"_kj;

[[noreturn]] void noRoom(int fd, uint64_t needed) {
  struct statvfs fs;
  uint64_t left = fstatvfs(fd, &fs) == 0 ? uint64_t{fs.f_bavail} * fs.f_frsize : 0;
  fail(ErrorKind::kResourceExhausted,
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

void openFile(ImageSpool::File& file) {
  if (file.fd != nullptr) return;
  int raw;
  KJ_SYSCALL(raw = open(file.folder.cStr(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), file.folder);
  file.fd = kj::AutoCloseFd(raw);
}

// Reads the first `size` bytes of the file, in pieces.
void readAll(int fd, uint64_t size, kj::ArrayPtr<kj::byte> room,
             kj::FunctionParam<void(kj::ArrayPtr<const kj::byte>)> take) {
  for (uint64_t at = 0; at < size;) {
    auto n = readAt(fd, at, room.slice(0, kj::min(size - at, room.size())), kName);
    KJ_REQUIRE(n > 0, "the image on EPHEMERAL was truncated while being read");
    take(room.slice(0, n));
    at += n;
  }
}

}  // namespace

kj::Promise<kj::Own<ImageSpool>> ImageSpool::make(UvLoop& uv, kj::StringPtr folder) {
  auto file = kj::atomicRefcounted<File>();
  file->folder = kj::str(folder);
  co_await uv.blocking([file = kj::atomicAddRef(*file)]() mutable { openFile(*file); });
  co_return kj::heap<ImageSpool>(uv, kj::mv(file));
}

void ImageSpool::startOver() {
  auto fresh = kj::atomicRefcounted<File>();
  fresh->folder = kj::str(file->folder);
  file = kj::mv(fresh);
  filled = 0;
}

kj::Promise<void> ImageSpool::reserve(uint64_t bytes) {
  return uv.blocking([file = kj::atomicAddRef(*file), bytes]() mutable {
    openFile(*file);
    if (fallocate(file->fd, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) == 0) return;
    if (errno == ENOSPC) noRoom(file->fd, bytes);
    if (errno != EOPNOTSUPP) KJ_FAIL_SYSCALL("fallocate", errno);
  });
}

kj::Promise<void> ImageSpool::add(kj::Array<kj::byte> bytes) {
  auto size = bytes.size();
  co_await uv.blocking(
      [file = kj::atomicAddRef(*file), bytes = kj::mv(bytes), at = filled]() mutable {
        openFile(*file);
        writeAll(file->fd, bytes, at);
      });
  filled += size;
}

kj::Promise<kj::String> ImageSpool::digest() {
  return uv.blocking([file = kj::atomicAddRef(*file), size = filled]() mutable {
    Sha256 digest;
    auto room = kj::heapArray<kj::byte>(kPiece);
    readAll(file->fd, size, room, [&](kj::ArrayPtr<const kj::byte> bytes) { digest.add(bytes); });
    return digest.hex();
  });
}

kj::Promise<bool> ImageSpool::hasSignature(kj::Own<pki::VerifyKey> key,
                                           kj::Array<kj::byte> signature, size_t mostWhole) {
  if (key->needsWhole() && filled > mostWhole) {
    return error(ErrorKind::kFailedPrecondition,
                 kj::str("a signature by Ed25519 is verified of at most ", mostWhole >> 20,
                         " MiB; sign the image with an ECDSA P-256 key"));
  }
  return uv.blocking([file = kj::atomicAddRef(*file), size = filled, key = kj::mv(key),
                      signature = kj::mv(signature)]() mutable {
    auto room = kj::heapArray<kj::byte>(key->needsWhole() ? size : kPiece);
    if (key->needsWhole()) {
      readAll(file->fd, size, room, [](kj::ArrayPtr<const kj::byte>) {});
      return key->verifies(room, signature);
    }
    pki::SignatureCheck verification(*key);
    readAll(file->fd, size, room,
            [&](kj::ArrayPtr<const kj::byte> bytes) { verification.add(bytes); });
    return verification.fits(signature);
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
