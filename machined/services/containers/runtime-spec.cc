// runtimeSpec() and grantableCapabilities() of container-run.h.
#include <errno.h>
#include <kj/vector.h>
#include <sched.h>

#include "common/kernel/process-capabilities.h"
#include "common/kernel/refused-calls.h"
#include "common/text/foreign-text.h"
#include "machined/services/containers/container-run.h"

namespace talos::machined {
namespace {

// JSON of lists and objects that are written in order.
kj::String listOf(kj::ArrayPtr<const kj::StringPtr> texts) {
  return kj::str('[', kj::strArray(KJ_MAP(t, texts) { return jsonString(t); }, ","), ']');
}
kj::String listOf(kj::ArrayPtr<const kj::String> texts) {
  return kj::str('[', kj::strArray(KJ_MAP(t, texts) { return jsonString(t); }, ","), ']');
}

#if defined(__aarch64__)
constexpr kj::StringPtr kFilterArchitecture = "SCMP_ARCH_AARCH64"_kj;
#else
constexpr kj::StringPtr kFilterArchitecture = "SCMP_ARCH_X86_64"_kj;
#endif

// The capabilities that Docker and containerd give a container by default.
constexpr kj::StringPtr kCapabilities[] = {
    "CAP_CHOWN"_kj,   "CAP_DAC_OVERRIDE"_kj, "CAP_FSETID"_kj,           "CAP_FOWNER"_kj,
    "CAP_MKNOD"_kj,   "CAP_NET_RAW"_kj,      "CAP_SETGID"_kj,           "CAP_SETUID"_kj,
    "CAP_SETFCAP"_kj, "CAP_SETPCAP"_kj,      "CAP_NET_BIND_SERVICE"_kj, "CAP_SYS_CHROOT"_kj,
    "CAP_KILL"_kj,    "CAP_AUDIT_WRITE"_kj};
constexpr kj::StringPtr kMasked[] = {
    "/proc/acpi"_kj,          "/proc/kcore"_kj,      "/proc/keys"_kj,
    "/proc/latency_stats"_kj, "/proc/timer_list"_kj, "/proc/timer_stats"_kj,
    "/proc/sched_debug"_kj,   "/proc/scsi"_kj,       "/sys/firmware"_kj};
constexpr kj::StringPtr kReadOnly[] = {"/proc/asound"_kj, "/proc/bus"_kj, "/proc/fs"_kj,
                                       "/proc/irq"_kj,    "/proc/sys"_kj, "/proc/sysrq-trigger"_kj};

struct KernelMount {
  kj::StringPtr destination, type;
  kj::ArrayPtr<const kj::StringPtr> options;
};
constexpr kj::StringPtr kPlain[] = {"nosuid"_kj, "noexec"_kj, "nodev"_kj},
                        kDev[] = {"nosuid"_kj, "strictatime"_kj, "mode=755"_kj, "size=65536k"_kj},
                        kPts[] = {"nosuid"_kj,        "noexec"_kj,    "newinstance"_kj,
                                  "ptmxmode=0666"_kj, "mode=0620"_kj, "gid=5"_kj},
                        kShm[] = {"nosuid"_kj, "noexec"_kj, "nodev"_kj, "mode=1777"_kj,
                                  "size=65536k"_kj},
                        kSys[] = {"nosuid"_kj, "noexec"_kj, "nodev"_kj, "ro"_kj};
const KernelMount kMounts[] = {
    {"/proc"_kj, "proc"_kj, kPlain},         {"/dev"_kj, "tmpfs"_kj, kDev},
    {"/dev/pts"_kj, "devpts"_kj, kPts},      {"/dev/shm"_kj, "tmpfs"_kj, kShm},
    {"/dev/mqueue"_kj, "mqueue"_kj, kPlain}, {"/sys"_kj, "sysfs"_kj, kSys}};

// Returns the member of a mount with the ranges; empty without ranges.
kj::String mappingsOf(kj::StringPtr name, kj::ArrayPtr<const ContainerIds> ids) {
  if (ids.size() == 0) return kj::String();
  auto ranges = KJ_MAP(range, ids) {
    return kj::str("{\"containerID\":", range.container, ",\"hostID\":", range.host,
                   ",\"size\":", range.size, "}");
  };
  return kj::str(",\"", name, "\":[", kj::strArray(ranges, ","), "]");
}

kj::String mountOf(kj::StringPtr destination, kj::StringPtr type, kj::StringPtr source,
                   kj::ArrayPtr<const kj::StringPtr> options, kj::StringPtr mappings = "") {
  return kj::str("{\"destination\":", jsonString(destination), ",\"type\":", jsonString(type),
                 ",\"source\":", jsonString(source), ",\"options\":", listOf(options), mappings,
                 "}");
}
kj::String bindOf(kj::StringPtr source, kj::StringPtr destination, bool writable) {
  kj::StringPtr options[] = {"rbind"_kj, writable ? "rw"_kj : "ro"_kj};
  return mountOf(destination, "bind", source, options);
}

kj::String bindOf(const ContainerMount& m) {
  if (m.options == nullptr && m.type == nullptr) return bindOf(m.source, m.destination, m.writable);
  auto options = KJ_MAP(o, m.options)->kj::StringPtr {
    return o;
  };
  auto mappings = kj::str(mappingsOf("uidMappings", m.uids), mappingsOf("gidMappings", m.gids));
  return mountOf(m.destination, m.type == nullptr ? "bind"_kj : kj::StringPtr(m.type), m.source,
                 options, mappings);
}

// All capabilities by number (capabilities(7)).
constexpr kj::StringPtr kAllCapabilities[] = {"CAP_CHOWN"_kj,
                                              "CAP_DAC_OVERRIDE"_kj,
                                              "CAP_DAC_READ_SEARCH"_kj,
                                              "CAP_FOWNER"_kj,
                                              "CAP_FSETID"_kj,
                                              "CAP_KILL"_kj,
                                              "CAP_SETGID"_kj,
                                              "CAP_SETUID"_kj,
                                              "CAP_SETPCAP"_kj,
                                              "CAP_LINUX_IMMUTABLE"_kj,
                                              "CAP_NET_BIND_SERVICE"_kj,
                                              "CAP_NET_BROADCAST"_kj,
                                              "CAP_NET_ADMIN"_kj,
                                              "CAP_NET_RAW"_kj,
                                              "CAP_IPC_LOCK"_kj,
                                              "CAP_IPC_OWNER"_kj,
                                              "CAP_SYS_MODULE"_kj,
                                              "CAP_SYS_RAWIO"_kj,
                                              "CAP_SYS_CHROOT"_kj,
                                              "CAP_SYS_PTRACE"_kj,
                                              "CAP_SYS_PACCT"_kj,
                                              "CAP_SYS_ADMIN"_kj,
                                              "CAP_SYS_BOOT"_kj,
                                              "CAP_SYS_NICE"_kj,
                                              "CAP_SYS_RESOURCE"_kj,
                                              "CAP_SYS_TIME"_kj,
                                              "CAP_SYS_TTY_CONFIG"_kj,
                                              "CAP_MKNOD"_kj,
                                              "CAP_LEASE"_kj,
                                              "CAP_AUDIT_WRITE"_kj,
                                              "CAP_AUDIT_CONTROL"_kj,
                                              "CAP_SETFCAP"_kj,
                                              "CAP_MAC_OVERRIDE"_kj,
                                              "CAP_MAC_ADMIN"_kj,
                                              "CAP_SYSLOG"_kj,
                                              "CAP_WAKE_ALARM"_kj,
                                              "CAP_BLOCK_SUSPEND"_kj,
                                              "CAP_AUDIT_READ"_kj,
                                              "CAP_PERFMON"_kj,
                                              "CAP_BPF"_kj,
                                              "CAP_CHECKPOINT_RESTORE"_kj};

kj::String rightsOf(const ContainerSpec& spec) {
  if (spec.privileged || spec.extension != nullptr) return listOf(spec.capabilities);
  return spec.uid == 0 ? listOf(kCapabilities) : listOf(kj::ArrayPtr<const kj::StringPtr>());
}

// Returns true if one of the container's own mounts is at this path or above it.
bool isMountedBySpec(const ContainerSpec& spec, kj::StringPtr path) {
  for (auto& m : spec.mounts) {
    auto& own = m.destination;
    if (path.startsWith(own) && (path.size() == own.size() || path[own.size()] == '/')) return true;
  }
  return false;
}

// Returns the mounts of every container, but for those that an extension replaces, and its own.
kj::Vector<kj::String> mountsOfExtension(const ContainerSpec& spec, const ExtensionBounds& bounds) {
  kj::Vector<kj::String> mounts;
  for (auto& m : kMounts) {
    if (isMountedBySpec(spec, m.destination)) continue;
    bool writable = m.destination == "/sys" && bounds.writableSysfs;
    kj::ArrayPtr<const kj::StringPtr> options = m.options;
    if (writable) options = kPlain;
    mounts.add(mountOf(m.destination, m.type, m.type, options));
  }
  for (auto path : {"/etc/hosts"_kj, "/etc/resolv.conf"_kj}) {
    if (!isMountedBySpec(spec, path)) mounts.add(bindOf(path, path, false));
  }
  for (auto& m : spec.mounts) mounts.add(bindOf(m));
  return mounts;
}

kj::Vector<kj::String> mountsOf(const ContainerSpec& spec) {
  KJ_IF_MAYBE (bounds, spec.extension) return mountsOfExtension(spec, *bounds);
  kj::Vector<kj::String> mounts;
  if (spec.privileged) {
    // The node's /proc, including the mounts that hide parts of it: a new /proc would show
    // everything of the kernel's.
    mounts.add(bindOf("/proc", "/proc", true));
  } else {
    for (auto& m : kMounts) mounts.add(mountOf(m.destination, m.type, m.type, m.options));
  }
  for (auto path : {"/etc/hosts"_kj, "/etc/resolv.conf"_kj}) mounts.add(bindOf(path, path, false));
  for (auto& m : spec.mounts) mounts.add(bindOf(m));
  return mounts;
}

// Returns a rule of the filter for these calls, with a condition in JSON or without.
kj::String refusal(kj::StringPtr names, int error, kj::StringPtr condition = nullptr) {
  return kj::str("{\"names\":", names, ",\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":", error,
                 condition.size() > 0 ? kj::str(",\"args\":[", condition, "]") : kj::String(), "}");
}
kj::String argumentIs(kj::StringPtr comparison, uint64_t value, uint64_t other = 0) {
  return kj::str("{\"index\":0,\"value\":", value, ",\"valueTwo\":", other, ",\"op\":\"",
                 comparison, "\"}");
}

// Returns the profile "foreign" of machined/confined/sandbox, except for execve: the runtime makes
// that call itself, after it has installed the filter. Architectures that are not named are
// refused.
kj::String filterOf() {
  auto refused = KJ_MAP(name, kRefusedCalls)->kj::StringPtr {
    return name;
  };
  kj::Vector<kj::String> rules;
  rules.add(refusal(listOf(refused), EPERM));
  rules.add(refusal("[\"socketpair\"]", EPERM));
  uint64_t next = 0;  // families by number, and all numbers between two of them
  for (auto family : kForeignFamilies) {
    for (; next < family; ++next) {
      rules.add(refusal("[\"socket\"]", EPERM, argumentIs("SCMP_CMP_EQ", next)));
    }
    ++next;
  }
  rules.add(refusal("[\"socket\"]", EPERM, argumentIs("SCMP_CMP_GE", next)));
  // Permits threads, but no processes; if the newer call fails, the C library makes this call.
  rules.add(refusal("[\"clone\"]", EPERM, argumentIs("SCMP_CMP_MASKED_EQ", CLONE_THREAD)));
  rules.add(refusal("[\"clone3\"]", ENOSYS));
  return kj::str("\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ALLOW\",", "\"architectures\":[\"",
                 kFilterArchitecture, "\"],\"syscalls\":[", kj::strArray(rules, ","), "]}");
}

kj::String boundsOfExtension(const ExtensionBounds& bounds) {
  auto pathsOf = [](const kj::Maybe<kj::Array<kj::String>>& given,
                    kj::ArrayPtr<const kj::StringPtr> usual) {
    KJ_IF_MAYBE (paths, given) return listOf(paths->asPtr());
    return listOf(usual);
  };
  kj::StringPtr propagation = bounds.propagation;
  if (propagation.size() == 0) propagation = "private"_kj;
  return kj::str("\"rootfsPropagation\":", jsonString(propagation),
                 ",\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"mount\"}],",
                 "\"resources\":{\"devices\":[{\"allow\":true,\"access\":\"rwm\"}]},",
                 "\"maskedPaths\":", pathsOf(bounds.masked, kMasked),
                 ",\"readonlyPaths\":", pathsOf(bounds.readOnly, kReadOnly));
}

// Returns the namespaces that the container shares with the node, and the parts of the kernel that
// it may reach.
kj::String boundsOf(const ContainerSpec& spec) {
  KJ_IF_MAYBE (bounds, spec.extension) return boundsOfExtension(*bounds);
  if (spec.privileged) {
    return kj::str("\"rootfsPropagation\":\"shared\",\"namespaces\":[{\"type\":\"mount\"}],",
                   "\"resources\":{\"devices\":[{\"allow\":true,\"access\":\"rwm\"}]}");
  }
  return kj::str("\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"ipc\"},{\"type\":\"mount\"}],",
                 "\"resources\":{\"devices\":[{\"allow\":false,\"access\":\"rwm\"}]},",
                 "\"maskedPaths\":", listOf(kMasked), ",\"readonlyPaths\":", listOf(kReadOnly), ",",
                 filterOf());
}

}  // namespace

kj::Array<kj::StringPtr> grantableCapabilities() {
  kj::Vector<kj::StringPtr> grantable;
  for (auto i : kj::indices(kAllCapabilities)) {
    if (process1May(static_cast<unsigned>(i))) grantable.add(kAllCapabilities[i]);
  }
  return grantable.releaseAsArray();
}

kj::String runtimeSpec(const ContainerSpec& spec) {
  auto rights = rightsOf(spec);
  bool isPartOfNode = spec.privileged || spec.extension != nullptr;
  bool readOnlyRoot = false;
  KJ_IF_MAYBE (bounds, spec.extension) readOnlyRoot = !bounds->writableRoot;
  return kj::str(
      "{\"ociVersion\":\"1.0.2\",\"process\":{\"user\":{\"uid\":", spec.uid, ",\"gid\":", spec.uid,
      "},\"args\":", listOf(spec.arguments), ",\"env\":", listOf(spec.environment),
      ",\"cwd\":\"/\",\"noNewPrivileges\":", isPartOfNode ? "false" : "true",
      ",\"oomScoreAdj\":", spec.oomScore, ",\"capabilities\":{\"bounding\":", rights,
      ",\"effective\":", rights, ",\"permitted\":", rights, "}},\"root\":{\"path\":\"rootfs\"",
      readOnlyRoot ? ",\"readonly\":true" : "", "},\"mounts\":[", kj::strArray(mountsOf(spec), ","),
      "],\"linux\":{\"cgroupsPath\":", jsonString(kj::str("/", spec.cgroup)), ",", boundsOf(spec),
      "}}");
}

}  // namespace talos::machined
