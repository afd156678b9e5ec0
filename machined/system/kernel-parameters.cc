#include "machined/system/kernel-parameters.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

const Sysctl kSysctls[] = {
    {"kernel.kptr_restrict", "1"},
    {"kernel.dmesg_restrict", "1"},
    {"kernel.perf_event_paranoid", "3"},
    {"kernel.yama.ptrace_scope", "1"},
    {"user.max_user_namespaces", "0"},
    {"kernel.unprivileged_bpf_disabled", "1"},
    {"net.core.bpf_jit_harden", "2"},
    {"net.ipv4.ip_forward", "1"},
    {"net.ipv6.conf.default.forwarding", "1"},
    // An address that goes leaves the others of its subnet in place.
    {"net.ipv4.conf.all.promote_secondaries", "1"},
    {"net.ipv4.conf.default.promote_secondaries", "1"},
    {"kernel.pid_max", "262144"},
    // Only outside of containers; last, so that a prefix is the list for containers.
    {"net.bridge.bridge-nf-call-iptables", "1"},
    {"net.bridge.bridge-nf-call-ip6tables", "1"},
};
constexpr size_t kBridgeSysctls = 2;

kj::String parameterPath(kj::StringPtr procSys, kj::StringPtr key) {
  auto path = kj::str(procSys, "/", key);
  for (size_t i = procSys.size() + 1; i < path.size(); i++) {
    if (path[i] == '.') path[i] = '/';
  }
  return path;
}

// 0 or an errno.
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
  return container ? all.slice(0, all.size() - kBridgeSysctls) : all;
}

kj::Vector<kj::String> writeSysctls(kj::StringPtr procSys, kj::ArrayPtr<const Sysctl> sysctls) {
  kj::Vector<kj::String> absent, failed;
  for (auto& s : sysctls) {
    int problem = writeValue(parameterPath(procSys, s.key), s.value);
    if (problem == ENOENT) {
      absent.add(kj::str(s.key));
    } else if (problem != 0) {
      failed.add(kj::str(s.key, "=", s.value, ": ", strerror(problem)));
    }
  }
  if (!failed.empty()) {
    fail(ErrorKind::kInternal,
         kj::str("cannot set kernel parameters: ", kj::strArray(failed, "; ")));
  }
  return absent;
}

void raiseFileLimit() {
  struct rlimit limit = {1048576, 1048576};
  KJ_SYSCALL(setrlimit(RLIMIT_NOFILE, &limit));
}

}  // namespace talos::machined
