#include "talosctl/commands/etcd-snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"

namespace talos::talosctl {
namespace {

constexpr size_t kHash = 32, kPage = 512;

}  // namespace

struct SnapshotFile::Hash {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  Hash() {
    KJ_REQUIRE(context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1);
  }
  ~Hash() { EVP_MD_CTX_free(context); }
  KJ_DISALLOW_COPY_AND_MOVE(Hash);
};

SnapshotFile::SnapshotFile(kj::StringPtr name)
    : path(kj::str(name)), part(kj::str(name, ".part")), hash(kj::heap<Hash>()) {
  // It holds every secret of the cluster.
  fd = kj::AutoCloseFd(open(part.cStr(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (fd.get() < 0 || fchmod(fd, 0600) != 0) {
    fail(ErrorKind::kFailedPrecondition, kj::str("cannot write ", part, ": ", strerror(errno)));
  }
}

SnapshotFile::~SnapshotFile() noexcept(false) {
  if (!kept) unlink(part.cStr());
}

void SnapshotFile::write(kj::ArrayPtr<const kj::byte> bytes) {
  for (auto rest = bytes; rest.size() > 0;) {
    ssize_t n = ::write(fd, rest.begin(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      fail(ErrorKind::kFailedPrecondition, kj::str("cannot write ", part, ": ", strerror(errno)));
    }
    rest = rest.slice(static_cast<size_t>(n), rest.size());
  }
  written += bytes.size();
  tail.addAll(bytes);
  if (tail.size() <= kHash) return;
  auto sure = tail.size() - kHash;
  KJ_REQUIRE(EVP_DigestUpdate(hash->context, tail.begin(), sure) == 1);
  kj::Vector<kj::byte> newest;
  newest.addAll(tail.slice(sure, tail.size()));
  tail = kj::mv(newest);
}

void SnapshotFile::keep() {
  kj::byte digest[kHash];
  KJ_REQUIRE(EVP_DigestFinal_ex(hash->context, digest, nullptr) == 1);
  if (written % kPage != kHash || tail.asPtr() != kj::arrayPtr(digest, kHash)) {
    fail(ErrorKind::kInvalidArgument, kj::str("the snapshot is damaged or cut off after ", written,
                                              " bytes; ", path, " was not written"));
  }
  KJ_SYSCALL(fsync(fd), part);
  KJ_SYSCALL(rename(part.cStr(), path.cStr()), path);
  auto folder = kj::str(".");
  KJ_IF_MAYBE (slash, path.findLast('/')) folder = kj::str(path.slice(0, *slash), "/");
  kj::AutoCloseFd above(open(folder.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (above.get() >= 0) KJ_SYSCALL(fsync(above), folder);
  kept = true;
}

}  // namespace talos::talosctl
