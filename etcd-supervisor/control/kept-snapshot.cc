#include "etcd-supervisor/control/kept-snapshot.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::supervisor {
namespace {

constexpr uint32_t kLargestPiece = 64u << 10;

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
  explicit FileSource(kj::AutoCloseFd file) : file(kj::mv(file)) {}

  kj::Promise<void> read(ReadContext context) override {
    auto params = context.getParams();
    auto wanted = kj::heapArray<kj::byte>(kj::min(params.getSize(), kLargestPiece));
    auto got = readAt(file, params.getOffset(), wanted, "the snapshot");
    context.getResults().setBytes(wanted.slice(0, got));
    return kj::READY_NOW;
  }

 private:
  kj::AutoCloseFd file;
};

}  // namespace

rpc::ByteSource::Client sourceOf(kj::AutoCloseFd file) {
  return kj::heap<FileSource>(kj::mv(file));
}

class KeptSnapshot::Upload final : public rpc::Etcd::SnapshotUpload::Server {
 public:
  explicit Upload(KeptSnapshot& owner)
      : owner(owner), file(SnapshotFile{namelessFile(owner.folder), 0}) {}

  kj::Promise<void> write(WriteContext context) override {
    auto& to = open();
    auto bytes = context.getParams().getBytes();
    kj::FdOutputStream(to.fd.get()).write(bytes.begin(), bytes.size());
    to.size += bytes.size();
    return kj::READY_NOW;
  }
  kj::Promise<void> done(DoneContext context) override {
    context.getResults().setSize(open().size);
    owner.kept = kj::mv(file);
    file = nullptr;
    return kj::READY_NOW;
  }

 private:
  KeptSnapshot& owner;
  kj::Maybe<SnapshotFile> file;

  SnapshotFile& open() {
    KJ_IF_MAYBE (f, file) return *f;
    fail(ErrorKind::kFailedPrecondition, "the upload has ended");
  }
};

rpc::Etcd::SnapshotUpload::Client KeptSnapshot::upload() {
  return kj::heap<Upload>(*this);
}

SnapshotFile KeptSnapshot::take() {
  KJ_IF_MAYBE (k, kept) {
    auto taken = kj::mv(*k);
    kept = nullptr;
    return taken;
  }
  fail(ErrorKind::kFailedPrecondition,
       "this node has no snapshot: none was sent since etcd-supervisor started, or a bootstrap has "
       "used it; send it again");
}

}  // namespace talos::supervisor
