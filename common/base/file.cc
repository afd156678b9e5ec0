#include "common/base/file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <kj/vector.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/folder.h"
#include "common/memory/secret-buffer.h"

namespace talos {
namespace {

// The name of a file that is being written ends in this and letters of mkostemp(3).
constexpr kj::StringPtr kUnfinished = ".unfinished-"_kj;
constexpr size_t kRandom = 6;

[[noreturn]] void failWith(int error, kj::String what) {
  bool denied = error == EACCES || error == EPERM || error == EROFS;
  fail(denied ? ErrorKind::kPermissionDenied : ErrorKind::kFailedPrecondition,
       kj::str(what, ": ", strerror(error)));
}

void writeAll(int fd, kj::ArrayPtr<const char> content, kj::StringPtr path) {
  while (content.size() > 0) {
    ssize_t n;
    KJ_SYSCALL(n = ::write(fd, content.begin(), content.size()), path);
    content = content.slice(n, content.size());
  }
}

// Removes the entry `name` of `parent`; stays on the device `device`.
void removeAt(int parent, const char* name, dev_t device) {
  struct stat st;
  if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
    if (errno == ENOENT) return;
    KJ_FAIL_SYSCALL("fstatat", errno, name);
  }
  if (st.st_dev != device)
    fail(ErrorKind::kFailedPrecondition, kj::str(name, ": is a mount point"));
  if (!S_ISDIR(st.st_mode)) {
    KJ_SYSCALL(unlinkat(parent, name, 0), name);
    return;
  }
  int fd;
  KJ_SYSCALL(fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), name);
  DIR* directory = fdopendir(fd);  // owns fd from here on
  KJ_ASSERT(directory != nullptr);
  KJ_DEFER(closedir(directory));
  while (auto* entry = readdir(directory)) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    removeAt(fd, entry->d_name, device);
  }
  KJ_SYSCALL(unlinkat(parent, name, AT_REMOVEDIR), name);
}

}  // namespace

void replaceFile(kj::StringPtr path, kj::ArrayPtr<const char> content,
                 kj::FunctionParam<void(int fd)> complete) {
  auto temporary = kj::str(path, kUnfinished, kj::repeat('X', kRandom));
  int raw;
  raw = mkostemp(temporary.begin(), O_CLOEXEC);  // 0600: no reader before fchmod
  if (raw < 0) failWith(errno, kj::str("cannot write ", path));
  kj::AutoCloseFd file(raw);
  bool renamed = false;
  KJ_DEFER(if (!renamed) unlink(temporary.cStr()));
  writeAll(file, content, path);
  complete(file);
  KJ_SYSCALL(fsync(file), path);
  KJ_SYSCALL(rename(temporary.cStr(), path.cStr()), path);
  renamed = true;
  syncFolder(folderOf(path));
}

void writeFileAtomically(kj::StringPtr path, kj::ArrayPtr<const char> content, mode_t mode) {
  replaceFile(path, content, [&](int fd) { KJ_SYSCALL(fchmod(fd, mode), path); });
}

void removeUnfinished(kj::StringPtr folder) {
  const size_t kEnd = kUnfinished.size() + kRandom;
  bool removed = false;
  for (auto& name : namesIn(folder)) {
    if (name.size() <= kEnd) continue;
    auto end = name.slice(name.size() - kEnd);
    bool random = end.startsWith(kUnfinished);
    for (char c : end.slice(kUnfinished.size())) random = random && isalnum(c) != 0;
    struct stat st;
    auto path = kj::str(folder, "/", name);
    if (!random || lstat(path.cStr(), &st) < 0 || !S_ISREG(st.st_mode)) continue;
    KJ_SYSCALL(unlink(path.cStr()), path);
    removed = true;
  }
  if (removed) syncFolder(folder);
}

kj::Maybe<kj::String> tryReadFile(kj::StringPtr path, size_t limit) {
  int raw = open(path.cStr(), O_RDONLY | O_CLOEXEC);
  if (raw < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return nullptr;
    if (errno == EACCES) fail(ErrorKind::kPermissionDenied, kj::str(path, ": permission denied"));
    KJ_FAIL_SYSCALL("open", errno, path);
  }
  kj::AutoCloseFd file(raw);
  struct stat st;
  KJ_SYSCALL(fstat(file, &st), path);
  if (S_ISDIR(st.st_mode))
    fail(ErrorKind::kInvalidArgument, kj::str(path, ": is a directory, not a file"));
  SecretBuffer content;
  char chunk[65536];  // st_size does not help: it is 0 for files in /proc
  // Only what was read: most files are small, and each thread keeps the stack that it has touched.
  size_t used = 0;
  KJ_DEFER(zeroize(kj::arrayPtr(chunk, used)));
  for (;;) {
    ssize_t n;
    KJ_SYSCALL(n = read(file, chunk, sizeof chunk), path);
    if (n == 0) break;
    used = kj::max(used, static_cast<size_t>(n));
    if (content.size() + n > limit) {
      fail(ErrorKind::kInvalidArgument, kj::str(path, ": is larger than ", limit, " bytes"));
    }
    content.add(kj::arrayPtr(chunk, n));
  }
  return content.copyText();
}

kj::String readFile(kj::StringPtr path, size_t limit) {
  KJ_IF_MAYBE (content, tryReadFile(path, limit)) {
    return kj::mv(*content);
  }
  fail(ErrorKind::kNotFound, kj::str(path, ": no such file"));
}

size_t readAt(int fd, uint64_t offset, kj::ArrayPtr<kj::byte> bytes, kj::StringPtr path) {
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n;
    KJ_SYSCALL(
        n = pread(fd, bytes.begin() + done, bytes.size() - done, static_cast<off_t>(offset + done)),
        path);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

void makeDirectories(kj::StringPtr path, mode_t mode) {
  for (size_t i = 1; i <= path.size(); ++i) {
    if (i != path.size() && path[i] != '/') continue;
    auto part = kj::heapString(path.slice(0, i));
    if (mkdir(part.cStr(), mode) == 0) {
      KJ_SYSCALL(chmod(part.cStr(), mode), part);
    } else if (errno != EEXIST) {
      failWith(errno, kj::str("cannot make the folder ", part));
    }
  }
}

void removeTree(kj::StringPtr path) {
  struct stat st;
  if (lstat(path.cStr(), &st) < 0) {
    if (errno == ENOENT) return;
    KJ_FAIL_SYSCALL("lstat", errno, path);
  }
  removeAt(AT_FDCWD, path.cStr(), st.st_dev);
}

}  // namespace talos
