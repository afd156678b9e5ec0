#include "machined/disk/installer/run-mkfs.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <kj/vector.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/text/foreign-text.h"

namespace talos::install {
namespace {

constexpr size_t kMostOutput = 4096;

// Appends a null pointer, as execve(2) requires.
kj::Vector<char*> ended(kj::ArrayPtr<const kj::StringPtr> texts) {
  kj::Vector<char*> pointers;
  for (auto& text : texts) pointers.add(const_cast<char*>(text.cStr()));
  pointers.add(nullptr);
  return pointers;
}

}  // namespace

void runTool(kj::ArrayPtr<const kj::StringPtr> command,
             kj::ArrayPtr<const kj::StringPtr> environment) {
  auto argv = ended(command), variables = ended(environment);
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  kj::AutoCloseFd reading(ends[0]), writing(ends[1]);
  int input;
  KJ_SYSCALL(input = open("/dev/null", O_RDONLY | O_CLOEXEC));
  kj::AutoCloseFd none(input);
  pid_t parent = getpid(), child;
  KJ_SYSCALL(child = fork());
  if (child == 0) {
    // Only calls that are safe after fork: plain system calls.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(input, STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execve(argv[0], argv.begin(), variables.begin());
    _exit(127);
  }
  writing = nullptr;
  auto said = kj::FdInputStream(reading.get()).readAllText();
  int status;
  while (waitpid(child, &status, 0) < 0) KJ_REQUIRE(errno == EINTR, strerror(errno));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  fail(ErrorKind::kInternal, kj::str(command[0], " failed: ", fieldText(said, kMostOutput)));
}

}  // namespace talos::install
