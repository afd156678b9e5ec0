#include "talosctl/etcd/etcd-snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/folder.h"
#include "common/etcd-data/snapshot-signature.h"

namespace talos::talosctl {
namespace {

constexpr size_t kHash = Sha256::kBytes, kPage = 512;

// Writes the signature. After a crash it may be truncated, and is then refused. Its folder may not
// be readable.
void writeSignature(kj::StringPtr path, kj::ArrayPtr<const kj::byte> signature) {
  kj::AutoCloseFd fd(open(path.cStr(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (fd.get() < 0) {
    fail(ErrorKind::kFailedPrecondition, kj::str("cannot write ", path, ": ", strerror(errno)));
  }
  kj::FdOutputStream(fd.get()).write(signature.begin(), signature.size());
  KJ_SYSCALL(fsync(fd), path);
}

}  // namespace

SnapshotFile::SnapshotFile(kj::StringPtr name, kj::Maybe<const CmsRecipient&> recipient)
    : path(kj::str(name)), part(kj::str(name, ".part")) {
  // The file holds every secret of the cluster, so it must be a new file.
  unlink(part.cStr());  // left by a run that was killed, or a foreign file
  fd = kj::AutoCloseFd(
      open(part.cStr(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (fd.get() < 0) {
    fail(ErrorKind::kFailedPrecondition, kj::str("cannot write ", part, ": ", strerror(errno)));
  }
  KJ_IF_MAYBE (r, recipient) encryption = kj::heap<CmsOutput>(fd, *r);
}

SnapshotFile::~SnapshotFile() noexcept(false) {
  if (!kept) unlink(part.cStr());
}

void SnapshotFile::put(kj::ArrayPtr<const kj::byte> bytes) {
  KJ_IF_MAYBE (e, encryption) return (*e)->write(bytes);
  for (auto rest = bytes; rest.size() > 0;) {
    ssize_t n = ::write(fd, rest.begin(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      fail(ErrorKind::kFailedPrecondition, kj::str("cannot write ", part, ": ", strerror(errno)));
    }
    rest = rest.slice(static_cast<size_t>(n), rest.size());
  }
}

void SnapshotFile::write(kj::ArrayPtr<const kj::byte> bytes) {
  put(bytes);
  written += bytes.size();
  tail.addAll(bytes);
  if (tail.size() <= kHash) return;
  auto sure = tail.size() - kHash;
  hash.add(tail.slice(0, sure));
  kj::Vector<kj::byte> newest;
  newest.addAll(tail.slice(sure, tail.size()));
  tail = kj::mv(newest);
}

void SnapshotFile::keep(kj::ArrayPtr<const kj::byte> signature) {
  auto digest = hash.finish();
  if (written % kPage != kHash || tail.asPtr() != digest) {
    fail(ErrorKind::kInvalidArgument, kj::str("the snapshot is damaged or truncated after ",
                                              written, " bytes; ", path, " was not written"));
  }
  KJ_IF_MAYBE (e, encryption) (*e)->finish();
  KJ_SYSCALL(fsync(fd), part);
  auto beside = kj::str(path, kSignatureSuffix);
  if (unlink(beside.cStr()) != 0 && errno != ENOENT) {  // signature of the file that is replaced
    fail(ErrorKind::kFailedPrecondition, kj::str("cannot remove ", beside, ": ", strerror(errno)));
  }
  KJ_SYSCALL(rename(part.cStr(), path.cStr()), path);
  if (signature.size() > 0) writeSignature(beside, signature);
  // A folder that can only be written to cannot be opened for fsync.
  if (auto folder = folderOf(path); access(folder.cStr(), R_OK) == 0) syncFolder(folder);
  kept = true;
}

}  // namespace talos::talosctl
