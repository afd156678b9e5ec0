#include "machined/disk/installer/confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/kernel/library-folders.h"
#include "machined/disk/installer/file-systems.h"

namespace talos::install {
namespace {

constexpr kj::StringPtr kSelf = "/proc/self/exe"_kj;
constexpr size_t kMostResult = 64u << 10;
// First byte of a result: the kind of an error, or this value.
constexpr unsigned kFinished = 255;

// mkfs.xfs and mkfs.fat also open these, to find mounted disks and the kind of the disk.
constexpr kj::StringPtr kReads[] = {"/proc"_kj, "/sys"_kj, "/dev/null"_kj, "/dev/urandom"_kj};

void keepCapability(kj::Maybe<unsigned> kept) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2] = {};
  KJ_SYSCALL(syscall(SYS_capget, &header, data));
  for (unsigned i = 0; i < 2; ++i) {
    uint32_t mask = 0;
    KJ_IF_MAYBE (c, kept) mask = *c / 32 == i ? 1u << (*c % 32) : 0;
    data[i].permitted &= mask;  // a missing capability stays missing
    data[i].effective = data[i].inheritable = data[i].permitted;
  }
  // The kernel also removes non-inheritable capabilities from the ambient set.
  KJ_SYSCALL(syscall(SYS_capset, &header, data));
}

[[noreturn]] void runStep(pid_t parent, int result, Confinement& confinement,
                          kj::Function<kj::String(Confinement&)>& body) {
  unsigned char kind = kFinished;
  kj::String text;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                 KJ_SYSCALL(prctl(PR_SET_PDEATHSIG, SIGKILL));
                 KJ_REQUIRE(getppid() == parent, "the installer is gone");
                 text = body(confinement);
               })) {
    kind = static_cast<unsigned char>(kindOf(*e));
    text = messageOf(*e);
  }
  kj::FdOutputStream out(result);
  bool written = kj::runCatchingExceptions([&]() {
                   out.write(&kind, sizeof kind);
                   out.write(text.begin(), text.size());
                 }) == nullptr;
  _exit(written ? 0 : 1);
}

kj::String resultOf(kj::ArrayPtr<const kj::byte> bytes, int status) {
  bool whole = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!whole || bytes.size() == 0) {
    fail(ErrorKind::kInternal,
         WIFSIGNALED(status)
             ? kj::str("the installer was killed by signal ", WTERMSIG(status), " (",
                       strsignal(WTERMSIG(status)), ")")
             : kj::str("the installer ended without a result: status ", WEXITSTATUS(status)));
  }
  auto text = kj::heapString(bytes.slice(1, bytes.size()).asChars());
  if (bytes[0] == kFinished) return text;
  bool known = bytes[0] <= static_cast<unsigned>(ErrorKind::kUnimplemented);
  fail(known ? static_cast<ErrorKind>(bytes[0]) : ErrorKind::kInternal, text);
}

}  // namespace

void RealConfinement::enter(StepKind kind, confine::LandlockPaths paths) {
  kj::Maybe<confine::Landlock> landlock;
  if (confine::Landlock::version() > 0) landlock.emplace(kSelf, paths);
  kj::Maybe<unsigned> kept;
  if (kind == StepKind::kDisk) kept = CAP_SYS_ADMIN;
  keepCapability(kept);
  KJ_IF_MAYBE (l, landlock) l->enter();
}

kj::String RealConfinement::step(kj::Function<kj::String(Confinement&)> body) {
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  kj::AutoCloseFd reading(ends[0]), writing(ends[1]);
  pid_t parent = getpid(), child;
  KJ_SYSCALL(child = fork());
  if (child == 0) {
    reading = nullptr;
    runStep(parent, writing, *this, body);
  }
  writing = nullptr;
  kj::Array<kj::byte> bytes;
  auto failure = kj::runCatchingExceptions(
      [&]() { bytes = kj::FdInputStream(reading.get()).readAllBytes(kMostResult); });
  reading = nullptr;  // a step that writes too much ends
  int status;
  while (waitpid(child, &status, 0) < 0) KJ_REQUIRE(errno == EINTR, strerror(errno));
  KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
  return resultOf(bytes, status);
}

kj::String pathOf(int fd) {
  return kj::str("/proc/self/fd/", fd);
}

confine::LandlockPaths pathsToFormat(kj::ArrayPtr<const kj::String> devices) {
  confine::LandlockPaths paths;
  for (auto& device : devices) paths.devices.add(kj::str(device));
  for (auto program : kFormatters) paths.libraries.add(kj::str(program));
  for (auto folder : kLibraryFolders) paths.libraries.add(kj::str(folder));
  for (auto path : kReads) paths.read.add(kj::str(path));
  return paths;
}

confine::LandlockPaths pathsToWrite(int top) {
  confine::LandlockPaths paths;
  paths.write.add(pathOf(top));
  return paths;
}

}  // namespace talos::install
