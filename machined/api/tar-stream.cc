#include "machined/api/tar-stream.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <limits.h>
#include <unistd.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

constexpr size_t kPiece = 64u << 10;
constexpr size_t kInputPerPiece = 4u
                                  << 20;  // zeros shrink a thousandfold: the caller gets its turn
constexpr size_t kNamed = 1000;

kj::StringPtr requireAbsolute(kj::StringPtr path) {
  if (!path.startsWith("/")) {
    fail(ErrorKind::kInvalidArgument, kj::str("\"", path, "\" is not an absolute path"));
  }
  return path;
}

kj::StringPtr baseName(kj::StringPtr path) {
  KJ_IF_MAYBE (slash, path.findLast('/')) {
    return path.slice(*slash + 1);
  }
  return path;
}

}  // namespace

Archive::Archive(kj::StringPtr path) : walk(requireAbsolute(path), 0) {}

void Archive::skip(kj::StringPtr path, kj::StringPtr reason) {
  if (unreadable.size() < kNamed) {
    unreadable.add(kj::str(path, ": ", reason));
  } else {
    ++unnamed;
  }
}

kj::Vector<kj::String> Archive::takeUnreadable() {
  if (unnamed > 0) unreadable.add(kj::str("and ", unnamed, " more"));
  return kj::mv(unreadable);
}

void Archive::header(const TarHeader& entry) {
  kj::Vector<kj::byte> bytes;
  appendTarHeader(bytes, entry);
  gzip.write(bytes, out);
}

void Archive::addZeros() {
  static constexpr kj::byte kZeros[kPiece] = {};
  size_t n = kj::min(zeros, sizeof kZeros);
  gzip.write(kj::arrayPtr(kZeros, n), out);
  zeros -= n;
}

void Archive::add(TreeWalk::Visit visit) {
  if (visit.error.size() > 0) return skip(visit.path, visit.error);
  if (visit.leaving) return;
  bool root = visit.depth == 0;
  auto& st = visit.st;
  TarHeader entry{.name = root ? baseName(visit.path) : visit.relative,
                  .mode = st.st_mode & 07777u,
                  .uid = st.st_uid,
                  .gid = st.st_gid,
                  .modified = st.st_mtim.tv_sec};
  if (S_ISREG(st.st_mode)) return addFile(visit, entry);
  if (S_ISDIR(st.st_mode)) {
    if (root) return;
    entry.kind = TarHeader::Kind::kDirectory;
    return header(entry);
  }
  if (S_ISLNK(st.st_mode)) {
    char target[PATH_MAX];
    ssize_t n = readlink(visit.path.cStr(), target, sizeof target);
    if (n < 0) return skip(visit.path, errorText(errno));
    auto link = kj::heapString(target, n);
    entry.kind = TarHeader::Kind::kSymlink;
    entry.link = link;
    return header(entry);
  }
  skip(visit.path, "is not a file, directory or symbolic link");
}

void Archive::addFile(const TreeWalk::Visit& visit, TarHeader entry) {
  // O_NONBLOCK, because some files in /proc and /sys wait for events when they are read.
  int fd = open(visit.path.cStr(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return skip(visit.path, errorText(errno));
  kj::AutoCloseFd opened(fd);
  struct stat st;
  if (fstat(opened, &st) < 0) return skip(visit.path, errorText(errno));
  if (!S_ISREG(st.st_mode)) return skip(visit.path, "was replaced during the read");
  entry.size = countedSize(visit.path, st);
  header(entry);
  if (entry.size == 0) return;
  left = entry.size;
  zeros = tarPadding(entry.size);
  filePath = kj::str(visit.path);
  file = kj::mv(opened);
}

void Archive::addContent() {
  kj::byte chunk[kPiece];
  ssize_t n = read(KJ_ASSERT_NONNULL(file), chunk, kj::min(left, sizeof chunk));
  if (n < 0 && errno == EINTR) return;
  if (n > 0) {
    gzip.write(kj::arrayPtr(chunk, n), out);
    left -= n;
  } else {
    skip(filePath, n < 0 ? errorText(errno) : kj::str("was truncated during the read"));
    zeros += left;
    left = 0;
  }
  if (left == 0) file = nullptr;
}

kj::Maybe<kj::Array<kj::byte>> Archive::next() {
  if (finished) return nullptr;
  for (size_t steps = 0; out.size() < kPiece && steps < kInputPerPiece / kPiece; ++steps) {
    if (file != nullptr) {
      addContent();
      continue;
    }
    if (zeros > 0) {
      addZeros();
      continue;
    }
    if (ending) {
      gzip.finish(out);
      finished = true;
      break;
    }
    auto visit = walk.next();
    KJ_IF_MAYBE (v, visit) {
      add(kj::mv(*v));
    } else {
      zeros = kTarEnd;
      ending = true;
    }
  }
  return out.releaseAsArray();
}

}  // namespace talos::machined
