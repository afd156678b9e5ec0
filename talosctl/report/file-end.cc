#include "talosctl/report/file-end.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <sys/stat.h>
#include <unistd.h>

namespace talos {

kj::Maybe<kj::String> tryReadEnd(kj::StringPtr path, size_t most) {
  int raw = open(path.cStr(), O_RDONLY | O_CLOEXEC);
  if (raw < 0 && errno == ENOENT) return nullptr;
  KJ_SYSCALL(raw, path);
  kj::AutoCloseFd fd(raw);
  struct stat status;
  KJ_SYSCALL(fstat(fd, &status), path);
  auto size = static_cast<size_t>(status.st_size);
  auto from = size - kj::min(size, most);
  auto text = kj::heapString(size - from);
  size_t done = 0;
  while (done < text.size()) {
    ssize_t n;
    KJ_SYSCALL(n = pread(fd, text.begin() + done, text.size() - done, from + done), path);
    if (n == 0) return kj::heapString(text.slice(0, done));  // the file was truncated meanwhile
    done += n;
  }
  return kj::mv(text);
}

}  // namespace talos
