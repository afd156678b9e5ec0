#include "machined/system/kernel-parameters.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/folder.h"

namespace talos::machined {
namespace {

// The parameters between kOfNetwork and kOfBridges belong to a network namespace, and so to a
// container.
const Sysctl kSysctls[] = {
    {"kernel.kptr_restrict", "1"},
    {"kernel.dmesg_restrict", "1"},
    {"kernel.perf_event_paranoid", "3"},
    {"kernel.yama.ptrace_scope", "1"},
    {"user.max_user_namespaces", "0"},
    {"kernel.unprivileged_bpf_disabled", "1"},
    {"net.core.bpf_jit_harden", "2"},
    {"kernel.pid_max", "262144"},
    {"net.ipv4.ip_forward", "1"},
    // The kernel checks "all" before it forwards a packet.
    {"net.ipv6.conf.default.forwarding", "1"},
    {"net.ipv6.conf.all.forwarding", "1"},
    // Removing an address keeps the other addresses of its subnet.
    {"net.ipv4.conf.all.promote_secondaries", "1"},
    {"net.ipv4.conf.default.promote_secondaries", "1"},
    // A new network namespace has them on by default.
    {"net.bridge.bridge-nf-call-iptables", "1"},
    {"net.bridge.bridge-nf-call-ip6tables", "1"},
};
constexpr size_t kMostValue = 64;  // bytes of a number
constexpr size_t kOfNetwork = 8, kOfBridges = 13;

kj::String parameterPath(kj::StringPtr procSys, kj::StringPtr key) {
  auto path = kj::str(procSys, "/", key);
  for (size_t i = procSys.size() + 1; i < path.size(); i++) {
    if (path[i] == '.') path[i] = '/';
  }
  return path;
}

// Returns 0 or an errno.
int writeValue(kj::StringPtr path, kj::StringPtr value) {
  int fd = open(path.cStr(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  kj::AutoCloseFd closer(fd);
  ssize_t written = write(fd, value.begin(), value.size());
  return written < 0 ? errno : 0;
}

}  // namespace

kj::Vector<kj::String> missingKsppParameters(const KernelArguments& arguments) {
  kj::Vector<kj::String> missing;
  auto want = [&](kj::StringPtr key, kj::StringPtr value) {
    if (arguments.contains(key, value)) return;
    auto wanted = value == nullptr ? kj::str(key) : kj::str(key, "=", value);
    KJ_IF_MAYBE (found, arguments.first(key)) {
      missing.add(kj::str("kernel parameter ", key, " is \"", *found, "\", must be ", wanted));
    } else {
      missing.add(kj::str("kernel parameter ", wanted, " is missing"));
    }
  };
  want("slab_nomerge", "");
  want("pti", "on");
  return missing;
}

kj::ArrayPtr<const Sysctl> requiredSysctls(bool container) {
  auto all = kj::arrayPtr(kSysctls, kj::size(kSysctls));
  return container ? all.slice(kOfNetwork, kOfBridges) : all;
}

kj::Vector<kj::String> acceptRouterAdvertisements(kj::StringPtr procSys) {
  kj::Vector<kj::String> changed;
  auto folder = kj::str(procSys, "/net/ipv6/conf");
  for (auto& link : namesIn(folder)) {
    if (link == "all" || link == "default" || link == "lo") continue;
    auto file = kj::str(folder, "/", link, "/accept_ra");
    // 0 was set on purpose.
    auto current = tryReadFile(file, kMostValue).orDefault(kj::str());
    if (!current.startsWith("1")) continue;
    if (writeValue(file, "2") == 0) changed.add(kj::str(link));
  }
  return changed;
}

SysctlResult writeSysctls(kj::StringPtr procSys, kj::ArrayPtr<const Sysctl> sysctls) {
  SysctlResult result;
  for (auto& s : sysctls) {
    int problem = writeValue(parameterPath(procSys, s.key), s.value);
    if (problem == ENOENT) {
      result.absent.add(kj::str(s.key));
    } else if (problem != 0) {
      result.refused.add(kj::str(s.key, "=", s.value, ": ", strerror(problem)));
    }
  }
  return result;
}

void raiseFileLimit() {
  constexpr rlim_t kFiles = 1048576;
  struct rlimit limit = {kFiles, kFiles};
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
  // The launcher allows the container less, so all that it allows is set.
  KJ_SYSCALL(getrlimit(RLIMIT_NOFILE, &limit));
  limit.rlim_cur = kj::min(limit.rlim_max, kFiles);
  KJ_SYSCALL(setrlimit(RLIMIT_NOFILE, &limit));
}

}  // namespace talos::machined
