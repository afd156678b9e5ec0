#include "talosctl/config/editor.h"

#include <errno.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/lines.h"

namespace talos::talosctl {

namespace {

constexpr size_t kMostEditedBytes = 4u << 20;

kj::Maybe<kj::String> variable(Dependencies& deps, kj::StringPtr name) {
  KJ_IF_MAYBE (value, deps.environment(name)) {
    if (value->size() > 0) return kj::mv(*value);
  }
  return nullptr;
}

// A child that is terminated when this object is destroyed.
class Child {
 public:
  Child(kj::UnixEventPort& port, kj::ArrayPtr<kj::String> arguments) : port(port) {
    kj::Vector<char*> argv;
    for (auto& argument : arguments) argv.add(argument.begin());
    argv.add(nullptr);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    KJ_DEFER(posix_spawnattr_destroy(&attributes));
    // The parent's signals are blocked, or handled by the loop.
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    for (int s : {SIGINT, SIGTERM, SIGPIPE}) sigaddset(&usual, s);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int failed = posix_spawn(&pid, argv[0], nullptr, &attributes, argv.begin(), environ);
    if (failed != 0) KJ_FAIL_SYSCALL("posix_spawn", failed, arguments[0]);
    int raw = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    KJ_SYSCALL(raw);
    pidfd = kj::AutoCloseFd(raw);
  }
  ~Child() noexcept(false) {
    if (pid > 0) kill(pid, SIGTERM);
  }
  KJ_DISALLOW_COPY_AND_MOVE(Child);

  // Resolves to the result of waitid(2).
  kj::Promise<siginfo_t> onExit() {
    kj::UnixEventPort::FdObserver observer(port, pidfd,
                                           kj::UnixEventPort::FdObserver::OBSERVE_READ);
    for (;;) {
      // Must be before the check: the event is edge-triggered.
      auto ready = observer.whenBecomesReadable();
      siginfo_t info = {};
      KJ_SYSCALL(waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd.get()), &info,
                        WEXITED | WNOHANG));
      if (info.si_pid != 0) {
        pid = 0;
        co_return info;
      }
      co_await ready;
    }
  }

 private:
  kj::UnixEventPort& port;
  pid_t pid = 0;
  kj::AutoCloseFd pidfd;
};

void checkEnd(const siginfo_t& info, kj::StringPtr editor) {
  if (info.si_code == CLD_EXITED && info.si_status == 0) return;
  auto how = info.si_code != CLD_EXITED ? kj::str("was killed by signal ", info.si_status)
             : info.si_status == 127    ? kj::str("was not found; set TALOS_EDITOR or EDITOR")
                                        : kj::str("exited with status ", info.si_status);
  fail(ErrorKind::kFailedPrecondition,
       kj::str("the editor \"", editor, "\" ", how, "; nothing was applied"));
}

}  // namespace

kj::String editorOf(Dependencies& deps) {
  for (auto name : {"TALOS_EDITOR", "EDITOR"}) {
    KJ_IF_MAYBE (value, variable(deps, name)) return kj::mv(*value);
  }
  bool in = deps.console.inIsTerminal();
  if (in && deps.console.outIsTerminal()) return kj::str("vi");
  fail(ErrorKind::kFailedPrecondition,
       kj::str(
           "cannot edit: ", in ? "standard output" : "standard input",
           " is not a terminal; use `talosctl patch`, or set TALOS_EDITOR or EDITOR to a program "
           "that changes the file without a terminal"));
}

Draft::Draft(Dependencies& deps, kj::StringPtr name) : deps(deps) {
  auto base = kj::str("/tmp");
  for (auto place : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    KJ_IF_MAYBE (value, variable(deps, place)) base = kj::mv(*value);
  }
  folder = kj::str(base, "/talosctl-edit-XXXXXX");
  if (mkdtemp(folder.begin()) == nullptr) {  // 0700
    fail(ErrorKind::kFailedPrecondition,
         kj::str("cannot create a folder for the editor in ", base, ": ", strerror(errno)));
  }
  file = kj::str(folder, "/", name);
}

Draft::~Draft() noexcept(false) {
  if (kept) return;
  // This may run while another exception is thrown.
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { removeTree(folder); })) {
    deps.console.err(
        kj::str("WARNING: cannot remove ", folder, ", which holds secrets: ", messageOf(*e), "\n"));
  }
}

kj::StringPtr Draft::keep(kj::StringPtr text) {
  writeFileAtomically(file, text, 0600);
  kept = true;
  return file;
}

kj::Promise<kj::String> Draft::edit(kj::StringPtr editor, kj::StringPtr text) {
  writeFileAtomically(file, text, 0600);
  // The trap only protects the shell: the editor handles Ctrl-C.
  auto arguments =
      kj::arr(kj::str("/bin/sh"), kj::str("-c"), kj::str("trap : INT; ", editor, " \"$1\""),
              kj::str(editor), kj::str(file));
  deps.console.waiting("");
  deps.terminalLent = true;
  KJ_DEFER({
    deps.terminalLent = false;
    deps.console.waiting(kWaiting);
  });
  Child child(deps.port, arguments);
  auto info = co_await child.onExit();
  checkEnd(info, editor);
  co_return readFile(file, kMostEditedBytes);
}

namespace {

// Ignores differences that editors make: they remove trailing blanks, or add a carriage return.
kj::ArrayPtr<const char> withoutEnd(kj::ArrayPtr<const char> line) {
  size_t size = line.size();
  while (size > 0 && (line[size - 1] == ' ' || line[size - 1] == '\r')) --size;
  return line.slice(0, size);
}

}  // namespace

kj::String asComments(kj::ArrayPtr<const kj::String> lines) {
  return kj::strArray(
      KJ_MAP(line, lines) { return kj::str("#", line.size() > 0 ? " " : "", line, "\n"); }, "");
}

kj::String withoutComments(kj::StringPtr text, kj::StringPtr comments) {
  auto isOurs = [&](kj::ArrayPtr<const char> line) {
    for (auto own : Lines(comments)) {
      if (withoutEnd(own) == withoutEnd(line)) return true;
    }
    return false;
  };
  for (auto line : Lines(text)) {
    if (!isOurs(line)) return kj::heapString(line.begin(), text.end() - line.begin());
  }
  return kj::String();
}

bool isBlank(kj::StringPtr text) {
  for (auto line : Lines(text)) {
    for (char c : line) {
      if (c == '#') break;
      if (c != ' ' && c != '\t' && c != '\r') return false;
    }
  }
  return true;
}

bool sameText(kj::StringPtr a, kj::StringPtr b) {
  return withoutLastBreaks(a) == withoutLastBreaks(b);
}

}  // namespace talos::talosctl
