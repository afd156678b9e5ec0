#include "machined/system/system-tree.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/vector.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kTemporary = ".talos-new"_kj;

uint64_t resolutionOf(Links links) {
  switch (links) {
    case Links::kNone:
      return RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
    case Links::kBeneath:
      return RESOLVE_NO_MAGICLINKS | RESOLVE_BENEATH;
    case Links::kInRoot:
      return RESOLVE_NO_MAGICLINKS | RESOLVE_IN_ROOT;
  }
  KJ_UNREACHABLE;
}

}  // namespace

kj::AutoCloseFd openTree(kj::StringPtr path) {
  int fd;
  KJ_SYSCALL(fd = open(path.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), path);
  return kj::AutoCloseFd(fd);
}

kj::Maybe<kj::AutoCloseFd> tryOpen(int tree, kj::StringPtr relative, int flags, Links links) {
  struct open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = resolutionOf(links);
  auto path = relative.size() == 0 ? "."_kj : relative;
  long fd = syscall(SYS_openat2, tree, path.cStr(), &how, sizeof(how));
  if (fd >= 0) return kj::AutoCloseFd(static_cast<int>(fd));
  if (errno == ENOENT) return nullptr;
  if (errno == EXDEV || errno == ELOOP) {
    fail(ErrorKind::kFailedPrecondition,
         links == Links::kNone ? "the path contains a symbolic link, which is not followed here"
                               : "a symbolic link in the path leads outside of the allowed folder");
  }
  fail(ErrorKind::kFailedPrecondition, strerror(errno));
}

kj::Maybe<struct stat> tryStat(int directory, kj::StringPtr name) {
  struct stat found;
  if (fstatat(directory, name.cStr(), &found, AT_SYMLINK_NOFOLLOW) == 0) return found;
  if (errno == ENOENT) return nullptr;
  KJ_FAIL_SYSCALL("fstatat", errno, name);
}

kj::AutoCloseFd makeDirectoriesIn(int tree, kj::StringPtr relative, mode_t mode) {
  int raw;
  KJ_SYSCALL(raw = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  kj::AutoCloseFd above(raw);
  for (size_t end = 0; end < relative.size();) {
    size_t begin = end;
    while (end < relative.size() && relative[end] != '/') ++end;
    auto name = kj::heapString(relative.slice(begin, end));
    auto part = kj::heapString(relative.slice(0, end));
    if (end < relative.size()) ++end;
    if (name.size() == 0) continue;
    auto folder = tryOpen(tree, part, O_RDONLY | O_DIRECTORY, Links::kBeneath);
    if (folder == nullptr) {
      if (mkdirat(above, name.cStr(), mode) != 0)
        fail(ErrorKind::kFailedPrecondition, kj::str("cannot make ", part, ": ", strerror(errno)));
      KJ_SYSCALL(fchmodat(above, name.cStr(), mode, 0), part);
      folder = tryOpen(tree, part, O_RDONLY | O_DIRECTORY, Links::kBeneath);
    }
    above = kj::mv(KJ_REQUIRE_NONNULL(folder, "a directory was removed meanwhile", part));
  }
  return above;
}

kj::String pathOf(int fd) {
  char link[64], path[4097];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t size;
  KJ_SYSCALL(size = readlink(link, path, sizeof(path) - 1));
  return kj::heapString(path, static_cast<size_t>(size));
}

kj::String relativeTo(int tree, int fd) {
  auto top = pathOf(tree), path = pathOf(fd);
  return kj::str(path.slice(top == "/" ? 1 : kj::min(top.size() + 1, path.size())));
}

kj::Array<char> readAll(int fd, size_t limit) {
  kj::Vector<char> content;
  for (;;) {
    char chunk[65536];
    ssize_t n;
    KJ_SYSCALL(n = read(fd, chunk, sizeof(chunk)));
    if (n == 0) return content.releaseAsArray();
    if (content.size() + static_cast<size_t>(n) > limit)
      fail(ErrorKind::kInvalidArgument, kj::str("it is larger than ", limit, " bytes"));
    content.addAll(kj::arrayPtr(chunk, static_cast<size_t>(n)));
  }
}

void replaceFile(int directory, kj::StringPtr name, kj::ArrayPtr<const char> content,
                 const FileAttributes& attributes) {
  if (unlinkat(directory, kTemporary.cStr(), 0) != 0 && errno != ENOENT)
    KJ_FAIL_SYSCALL("unlinkat", errno, kTemporary);
  int raw = openat(directory, kTemporary.cStr(),
                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (raw < 0) fail(ErrorKind::kFailedPrecondition, kj::str("cannot write: ", strerror(errno)));
  kj::AutoCloseFd file(raw);
  bool renamed = false;
  KJ_DEFER(if (!renamed) unlinkat(directory, kTemporary.cStr(), 0));
  kj::FdOutputStream(file.get()).write(content.begin(), content.size());
  KJ_SYSCALL(fchown(file, attributes.uid, attributes.gid),
             name);  // comes first, because it clears mode bits
  KJ_SYSCALL(fchmod(file, attributes.mode), name);
  KJ_SYSCALL(fsync(file), name);
  if (renameat(directory, kTemporary.cStr(), directory, name.cStr()) != 0)
    fail(ErrorKind::kFailedPrecondition, kj::str("cannot write: ", strerror(errno)));
  renamed = true;
  KJ_SYSCALL(fsync(directory), name);
}

SplitPath split(kj::StringPtr path) {
  KJ_IF_MAYBE (slash, path.findLast('/')) {
    return {kj::heapString(path.slice(0, *slash)), kj::str(path.slice(*slash + 1))};
  }
  return {kj::str(), kj::str(path)};
}

}  // namespace talos::machined
