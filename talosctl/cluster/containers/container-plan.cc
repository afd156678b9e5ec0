#include "talosctl/cluster/containers/container-plan.h"

#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/base/node-layout.h"
#include "common/image-cache/cache-layout.h"

namespace talos::container {
namespace {

constexpr unsigned long kQuiet = MS_NOSUID | MS_NODEV | MS_NOEXEC;

struct DeviceFile {
  kj::StringPtr name;
  unsigned major, minor;
};
// The kernel's log belongs to the host: a container has the null device instead, which reads as
// empty.
constexpr DeviceFile kDeviceFiles[] = {
    {"null"_kj, 1, 3},    {"zero"_kj, 1, 5}, {"full"_kj, 1, 7}, {"random"_kj, 1, 8},
    {"urandom"_kj, 1, 9}, {"tty"_kj, 5, 0},  {"kmsg"_kj, 1, 3},
};

constexpr AllowedDevice kAllowedDevices[] = {
    {1, 3},           {1, 5}, {1, 7}, {1, 8}, {1, 9},  // null zero full random urandom
    {5, 0},           {5, 2},                          // tty ptmx
    {136, kAnyMinor},                                  // pts
    {10, 200},  // net/tun: its links belong to the network namespace
};

struct Link {
  kj::StringPtr path, target;
};
constexpr Link kLinks[] = {
    {"dev/ptmx"_kj, "pts/ptmx"_kj},          {"dev/fd"_kj, "/proc/self/fd"_kj},
    {"dev/stdin"_kj, "/proc/self/fd/0"_kj},  {"dev/stdout"_kj, "/proc/self/fd/1"_kj},
    {"dev/stderr"_kj, "/proc/self/fd/2"_kj},
};

// Kernel-wide state that a container may read but must not write.
constexpr kj::StringPtr kReadOnly[] = {
    "proc/sys"_kj, "proc/bus"_kj, "proc/fs"_kj, "proc/irq"_kj, "proc/sysrq-trigger"_kj,
};
// Files that reveal memory, keys and timers of the host, or the addresses of its kernel.
constexpr kj::StringPtr kHiddenFiles[] = {
    "proc/kcore"_kj,         "proc/keys"_kj,        "proc/timer_list"_kj, "proc/sched_debug"_kj,
    "proc/latency_stats"_kj, "proc/kallsyms"_kj,    "proc/kpagecount"_kj, "proc/kpageflags"_kj,
    "proc/kpagecgroup"_kj,   "proc/vmallocinfo"_kj,
};
constexpr kj::StringPtr kHiddenFolders[] = {
    "proc/acpi"_kj,          "proc/scsi"_kj,           "sys/firmware"_kj,  "sys/kernel/debug"_kj,
    "sys/kernel/tracing"_kj, "sys/kernel/security"_kj, "sys/fs/pstore"_kj, "sys/fs/bpf"_kj,
};

// Kernel parameters for which the kubelet expects a value, and which it would otherwise write: a
// container shows the expected value, and the host keeps its own (kernel documentation,
// admin-guide/sysctl).
struct ShownSetting {
  kj::StringPtr path, value;
};
constexpr ShownSetting kShownSettings[] = {
    {"vm/overcommit_memory"_kj, "1"_kj},
    {"vm/panic_on_oom"_kj, "0"_kj},
    {"kernel/panic"_kj, "10"_kj},
    {"kernel/panic_on_oops"_kj, "1"_kj},
    {"kernel/keys/root_maxkeys"_kj, "1000000"_kj},
    {"kernel/keys/root_maxbytes"_kj, "25000000"_kj},
};

// Capabilities over resources that no namespace contains: modules, the clock, ports and memory, the
// kernel's log, suspend, security modules, accounting, audit, terminals, performance counters.
constexpr int kDropped[] = {
    CAP_SYS_MODULE,    CAP_SYS_TIME,       CAP_SYS_RAWIO, CAP_SYSLOG,    CAP_WAKE_ALARM,
    CAP_BLOCK_SUSPEND, CAP_MAC_OVERRIDE,   CAP_MAC_ADMIN, CAP_SYS_PACCT, CAP_AUDIT_CONTROL,
    CAP_AUDIT_READ,    CAP_SYS_TTY_CONFIG, CAP_PERFMON,
};

class Plan {
 public:
  kj::Vector<Step> steps;

  Step& add(Step::Kind kind, kj::StringPtr path) {
    return steps.add(Step{.kind = kind,
                          .path = kj::str(path),
                          .source = kj::str(),
                          .type = kj::str(),
                          .data = kj::str()});
  }
  void mount(kj::StringPtr type, kj::StringPtr path, unsigned long flags, kj::StringPtr data = "") {
    auto& step = add(Step::Kind::kMount, path);
    step.source = kj::str(type);
    step.type = kj::str(type);
    step.flags = flags;
    step.data = kj::str(data);
  }
  void bind(kj::StringPtr source, kj::StringPtr path, bool optional = false) {
    auto& step = add(Step::Kind::kMount, path);
    step.source = kj::str(source);
    step.flags = MS_BIND;
    step.optional = optional;
  }
  // MS_BIND changes only this mount, and not the mounted file system.
  void remount(kj::StringPtr path, unsigned long flags, bool optional = false) {
    auto& step = add(Step::Kind::kMount, path);
    step.flags = MS_REMOUNT | MS_BIND | flags;
    step.optional = optional;
  }
  void folder(kj::StringPtr path, mode_t mode) { add(Step::Kind::kFolder, path).mode = mode; }
  void file(kj::StringPtr path, kj::StringPtr content) {
    add(Step::Kind::kFile, path).source = kj::str(content);
  }
};

void planFolders(Plan& plan, const ContainerSettings& settings) {
  plan.mount("tmpfs", "run", MS_NOSUID | MS_NODEV, "mode=755");
  plan.mount("tmpfs", "system", MS_NOSUID | MS_NODEV, "mode=755");
  plan.mount("tmpfs", "tmp", MS_NOSUID | MS_NODEV, "mode=1777");
  plan.folder("system/state", 0700);
  plan.bind(settings.stateFolder, "system/state");
  plan.bind(settings.ephemeralFolder, "var");
  plan.folder("system/boot", 0700);
  plan.bind(settings.slotsFolder, "system/boot");
  plan.remount("system/boot", kQuiet);
  if (settings.imageCache.size() == 0) return;
  plan.folder(imagecache::kCacheFolder.slice(1), 0755);
  plan.folder(imagecache::kDiskRoot.slice(1), 0755);
  plan.bind(settings.imageCache, imagecache::kDiskRoot.slice(1));
  plan.remount(imagecache::kDiskRoot.slice(1), MS_RDONLY | kQuiet);
}

void planDevices(Plan& plan) {
  plan.mount("tmpfs", "dev", MS_NOSUID, "mode=755");
  for (auto& device : kDeviceFiles) {
    auto& step = plan.add(Step::Kind::kDevice, kj::str("dev/", device.name));
    step.mode = S_IFCHR | 0666;
    step.device = makedev(device.major, device.minor);
  }
  for (auto folder : {"pts"_kj, "shm"_kj, "mqueue"_kj}) plan.folder(kj::str("dev/", folder), 0755);
  plan.mount("devpts", "dev/pts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620");
  plan.mount("tmpfs", "dev/shm", MS_NOSUID | MS_NODEV, "mode=1777");
  plan.mount("mqueue", "dev/mqueue", kQuiet);
  for (auto& link : kLinks) {
    plan.add(Step::Kind::kLink, link.path).source = kj::str(link.target);
  }
}

void planCgroups(Plan& plan, kj::ArrayPtr<const CgroupMount> cgroups) {
  bool hybrid = cgroups.size() > 1;
  if (hybrid) plan.mount("tmpfs", "sys/fs/cgroup", kQuiet, "mode=755");
  for (auto& cgroup : cgroups) {
    auto path = hybrid ? kj::str("sys/fs/cgroup/", cgroup.folder) : kj::str("sys/fs/cgroup");
    if (hybrid) plan.folder(path, 0755);
    bool v1 = cgroup.controllers.size() > 0;
    plan.mount(v1 ? "cgroup" : "cgroup2", path, kQuiet, cgroup.controllers);
  }
}

void planMasks(Plan& plan) {
  // Binds before everything around it becomes read-only: a bind of a read-only mount would be
  // read-only, too.
  plan.bind("proc/sys", "proc/sys");
  plan.bind("proc/sys/net", "proc/sys/net");
  for (auto path : kReadOnly) {
    if (path != "proc/sys") plan.bind(path, path, true);
    plan.remount(path, MS_RDONLY | kQuiet, true);
  }
  for (auto path : kHiddenFiles) plan.bind("dev/null", path, true);
  for (auto path : kHiddenFolders) {
    plan.mount("tmpfs", path, MS_RDONLY | kQuiet, "mode=755");
    plan.steps.back().optional = true;
  }
}

void planSettings(Plan& plan) {
  plan.folder("run/.sysctl", 0755);
  for (auto& setting : kShownSettings) {
    auto name = kj::str(setting.path);
    for (char& c : name.asArray()) {
      if (c == '/') c = '.';
    }
    auto file = kj::str("run/.sysctl/", name);
    plan.file(file, kj::str(setting.value, "\n"));
    plan.bind(file, kj::str("proc/sys/", setting.path), true);
  }
}

}  // namespace

kj::Vector<Step> planContainer(const ContainerSettings& settings) {
  Plan plan;
  planFolders(plan, settings);
  plan.mount("proc", "proc", kQuiet);
  plan.mount("sysfs", "sys", kQuiet | MS_RDONLY);
  planDevices(plan);
  planCgroups(plan, settings.cgroups);
  planMasks(plan);
  planSettings(plan);
  plan.file("run/.cmdline", kj::str(settings.arguments, "\n"));
  plan.bind("run/.cmdline", "proc/cmdline");
  plan.file("run/.boot-id", kj::str(settings.bootId, "\n"));
  plan.bind("run/.boot-id", "proc/sys/kernel/random/boot_id");
  if (settings.memory > 0) {
    plan.file(kMemoryOfContainer.slice(1),
              kj::str("MemTotal: ", settings.memory >> 10, " kB\nSwapTotal: 0 kB\n"));
  }
  return kj::mv(plan.steps);
}

kj::String Step::describe() const {
  switch (kind) {
    case Kind::kMount:
      if (flags & MS_REMOUNT) return kj::str("make /", path, " read-only");
      return kj::str("mount ", type.size() > 0 ? type : source, " on /", path);
    case Kind::kFolder:
      return kj::str("create the folder /", path);
    case Kind::kDevice:
      return kj::str("create the device file /", path);
    case Kind::kLink:
      return kj::str("create the link /", path);
    case Kind::kFile:
      return kj::str("write /", path);
  }
  KJ_UNREACHABLE;
}

kj::ArrayPtr<const AllowedDevice> allowedDevices() {
  return kAllowedDevices;
}

kj::ArrayPtr<const int> droppedCapabilities() {
  return kDropped;
}

}  // namespace talos::container
