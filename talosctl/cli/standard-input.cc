#include "talosctl/cli/standard-input.h"

#include <errno.h>
#include <kj/debug.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/memory/zeroize.h"

namespace talos::talosctl {

namespace {

// The shell shares the open file description, so it must not become non-blocking.
bool readable(int fd) {
  struct pollfd p = {fd, POLLIN, 0};
  return poll(&p, 1, 0) > 0;
}

// Only these can block a reader. Others, such as files and /dev/null, cannot be watched.
bool mayWait(int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) return false;
  return S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || isatty(fd) == 1;
}

}  // namespace

kj::Promise<kj::String> readInput(Dependencies& deps, size_t limit) {
  kj::Maybe<kj::UnixEventPort::FdObserver> observer;
  if (mayWait(deps.input)) {
    deps.console.waiting("");  // it is the user who is waited for
    observer.emplace(deps.port, deps.input, kj::UnixEventPort::FdObserver::OBSERVE_READ);
  }
  kj::Vector<char> text;
  char chunk[65536];
  KJ_DEFER(zeroize(chunk));
  for (;;) {
    KJ_IF_MAYBE (o, observer) {
      auto ready = o->whenBecomesReadable();  // before the check: it is edge-triggered
      if (!readable(deps.input)) co_await ready;
    }
    ssize_t n;
    KJ_SYSCALL(n = read(deps.input, chunk, sizeof chunk), "standard input");
    if (n == 0) break;
    text.addAll(chunk, chunk + n);
    if (text.size() > limit) {
      fail(ErrorKind::kInvalidArgument, kj::str("standard input is larger than ", limit, " bytes"));
    }
  }
  auto result = kj::heapString(text.asPtr());
  zeroize(text);
  co_return kj::mv(result);
}

kj::Promise<kj::String> readFileOrInput(Dependencies& deps, kj::StringPtr file, size_t limit) {
  if (file == "-") return readInput(deps, limit);
  return readFile(file, limit);
}

}  // namespace talos::talosctl
