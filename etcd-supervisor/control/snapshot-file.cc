#include "etcd-supervisor/control/snapshot-file.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "common/base/error.h"
#include "common/base/within.h"
#include "common/etcd-data/snapshot-check.h"

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

namespace {

constexpr uint32_t kPiece = 64u << 10;
constexpr size_t kAtOnce = 16;  // reads that are under way
constexpr auto kSilence = 60 * kj::SECONDS;

[[noreturn]] void refuse(kj::StringPtr problem) {
  fail(ErrorKind::kInvalidArgument, kj::str("the snapshot ", problem));
}

kj::AutoCloseFd newFile(kj::StringPtr path) {
  int fd;
  KJ_SYSCALL(fd = open(path.cStr(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600),
             path);
  return kj::AutoCloseFd(fd);
}

using Answer = capnp::Response<rpc::ByteSource::ReadResults>;

kj::Promise<Answer> ask(kj::Timer& timer, rpc::ByteSource::Client& source, uint64_t offset,
                        uint32_t size) {
  auto request = source.readRequest();
  request.setOffset(offset);
  request.setSize(size);
  kj::Promise<Answer> answer = request.send();
  return within(timer, kSilence, kj::mv(answer), kj::str("no data of the snapshot for 60 s"));
}

}  // namespace

kj::Promise<void> receiveSnapshot(kj::Timer& timer, rpc::ByteSource::Client source, uint64_t size,
                                  bool skipHashCheck, SnapshotTarget target) {
  requireSnapshotSize(size);
  auto check = kj::atomicRefcounted<SnapshotCheck>(size, skipHashCheck);
  QueuedFile out(target.queue, [path = kj::mv(target.path)]() { return newFile(path); });
  co_await out.use(
      [size, reserve = target.reserve](int fd) { requireRoom(fd, 2 * size, reserve); });
  std::deque<std::pair<uint32_t, kj::Promise<Answer>>> pending;
  uint64_t asked = 0, got = 0;
  while (got < size) {
    while (asked < size && pending.size() < kAtOnce) {
      auto piece = static_cast<uint32_t>(kj::min(uint64_t(kPiece), size - asked));
      pending.emplace_back(piece, ask(timer, source, asked, piece));
      asked += piece;
    }
    auto [wanted, promise] = kj::mv(pending.front());
    pending.pop_front();
    auto answer = co_await promise;
    auto bytes = answer.getBytes();
    if (bytes.size() != wanted)
      refuse(kj::str("ended after ", got + bytes.size(), " bytes of ", size));
    co_await out.use(
        [check = kj::atomicAddRef(*check), piece = kj::heapArray(bytes)](int fd) mutable {
          check->add(piece);
          kj::FdOutputStream(fd).write(piece.begin(), piece.size());
        });
    got += bytes.size();
  }
  co_await out.use([check = kj::mv(check)](int fd) mutable {
    check->finish();
    KJ_SYSCALL(fsync(fd), "the snapshot");
  });
}

}  // namespace talos::supervisor
