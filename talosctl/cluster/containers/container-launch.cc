#include "talosctl/cluster/containers/container-launch.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"
#include "talosctl/cluster/containers/container-filters.h"

namespace talos::container {
namespace {

// In ms, from clone to exec: some 20 on a busy machine. The supervisor answers no requests
// meanwhile.
constexpr int kStartTimeout = 10000;

// The child's present step, which the parent describes in words.
enum class Stage : uint32_t {
  kParent,
  kNetwork,
  kCgroup,
  kCgroupNamespace,
  kImage,
  kStep,
  kRoot,
  kHostname,
  kPrivilege,
  kFilter,
  kProgram
};

struct Report {
  Stage stage;
  uint32_t step;
  int32_t error;
};

// A Step in the form that the child needs: nothing to allocate, nothing to compute.
struct RawStep {
  Step::Kind kind;
  const char *path, *source, *type, *data;
  size_t sourceSize;
  unsigned long flags;
  mode_t mode;
  dev_t device;
  bool optional;
};

struct Prepared {
  const char *image, *hostname, *program;
  size_t hostnameSize;
  kj::Vector<RawStep> steps;
  kj::Vector<int> cgroupProcs;
  kj::Vector<sock_filter> filter;
  kj::Vector<char*> environment;
  int network, console, report;
};

// --- in the child: system calls only

class Child {
 public:
  explicit Child(const Prepared& it) : it(it) {}

  [[noreturn]] void become() {
    dieWithParent();
    enterNamespaces();
    takeImage();
    for (uint32_t i = 0; i < it.steps.size(); ++i) {
      const auto& step = it.steps[i];
      if (carryOut(step) == 0 || (step.optional && errno == ENOENT)) continue;
      fail(Stage::kStep, i);
    }
    enterRoot();
    check(sethostname(it.hostname, it.hostnameSize), Stage::kHostname);
    dropPrivilege();
    exec();
  }

 private:
  const Prepared& it;

  [[noreturn]] void fail(Stage stage, uint32_t step = 0) {
    Report report{stage, step, errno};
    auto ignored = write(it.report, &report, sizeof report);
    (void)ignored;
    _exit(127);
  }
  void check(long result, Stage stage) {
    if (result < 0) fail(stage);
  }

  void dieWithParent() {
    check(prctl(PR_SET_PDEATHSIG, SIGKILL), Stage::kParent);
    // The parent may have died before: then the other end of the pipe is closed.
    struct pollfd p = {it.report, 0, 0};
    if (poll(&p, 1, 0) > 0) _exit(127);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    signal(SIGPIPE, SIG_DFL);  // KJ ignores it
    setsid();
    umask(022);
    // The node must not inherit the keys of the user who started the cluster.
    syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr);
  }

  void enterNamespaces() {
    check(setns(it.network, CLONE_NEWNET), Stage::kNetwork);
    for (int procs : it.cgroupProcs) check(write(procs, "0", 1), Stage::kCgroup);
    // The node's root is the present cgroup of this process, in each hierarchy.
    check(unshare(CLONE_NEWCGROUP), Stage::kCgroupNamespace);
  }

  // This copy of the supervisor's mounts is private, as they are.
  void takeImage() {
    check(mount(it.image, it.image, nullptr, MS_BIND, nullptr), Stage::kImage);
    check(mount(nullptr, it.image, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr),
          Stage::kImage);
    check(chdir(it.image), Stage::kImage);
  }

  int carryOut(const RawStep& step) {
    switch (step.kind) {
      case Step::Kind::kMount:
        return mount(step.source, step.path, step.type, step.flags, step.data);
      case Step::Kind::kFolder:
        return mkdir(step.path, step.mode) < 0 && errno != EEXIST ? -1 : 0;
      case Step::Kind::kDevice:
        // The umask must not restrict devices that everybody may open.
        return mknod(step.path, step.mode, step.device) < 0 ? -1
                                                            : chmod(step.path, step.mode & 07777);
      case Step::Kind::kLink:
        return symlink(step.source, step.path);
      case Step::Kind::kFile: {
        int fd = open(step.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
        if (fd < 0) return -1;
        bool good =
            write(fd, step.source, step.sourceSize) == static_cast<ssize_t>(step.sourceSize);
        close(fd);
        return good ? 0 : -1;
      }
    }
    errno = EINVAL;
    return -1;
  }

  // pivot_root stacks the old root below the new one, where it can be unmounted. Before, the child
  // leaves the supervisor's chroot, if there is one: otherwise the host's tree around it would stay
  // mounted and reachable.
  void enterRoot() {
    int self = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    int root = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (self < 0 || root < 0) fail(Stage::kRoot);
    check(setns(self, CLONE_NEWNS), Stage::kRoot);
    check(fchdir(root), Stage::kRoot);
    check(syscall(SYS_pivot_root, ".", "."), Stage::kRoot);
    check(umount2(".", MNT_DETACH), Stage::kRoot);
    check(chdir("/"), Stage::kRoot);
    check(mount(nullptr, "/", nullptr, MS_REC | MS_SHARED, nullptr), Stage::kRoot);
  }

  void dropPrivilege() {
    for (int capability : droppedCapabilities()) {
      // EINVAL: this kernel does not know the capability.
      if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0 && errno != EINVAL) {
        fail(Stage::kPrivilege);
      }
    }
    check(syscall(SYS_setgroups, 0, nullptr), Stage::kPrivilege);
    // Files have no capabilities to inherit; exec then keeps the capabilities of the bounding set.
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[2] = {};
    check(syscall(SYS_capget, &header, sets), Stage::kPrivilege);
    sets[0].inheritable = sets[1].inheritable = 0;
    check(syscall(SYS_capset, &header, sets), Stage::kPrivilege);
    sock_fprog program = {static_cast<unsigned short>(it.filter.size()),
                          const_cast<sock_filter*>(it.filter.begin())};
    check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), Stage::kFilter);
  }

  [[noreturn]] void exec() {
    int null = open("/dev/null", O_RDONLY);
    dup2(null, 0);
    dup2(it.console, 1);
    dup2(it.console, 2);
    close_range(3, ~0U,
                CLOSE_RANGE_CLOEXEC);  // also closes the pipe to the parent, which means success
    char* argv[] = {const_cast<char*>(it.program), nullptr};
    execve(it.program, argv, it.environment.begin());
    fail(Stage::kProgram);
  }
};

// --- in the parent

Prepared prepare(const Launch& what, int report) {
  Prepared it{.image = what.image.cStr(),
              .hostname = what.hostname.cStr(),
              .program = what.program.cStr(),
              .hostnameSize = what.hostname.size(),
              .steps = {},
              .cgroupProcs = {},
              .filter = systemCallFilter(),
              .environment = {},
              .network = what.network,
              .console = what.console,
              .report = report};
  for (auto& step : what.steps) {
    auto orNull = [](const kj::String& text) { return text.size() > 0 ? text.cStr() : nullptr; };
    it.steps.add(RawStep{.kind = step.kind,
                         .path = step.path.cStr(),
                         .source = orNull(step.source),
                         .type = orNull(step.type),
                         .data = orNull(step.data),
                         .sourceSize = step.source.size(),
                         .flags = step.flags,
                         .mode = step.mode,
                         .device = step.device,
                         .optional = step.optional});
  }
  for (auto& procs : what.cgroupProcs) it.cgroupProcs.add(procs.get());
  for (auto& variable : what.environment) {
    it.environment.add(const_cast<char*>(variable.cStr()));
  }
  it.environment.add(nullptr);
  return it;
}

kj::String describe(const Report& report, const Launch& what) {
  switch (report.stage) {
    case Stage::kParent:
      return kj::str("tie it to its supervisor");
    case Stage::kNetwork:
      return kj::str("enter its network namespace");
    case Stage::kCgroup:
      return kj::str("enter its cgroup");
    case Stage::kCgroupNamespace:
      return kj::str("create its cgroup namespace");
    case Stage::kImage:
      return kj::str("bind the image ", what.image);
    case Stage::kStep:
      return what.steps[report.step].describe();
    case Stage::kRoot:
      return kj::str("make the image its root");
    case Stage::kHostname:
      return kj::str("set its hostname");
    case Stage::kPrivilege:
      return kj::str("drop capabilities");
    case Stage::kFilter:
      return kj::str("install the filter of system calls");
    case Stage::kProgram:
      return kj::str("run ", what.program);
  }
  KJ_UNREACHABLE;
}

// Waits until the child runs its program, which closes the pipe. Returns the error, if any.
kj::Maybe<kj::String> awaitProgram(int pipe, const Launch& what) {
  struct pollfd p = {pipe, POLLIN, 0};
  int ready;
  do {
    ready = poll(&p, 1, kStartTimeout);
  } while (ready < 0 && errno == EINTR);
  auto cannot = kj::str("cannot start ", what.hostname, ": ");
  if (ready == 0) {
    return kj::str(cannot, "its process 1 did not run within ", kStartTimeout / 1000, " s");
  }
  Report report;
  if (read(pipe, &report, sizeof report) != sizeof report) return nullptr;
  return kj::str(cannot, "cannot ", describe(report, what), ": ", strerror(report.error));
}

}  // namespace

Launched launch(const Launch& what) {
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  kj::AutoCloseFd reading(ends[0]), writing(ends[1]);
  auto prepared = prepare(what, writing);
  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = CLONE_PIDFD | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC;
  arguments.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  arguments.exit_signal = SIGCHLD;
  long child = syscall(SYS_clone3, &arguments, sizeof arguments);
  if (child < 0) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("cannot create the namespaces of ", what.hostname, ": ", strerror(errno)));
  }
  if (child == 0) {
    close(reading.get());  // otherwise the child would not notice the parent's death
    Child(prepared).become();
  }
  Launched made{static_cast<int>(child), kj::AutoCloseFd(pidfd)};
  writing = nullptr;
  auto failure = awaitProgram(reading, what);
  KJ_IF_MAYBE (error, failure) {
    syscall(SYS_pidfd_send_signal, made.pidfd.get(), SIGKILL, nullptr, 0);
    siginfo_t info;
    waitid(static_cast<idtype_t>(P_PIDFD), made.pidfd.get(), &info, WEXITED);
    fail(ErrorKind::kFailedPrecondition, *error);
  }
  return made;
}

}  // namespace talos::container
