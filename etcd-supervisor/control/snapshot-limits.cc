#include "etcd-supervisor/control/snapshot-limits.h"

#include <kj/debug.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "common/base/error.h"

namespace talos::supervisor {
namespace {

uint64_t mebibytes(uint64_t bytes) {
  return bytes >> 20;
}

}  // namespace

uint64_t DiskReserve::of(uint64_t fileSystemBytes) const {
  return std::clamp(fileSystemBytes / 100 * percent, least, most);
}

void requireSnapshotSize(uint64_t bytes, uint64_t most) {
  if (bytes <= most) return;
  fail(ErrorKind::kInvalidArgument,
       kj::str("the snapshot is larger than ", mebibytes(most), " MiB"));
}

void requireRoom(int fd, uint64_t bytes, const DiskReserve& reserve) {
  struct statvfs disk;
  KJ_SYSCALL(fstatvfs(fd, &disk));
  uint64_t left = uint64_t{disk.f_bavail} * disk.f_frsize,
           kept = reserve.of(uint64_t{disk.f_blocks} * disk.f_frsize);
  if (left >= kept && left - kept >= bytes) return;
  fail(ErrorKind::kResourceExhausted,
       kj::str("EPHEMERAL has no room for the snapshot: ", mebibytes(bytes) + 1,
               " MiB more are needed, ", mebibytes(left), " MiB are left, and ", mebibytes(kept),
               " MiB of them are kept for etcd and pods; make room"));
}

}  // namespace talos::supervisor
