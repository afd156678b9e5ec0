#include "etcd-supervisor/control/snapshot-file.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <string.h>
#include <unistd.h>

#include <deque>

#include "common/base/error.h"
#include "common/base/sha256.h"
#include "common/base/within.h"

namespace talos::supervisor {
namespace {

constexpr uint32_t kPiece = 64u << 10;
constexpr size_t kAtOnce = 16;  // reads that are under way
constexpr auto kSilence = 60 * kj::SECONDS;
constexpr uint64_t kPage = 512, kTrailer = Sha256::kBytes;
// The first page of bbolt: its header, then the magic number, little-endian.
constexpr size_t kMagicAt = 16;
constexpr kj::byte kMagic[] = {0xed, 0xda, 0x0c, 0xed};

[[noreturn]] void refuse(kj::StringPtr problem) {
  fail(ErrorKind::kInvalidArgument, kj::str("the snapshot ", problem));
}

void checkSize(uint64_t size, bool skipHashCheck) {
  if (size < 2 * kPage) refuse(kj::str("has ", size, " bytes, which is too short"));
  auto rest = size % kPage;
  if (rest != 0 && rest != kTrailer) {
    refuse(kj::str("has ", size, " bytes: it was cut off, or is not a snapshot of etcd"));
  }
  if (rest == 0 && !skipHashCheck) {
    refuse(
        "has no SHA-256 behind it: for a copy of the database file use --recover-skip-hash-check");
  }
}

// Takes the bytes in their order.
class Check final : public kj::AtomicRefcounted {
 public:
  Check(uint64_t size, bool skipHashCheck)
      : database(size % kPage == kTrailer ? size - kTrailer : size), skip(skipHashCheck) {}

  void add(kj::ArrayPtr<const kj::byte> bytes) {
    if (received == 0 && (bytes.size() < kMagicAt + sizeof kMagic ||
                          memcmp(bytes.begin() + kMagicAt, kMagic, sizeof kMagic) != 0)) {
      refuse("is not a database of etcd");
    }
    auto own = kj::min(bytes.size(), received < database ? database - received : 0);
    hash.add(bytes.slice(0, own));
    for (auto byte : bytes.slice(own, bytes.size())) trailer[trailed++] = byte;
    received += bytes.size();
  }
  void finish() {
    if (!skip && hash.finish() != kj::arrayPtr(trailer, trailed)) {
      refuse("is damaged: its SHA-256 is not the one behind it");
    }
  }

 private:
  uint64_t database, received = 0;
  bool skip;
  Sha256 hash;
  kj::byte trailer[Sha256::kBytes] = {};
  size_t trailed = 0;
};

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
  checkSize(size, skipHashCheck);
  QueuedFile out(target.queue, [path = kj::mv(target.path)]() { return newFile(path); });
  co_await out.use(
      [size, reserve = target.reserve](int fd) { requireRoom(fd, 2 * size, reserve); });
  auto check = kj::atomicRefcounted<Check>(size, skipHashCheck);
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
