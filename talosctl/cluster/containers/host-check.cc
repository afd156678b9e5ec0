#include "talosctl/cluster/containers/host-check.h"

#include <errno.h>
#include <kj/debug.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "talosctl/cluster/containers/node-cgroups.h"

namespace talos::container {
namespace {

struct NamespaceKind {
  kj::StringPtr name;
  int flag;
};
constexpr NamespaceKind kKinds[] = {
    {"mnt"_kj, CLONE_NEWNS},  {"pid"_kj, CLONE_NEWPID}, {"net"_kj, CLONE_NEWNET},
    {"uts"_kj, CLONE_NEWUTS}, {"ipc"_kj, CLONE_NEWIPC}, {"cgroup"_kj, CLONE_NEWCGROUP},
};

// Creates the namespaces in a child, so that they end with it.
kj::Maybe<HostFeatures::RefusedNamespace> tryNamespaces() {
  int ends[2];
  KJ_SYSCALL(pipe(ends));
  pid_t child;
  KJ_SYSCALL(child = fork());
  if (child == 0) {
    for (int i = 0; i < static_cast<int>(kj::size(kKinds)); ++i) {
      if (unshare(kKinds[i].flag) == 0) continue;
      int failed[2] = {i, errno};
      auto ignored = write(ends[1], failed, sizeof failed);
      (void)ignored;
      break;
    }
    _exit(0);
  }
  close(ends[1]);
  KJ_DEFER(close(ends[0]));
  int failed[2];
  ssize_t n;
  do {
    n = read(ends[0], failed, sizeof failed);
  } while (n < 0 && errno == EINTR);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (n != sizeof failed) return nullptr;
  return HostFeatures::RefusedNamespace{kKinds[failed[0]].name, failed[1]};
}

// The kernel also looks for a module. A kernel without fsopen(2) is assumed to have the file
// system: otherwise the mount fails later.
bool hasFileSystem(const char* name) {
  long fd = syscall(SYS_fsopen, name, 1 /* FSOPEN_CLOEXEC */);
  if (fd < 0) return errno != ENODEV;
  close(static_cast<int>(fd));
  return true;
}

}  // namespace

kj::Maybe<kj::String> missingFeature(const HostFeatures& host) {
  auto no = [](kj::StringPtr what) {
    return kj::str("nodes in containers cannot run on this host: ", what);
  };
  if (!host.root) return no("talosctl does not run as root; use sudo -E");
  KJ_IF_MAYBE (refused, host.refused) {
    if (refused->error == ENOSPC) {
      return no(kj::str("it has no ", refused->kind, " namespace left; raise user.max_",
                        refused->kind, "_namespaces"));
    }
    return no(kj::str("it does not allow ", refused->kind,
                      " namespaces: ", strerror(refused->error),
                      refused->error == EPERM
                          ? "; if this is a container itself, it needs the capability SYS_ADMIN"
                          : "; its kernel lacks them"));
  }
  if (!host.cgroup2) {
    return no(
        "it has no cgroup v2; mount it with `mkdir /sys/fs/cgroup/unified && mount -t cgroup2 "
        "none /sys/fs/cgroup/unified`");
  }
  if (!host.squashfs) return no("its kernel has no squashfs; load the module squashfs");
  if (!host.overlay) return no("its kernel has no overlayfs; load the module overlay");
  if (!host.loopDevices) return no("it has no /dev/loop-control; load the module loop");
  return nullptr;
}

HostFeatures probeHost() {
  HostFeatures host;
  host.root = geteuid() == 0;
  if (!host.root) return host;  // without root, nothing else can be tried
  host.refused = tryNamespaces();
  host.cgroup2 = readCgroups().unified.size() > 0;
  host.squashfs = hasFileSystem("squashfs");
  host.overlay = hasFileSystem("overlay");
  host.loopDevices = access("/dev/loop-control", R_OK | W_OK) == 0;
  return host;
}

}  // namespace talos::container
