#include "common/base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/file.h"

namespace talos {

kj::Vector<kj::String> namesIn(kj::StringPtr folder, size_t most) {
  kj::Vector<kj::String> names;
  auto* stream = opendir(folder.cStr());
  if (stream == nullptr) {
    if (errno == ENOENT) return names;
    KJ_FAIL_SYSCALL("opendir", errno, folder);
  }
  KJ_DEFER(closedir(stream));
  while (names.size() < most) {
    errno = 0;
    auto* entry = readdir(stream);
    if (entry == nullptr) {
      if (errno != 0) KJ_FAIL_SYSCALL("readdir", errno, folder);
      break;
    }
    kj::StringPtr name = entry->d_name;
    if (name != "." && name != "..") names.add(kj::str(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

void syncFolder(kj::StringPtr folder) {
  int fd;
  KJ_SYSCALL(fd = open(folder.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), folder);
  kj::AutoCloseFd owned(fd);
  KJ_SYSCALL(fsync(fd), folder);
}

void emptyFolder(kj::StringPtr folder, kj::StringPtr kept) {
  for (auto& name : namesIn(folder)) {
    auto path = kj::str(folder, "/", name);
    if (path != kept) removeTree(path);
  }
  int fd;
  KJ_SYSCALL(fd = open(folder.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), folder);
  kj::AutoCloseFd owned(fd);
  KJ_SYSCALL(syncfs(fd), folder);
}

kj::String folderOf(kj::StringPtr path) {
  KJ_IF_MAYBE (slash, path.findLast('/')) {
    return *slash == 0 ? kj::str("/") : kj::heapString(path.slice(0, *slash));
  }
  return kj::str(".");
}

void removeDurably(kj::StringPtr path) {
  if (unlink(path.cStr()) != 0) {
    if (errno == ENOENT) return;
    KJ_FAIL_SYSCALL("unlink", errno, path);
  }
  syncFolder(folderOf(path));
}

}  // namespace talos
