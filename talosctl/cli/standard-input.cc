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

// Returns true for files whose reads can block. Others, such as regular files and /dev/null, cannot
// be polled.
bool mayWait(int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) return false;
  return S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || isatty(fd) == 1;
}

class Input {
 public:
  explicit Input(Dependencies& deps) : fd(deps.input) {
    if (!mayWait(fd)) return;
    deps.console.waiting("");  // the command waits for the user, not for a node
    observer.emplace(deps.port, fd, kj::UnixEventPort::FdObserver::OBSERVE_READ);
  }

  // Returns the number of bytes available now; 0 at the end.
  kj::Promise<size_t> read(kj::ArrayPtr<char> buffer) {
    KJ_IF_MAYBE (o, observer) {
      // Must be before the check: the event is edge-triggered.
      auto ready = o->whenBecomesReadable();
      if (!readable(fd)) co_await ready;
    }
    ssize_t n;
    KJ_SYSCALL(n = ::read(fd, buffer.begin(), buffer.size()), "standard input");
    co_return static_cast<size_t>(n);
  }

 private:
  int fd;
  kj::Maybe<kj::UnixEventPort::FdObserver> observer;
};

}  // namespace

kj::Promise<kj::String> readInput(Dependencies& deps, size_t limit) {
  Input input(deps);
  kj::Vector<char> text;
  char chunk[65536];
  KJ_DEFER(zeroize(chunk));
  for (;;) {
    auto n = co_await input.read(chunk);
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

kj::Promise<kj::Maybe<kj::String>> readLine(Dependencies& deps, size_t limit) {
  Input input(deps);
  kj::Vector<char> line;
  bool ended = false;
  while (line.size() < limit) {
    char c;
    ended = co_await input.read(kj::arrayPtr(&c, 1)) == 0;
    if (ended || c == '\n') break;
    line.add(c);
  }
  if (ended && line.empty()) co_return nullptr;
  co_return kj::heapString(line.asPtr());
}

kj::Promise<bool> confirmed(Dependencies& deps, kj::StringPtr question) {
  constexpr size_t kMostAnswer = 16;
  deps.console.err(kj::str(question, " [y/N] "));
  auto said = co_await readLine(deps, kMostAnswer);
  co_return said.map([](kj::String& s) { return s == "y" || s == "yes" || s == "Y"; })
      .orDefault(false);
}

kj::Promise<kj::String> readFileOrInput(Dependencies& deps, kj::StringPtr file, size_t limit) {
  if (file == "-") return readInput(deps, limit);
  return readFile(file, limit);
}

bool canAsk(Invocation& call, kj::StringPtr what, kj::StringPtr agrees) {
  auto& console = call.deps.console;
  if (console.inIsTerminal() == console.errIsTerminal()) return console.errIsTerminal();
  fail(ErrorKind::kFailedPrecondition,
       kj::str("cannot ask ", what, ": ", console.errIsTerminal() ? "standard input" : "stderr",
               " is not a terminal; use ", agrees));
}

}  // namespace talos::talosctl
