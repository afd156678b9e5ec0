#include "etcd-supervisor/backup/snapshot-spool.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/etcd-data/cms-output.h"
#include "common/etcd-data/snapshot-check.h"
#include "etcd-supervisor/control/snapshot-file.h"

namespace talos::supervisor {
namespace {

constexpr size_t kHashPiece = 1u << 20;

kj::AutoCloseFd spoolFile(kj::StringPtr folder) {
  int fd;
  KJ_SYSCALL(fd = open(folder.cStr(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), folder);
  return kj::AutoCloseFd(fd);
}

// Used by the queue alone.
class Encrypting final : public kj::AtomicRefcounted {
 public:
  Encrypting(uint64_t size, kj::StringPtr recipient)
      : check(kj::atomicRefcounted<SnapshotCheck>(size, false)),
        recipient(recipient, "cluster.etcd.backup.encryptTo") {}

  void add(int fd, kj::ArrayPtr<const kj::byte> bytes) {
    check->add(bytes);
    if (output == nullptr) output = kj::heap<CmsOutput>(fd, recipient);
    KJ_ASSERT_NONNULL(output)->write(bytes);
  }
  void finish() {
    check->finish();
    KJ_ASSERT_NONNULL(output)->finish();
  }

  kj::Own<SnapshotCheck> check;

 private:
  CmsRecipient recipient;
  kj::Maybe<kj::Own<CmsOutput>> output;
};

// Hashes a file on the disk, in pieces, so that other work of the queue can run between them.
class Hashing final : public kj::AtomicRefcounted {
 public:
  // Hashes a piece; returns true if there is more.
  bool add(int fd) {
    auto piece = kj::heapArray<kj::byte>(kHashPiece);
    auto got = readAt(fd, size, piece, "the encrypted snapshot");
    hash.add(piece.slice(0, got));
    size += got;
    return got == kHashPiece;
  }
  uint64_t size = 0;
  bool more = true;
  Sha256 hash;
};

}  // namespace

kj::Promise<SpooledSnapshot> spoolSnapshot(etcd::Etcd& member, DiskQueue& queue,
                                           kj::StringPtr folder, kj::StringPtr recipient) {
  QueuedFile file(queue, [folder = kj::str(folder)]() { return spoolFile(folder); });
  kj::Maybe<kj::Own<Encrypting>> encrypting;
  auto to = kj::str(recipient);
  co_await member.snapshot(
      [&](kj::ArrayPtr<const kj::byte> bytes, uint64_t remaining) -> kj::Promise<void> {
        if (encrypting == nullptr) {
          auto size = bytes.size() + remaining + Sha256::kBytes;
          requireSnapshotSize(size, kMostUploadBytes);
          encrypting = kj::atomicRefcounted<Encrypting>(size, to);
          co_await file.use([size](int fd) { requireRoom(fd, size, DiskReserve{}); });
        }
        co_await file.use([own = kj::atomicAddRef(*KJ_ASSERT_NONNULL(encrypting)),
                           piece = kj::heapArray(bytes)](int fd) mutable { own->add(fd, piece); });
      });
  if (encrypting == nullptr) fail(ErrorKind::kInvalidArgument, "the member sent an empty snapshot");
  auto& whole = *KJ_ASSERT_NONNULL(encrypting);
  co_await file.use([own = kj::atomicAddRef(whole)](int) mutable { own->finish(); });
  auto hashing = kj::atomicRefcounted<Hashing>();
  while (hashing->more) {
    co_await file.use(
        [own = kj::atomicAddRef(*hashing)](int fd) mutable { own->more = own->add(fd); });
  }
  co_return SpooledSnapshot{{kj::mv(file), hashing->size, hashing->hash.hex()},
                            whole.check->databaseBytes(),
                            kj::heapArray(whole.check->digest())};
}

kj::Promise<UploadFile> spoolBytes(DiskQueue& queue, kj::StringPtr folder,
                                   kj::Array<kj::byte> bytes) {
  QueuedFile file(queue, [folder = kj::str(folder)]() { return spoolFile(folder); });
  Sha256 hash;
  hash.add(bytes);
  uint64_t size = bytes.size();
  co_await file.use([bytes = kj::mv(bytes)](int fd) {
    kj::FdOutputStream(fd).write(bytes.begin(), bytes.size());
  });
  co_return UploadFile{kj::mv(file), size, hash.hex()};
}

}  // namespace talos::supervisor
