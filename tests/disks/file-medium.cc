#include "tests/disks/file-medium.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"

namespace talos::disk {
namespace {

[[noreturn]] void failed(kj::StringPtr what) {
  // QEMU halts a machine whose disk is full, until there is room.
  bool full = errno == ENOSPC || errno == EDQUOT;
  fail(full ? ErrorKind::kResourceExhausted : ErrorKind::kInternal,
       kj::str("cannot ", what, " the file of a disk: ", strerror(errno)));
}

// The number of bytes done; 0 after a signal.
size_t step(ssize_t n, kj::StringPtr what) {
  if (n < 0 && errno != EINTR) failed(what);
  return n < 0 ? 0 : n;
}

}  // namespace

FileMedium::FileMedium(kj::AutoCloseFd file) : file(kj::mv(file)) {
  struct stat info;
  KJ_SYSCALL(fstat(this->file, &info));
  bytes = static_cast<uint64_t>(info.st_size);
}

void FileMedium::read(uint64_t offset, kj::ArrayPtr<kj::byte> into) {
  while (into.size() > 0) {
    ssize_t n = pread(file, into.begin(), into.size(), static_cast<off_t>(offset));
    KJ_REQUIRE(n != 0, "the file of a disk was truncated");
    auto did = step(n, "read");
    into = into.slice(did, into.size());
    offset += did;
  }
}

void FileMedium::write(uint64_t offset, kj::ArrayPtr<const kj::byte> from) {
  if (offset + from.size() > writable) fail(ErrorKind::kInternal, "the disk fails this write");
  while (from.size() > 0) {
    auto did = step(pwrite(file, from.begin(), from.size(), static_cast<off_t>(offset)), "write");
    from = from.slice(did, from.size());
    offset += did;
  }
}

void FileMedium::zero(uint64_t offset, uint64_t length) {
  constexpr size_t kBlock = 64 << 10;
  static const kj::byte zeros[kBlock] = {};
  while (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                   static_cast<off_t>(length)) < 0) {
    if (errno == EINTR) continue;
    if (errno != EOPNOTSUPP) failed("zero");
    // The file system does not support holes.
    for (uint64_t done = 0; done < length; done += kBlock) {
      write(offset + done, kj::arrayPtr(zeros, kj::min(length - done, kBlock)));
    }
    return;
  }
}

kj::Maybe<Range> FileMedium::content(Range range) {
  off_t begin = lseek(file, static_cast<off_t>(range.begin), SEEK_DATA);
  if (begin < 0) {
    if (errno == ENXIO) return nullptr;  // nothing but a hole follows
    if (errno == EINVAL) return range;   // a file system without SEEK_DATA
    failed("look into");
  }
  if (static_cast<uint64_t>(begin) >= range.end) return nullptr;
  off_t end = lseek(file, begin, SEEK_HOLE);
  if (end < 0) failed("look into");
  return Range{static_cast<uint64_t>(begin), kj::min(range.end, static_cast<uint64_t>(end))};
}

}  // namespace talos::disk
