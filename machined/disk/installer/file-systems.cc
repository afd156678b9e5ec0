#include "machined/disk/installer/file-systems.h"

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
#include "machined/disk/installer/partition-layout.h"

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

void makeXfs(kj::StringPtr node, kj::StringPtr label) {
  // STATE is smaller than the minimum of mkfs.xfs, so --unsupported is needed.
  kj::Vector<kj::StringPtr> command;
  for (auto part : {kMkfsXfs, "-q"_kj, "-f"_kj, "--unsupported"_kj, "-n"_kj, "ftype=1"_kj}) {
    command.add(part);
  }
  if (label.size() > 0) command.addAll(kj::arr("-L"_kj, label));
  command.add(node);
  runTool(command);
}
// The usual log of 64 MiB would leave too little space for two systems with the drivers of all
// machines.
void makeBootXfs(kj::StringPtr node, kj::ArrayPtr<const kj::StringPtr> more) {
  const kj::StringPtr options[] = {kMkfsXfs, "-q"_kj,
                                   "-f"_kj,  "--unsupported"_kj,
                                   "-m"_kj,  "bigtime=0,inobtcount=0,rmapbt=0,reflink=0"_kj,
                                   "-i"_kj,  "nrext64=0,exchange=0"_kj,
                                   "-n"_kj,  "ftype=1,parent=0"_kj,
                                   "-l"_kj,  "size=8m"_kj,
                                   "-L"_kj,  kBoot};
  kj::Vector<kj::StringPtr> command;
  for (auto option : options) command.add(option);
  command.addAll(more);
  command.add(node);
  runTool(command);
}
void makeFat(kj::StringPtr node, kj::ArrayPtr<const kj::StringPtr> more,
             kj::ArrayPtr<const kj::StringPtr> environment) {
  const kj::StringPtr options[] = {kMkfsFat, "-F"_kj, "32"_kj, "-n"_kj, kEfi};
  kj::Vector<kj::StringPtr> command;
  for (auto option : options) command.add(option);
  command.addAll(more);
  command.add(node);
  runTool(command, environment);
}

}  // namespace talos::install
