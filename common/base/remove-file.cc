#include "common/base/remove-file.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <unistd.h>

namespace talos {

void removeDurably(kj::StringPtr path) {
  if (unlink(path.cStr()) != 0) {
    if (errno == ENOENT) return;
    KJ_FAIL_SYSCALL("unlink", errno, path);
  }
  auto folder = kj::heapString(path.slice(0, KJ_REQUIRE_NONNULL(path.findLast('/'), path)));
  if (folder.size() == 0) folder = kj::str("/");
  int raw;
  KJ_SYSCALL(raw = open(folder.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), folder);
  kj::AutoCloseFd fd(raw);
  KJ_SYSCALL(fsync(fd), folder);
}

}  // namespace talos
