#include "etcd-supervisor/control/kept-snapshot.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::supervisor {
namespace {

constexpr uint32_t kLargestPiece = 64u << 10;
constexpr auto kWatchInterval = 1 * kj::SECONDS;

kj::AutoCloseFd namelessFile(kj::StringPtr folder) {
  auto path = kj::str(folder, "/upload");
  int fd;
  KJ_SYSCALL(fd = open(path.cStr(), O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600),
             path);
  kj::AutoCloseFd owned(fd);
  KJ_SYSCALL(unlink(path.cStr()), path);
  return owned;
}

class FileSource final : public rpc::ByteSource::Server {
 public:
  explicit FileSource(QueuedFile file) : file(kj::mv(file)) {}

  kj::Promise<void> read(ReadContext context) override {
    auto params = context.getParams();
    struct Piece : kj::AtomicRefcounted {
      kj::Array<kj::byte> bytes;
      size_t size = 0;
    };
    auto piece = kj::atomicRefcounted<Piece>();
    piece->bytes = kj::heapArray<kj::byte>(kj::min(params.getSize(), kLargestPiece));
    co_await file.use(
        [own = kj::atomicAddRef(*piece), offset = params.getOffset()](int fd) mutable {
          own->size = readAt(fd, offset, own->bytes, "the snapshot");
        });
    context.getResults().setBytes(piece->bytes.slice(0, piece->size));
  }

 private:
  QueuedFile file;
};

}  // namespace

rpc::ByteSource::Client sourceOf(QueuedFile file) {
  return kj::heap<FileSource>(kj::mv(file));
}

class KeptSnapshot::Upload final : public rpc::Etcd::SnapshotUpload::Server {
 public:
  explicit Upload(KeptSnapshot& owner)
      : owner(owner),
        file(SnapshotFile{
            {owner.queue, [folder = kj::str(owner.folder)]() { return namelessFile(folder); }}, 0}),
        last(owner.timer.now()),
        watching(watch().eagerlyEvaluate(nullptr)) {
    owner.uploading = true;
  }
  ~Upload() noexcept(false) { end(); }

  kj::Promise<void> write(WriteContext context) override {
    auto& to = open();
    auto bytes = kj::heapArray(context.getParams().getBytes());
    auto size = bytes.size();
    writing = true;
    KJ_DEFER({
      writing = false;
      last = owner.timer.now();
    });
    kj::Maybe<kj::Exception> wrong;
    co_await kj::evalNow([&]() {
      requireSnapshotSize(to.size + size, owner.options.mostBytes);
      return to.file.use([bytes = kj::mv(bytes), reserve = owner.options.reserve](int fd) {
        requireRoom(fd, bytes.size(), reserve);
        kj::FdOutputStream(fd).write(bytes.begin(), bytes.size());
      });
    }).catch_([&](kj::Exception&& e) { wrong = kj::mv(e); });
    KJ_IF_MAYBE (e, wrong) {
      end();
      kj::throwFatalException(kj::mv(*e));
    }
    open().size += size;
  }
  kj::Promise<void> done(DoneContext context) override {
    context.getResults().setSize(open().size);
    owner.keep(kj::mv(open()));
    end();
    return kj::READY_NOW;
  }

 private:
  KeptSnapshot& owner;
  kj::Maybe<SnapshotFile> file;  // nullptr after its end
  kj::TimePoint last;            // that bytes came
  bool writing = false;          // a slow disk is not the client's silence
  kj::Promise<void> watching;

  SnapshotFile& open() {
    KJ_IF_MAYBE (f, file) return *f;
    fail(ErrorKind::kFailedPrecondition, "the upload has ended");
  }
  void end() {
    if (file == nullptr) return;
    file = nullptr;
    owner.uploading = false;
  }
  // Ends an upload that sends nothing: a client that stays connected would keep others out.
  kj::Promise<void> watch() {
    while (writing || owner.timer.now() - last < owner.options.silence) {
      co_await owner.timer.afterDelay(kWatchInterval);
    }
    end();
  }
};

rpc::Etcd::SnapshotUpload::Client KeptSnapshot::upload() {
  if (uploading) {
    fail(ErrorKind::kConflict,
         kj::str("another snapshot is being uploaded to this node; try again when that has ended, ",
                 options.silence / kj::SECONDS, " s after its client went silent at the latest"));
  }
  return kj::heap<Upload>(*this);
}

void KeptSnapshot::keep(SnapshotFile file) {
  kept = kj::mv(file);
  expiry =
      timer.afterDelay(options.keptFor).then([this]() { kept = nullptr; }).eagerlyEvaluate(nullptr);
}

void KeptSnapshot::drop() {
  kept = nullptr;
  expiry = nullptr;
}

SnapshotFile KeptSnapshot::take() {
  KJ_IF_MAYBE (k, kept) {
    auto taken = kj::mv(*k);
    drop();
    return taken;
  }
  fail(ErrorKind::kFailedPrecondition,
       "this node has no snapshot: none was sent since etcd-supervisor started, a bootstrap has "
       "used it, or it was kept for an hour; send it again");
}

}  // namespace talos::supervisor
