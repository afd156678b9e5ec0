#include "talosctl/cluster/containers/node-cgroups.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <set>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/text/texts.h"
#include "talosctl/cluster/containers/container-filters.h"
#include "talosctl/cluster/processes/monotonic-clock.h"

namespace talos::container {
namespace {

constexpr kj::StringPtr kTop = "talos"_kj, kInner = "node"_kj;
constexpr int kKillTimeout = 5000;  // ms until killed processes must have ended
// Limit in ms until processes are frozen. The supervisor answers no requests meanwhile, and the
// states that it shows must be correct within a second; the kernel needs less than one millisecond,
// unless a process is in an uninterruptible system call.
constexpr int kFreezeTimeout = 500;
// Period of the CPU limit in microseconds: the kernel's default.
constexpr unsigned kPeriod = 100000;
// Controllers of v1 that a node gets, in any grouping; `name=systemd` and similar hierarchies
// belong to the host.
constexpr kj::StringPtr kControllers[] = {
    "cpu"_kj,   "cpuacct"_kj, "cpuset"_kj,  "memory"_kj,   "devices"_kj, "freezer"_kj,
    "blkio"_kj, "pids"_kj,    "net_cls"_kj, "net_prio"_kj, "hugetlb"_kj, "perf_event"_kj,
};
// Controllers of v2; those that the host has are passed on. The first ones are those that a cgroup
// with processes cannot pass on.
constexpr kj::StringPtr kV2Controllers[] = {"memory"_kj, "io"_kj, "cpuset"_kj, "cpu"_kj, "pids"_kj};

kj::Vector<kj::String> split(kj::StringPtr text, char at) {
  kj::Vector<kj::String> parts;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != at) continue;
    if (i > begin) parts.add(kj::heapString(text.slice(begin, i)));
    begin = i + 1;
  }
  return parts;
}

// Returns false, with errno, if the kernel refused.
bool tryWrite(kj::StringPtr path, kj::StringPtr text) {
  int fd = open(path.cStr(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool good = ::write(fd, text.begin(), text.size()) == static_cast<ssize_t>(text.size());
  int error = errno;
  close(fd);
  errno = error;
  return good;
}

void write(kj::StringPtr path, kj::StringPtr text) {
  if (tryWrite(path, text)) return;
  fail(ErrorKind::kFailedPrecondition,
       kj::str("cannot write \"", text, "\" to ", path, ": ", strerror(errno)));
}

// Copies a setting from the parent: a cgroup of a v1 cpuset accepts no process before it has CPUs
// and memory nodes.
void inherit(kj::StringPtr parent, kj::StringPtr child, kj::StringPtr name) {
  KJ_IF_MAYBE (value, tryReadFile(kj::str(parent, "/", name))) {
    tryWrite(kj::str(child, "/", name), *value);
  }
}

// Passes the controllers on to the cgroups below; v1 has no such file. A root with processes in it,
// as that of a container, cannot pass on memory and I/O. If it passed on the others, the kernel
// would make it a root of threads, and no process could enter the cgroups below. So it passes on
// none, and this returns false.
bool passControllersOn(kj::StringPtr cgroup) {
  for (auto controller : kV2Controllers) {
    bool passed = tryWrite(kj::str(cgroup, "/cgroup.subtree_control"), kj::str("+", controller));
    if (!passed && errno == EBUSY) return false;
  }
  return true;
}

// Creates `path` below `root`, folder by folder, with controllers enabled and cpusets filled.
// Starts again if another cluster's end removes the common folder at the same time.
void makeCgroups(kj::StringPtr root, kj::StringPtr path, unsigned attempts = 100) {
  auto parent = kj::str(root);
  for (auto& part : split(path, '/')) {
    passControllersOn(parent);
    auto next = kj::str(parent, "/", part);
    if (mkdir(next.cStr(), 0755) < 0 && errno != EEXIST) {
      if (errno == ENOENT && attempts > 1) return makeCgroups(root, path, attempts - 1);
      fail(ErrorKind::kFailedPrecondition,
           kj::str("cannot create the cgroup ", next, ": ", strerror(errno)));
    }
    for (auto name : {"cpuset.cpus"_kj, "cpuset.mems"_kj}) {
      if (access(kj::str(parent, "/cgroup.clone_children").cStr(), F_OK) == 0)
        inherit(parent, next, name);
    }
    parent = kj::mv(next);
  }
}

// Removes the leaves first. A cgroup with a process in it stays.
void removeCgroups(kj::StringPtr path) {
  auto folder = opendir(path.cStr());
  if (folder == nullptr) return;
  while (auto entry = readdir(folder)) {
    kj::StringPtr name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") {
      removeCgroups(kj::str(path, "/", name));
    }
  }
  closedir(folder);
  rmdir(path.cStr());
}

// Adds the processes of the cgroup and of the cgroups below it.
void addProcesses(kj::StringPtr path, std::set<int>& pids) {
  KJ_IF_MAYBE (listed, tryReadFile(kj::str(path, "/cgroup.procs"))) {
    for (auto& line : split(*listed, '\n')) pids.insert(line.parseAs<int>());
  }
  auto folder = opendir(path.cStr());
  if (folder == nullptr) return;
  KJ_DEFER(closedir(folder));
  while (auto entry = readdir(folder)) {
    kj::StringPtr name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") {
      addProcesses(kj::str(path, "/", name), pids);
    }
  }
}

bool exists(kj::StringPtr path) {
  return access(path.cStr(), F_OK) == 0;
}

// Waits until the v2 file has this line: the kernel announces a change by POLLPRI. Returns false at
// the timeout.
bool waitForEvent(kj::StringPtr path, kj::StringPtr line, int timeout) {
  int fd = open(path.cStr(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true;  // the cgroup is gone
  KJ_DEFER(close(fd));
  auto until = monotonicMilliseconds() + timeout;
  for (;;) {
    char text[256];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0) return true;
    text[n] = 0;
    if (strstr(text, line.cStr()) != nullptr) return true;
    auto left = until - monotonicMilliseconds();
    if (left <= 0) return false;
    struct pollfd p = {fd, POLLPRI, 0};
    poll(&p, 1, static_cast<int>(left));
  }
}

}  // namespace

CgroupLayout parseCgroups(kj::StringPtr mounts) {
  CgroupLayout layout;
  for (auto& line : split(mounts, '\n')) {
    auto fields = split(line, ' ');  // source, mount point, type, options
    if (fields.size() < 4) continue;
    if (fields[2] == "cgroup2" && layout.unified.size() == 0) layout.unified = kj::str(fields[1]);
    if (fields[2] != "cgroup") continue;
    kj::Vector<kj::String> found;
    for (auto& option : split(fields[3], ',')) {
      if (contains(kControllers, option)) found.add(kj::mv(option));
    }
    if (found.size() == 0) continue;
    auto controllers = kj::strArray(found, ",");
    bool known = false;
    for (auto& other : layout.v1) known = known || other.controllers == controllers;
    if (known) continue;
    layout.v1.add(CgroupLayout::V1{kj::str(fields[1]), kj::str(controllers), kj::str(controllers)});
  }
  return layout;
}

CgroupLayout readCgroups() {
  return parseCgroups(readFile("/proc/self/mounts"));
}

kj::Array<CgroupMount> CgroupLayout::mounts() const {
  kj::Vector<CgroupMount> result;
  for (auto& each : v1) result.add(CgroupMount{kj::str(each.controllers), kj::str(each.folder)});
  if (unified.size() > 0) result.add(CgroupMount{kj::str(), kj::str(hybrid() ? "unified" : "")});
  return result.releaseAsArray();
}

ClusterCgroups::ClusterCgroups(CgroupLayout layout, kj::StringPtr name)
    : layout(kj::mv(layout)), name(kj::str(kTop, "/", name)) {}

template <typename F>
void ClusterCgroups::eachRoot(F&& handle) const {
  for (auto& each : layout.v1) handle(each.mountPoint);
  if (layout.unified.size() > 0) handle(layout.unified);
}

kj::String ClusterCgroups::unified(kj::StringPtr node) const {
  return kj::str(layout.unified, "/", name, "/", node);
}

void ClusterCgroups::create() {
  if (layout.unified.size() == 0) {
    fail(ErrorKind::kFailedPrecondition,
         "this host has no cgroup v2: mount it with `mount -t cgroup2 none "
         "/sys/fs/cgroup/unified`, or use --provisioner qemu");
  }
  remove();
  eachRoot([&](kj::StringPtr root) { makeCgroups(root, name); });
  attachDeviceFilter(kj::str(layout.unified, "/", name), deviceFilter(allowedDevices()));
}

kj::Vector<kj::String> ClusterCgroups::unlimited() const {
  kj::Vector<kj::String> result;
  kj::String listed;
  if (passControllersOn(layout.unified)) {
    listed = tryReadFile(kj::str(layout.unified, "/cgroup.controllers")).orDefault(kj::str());
  }
  for (auto controller : {"cpu"_kj, "memory"_kj}) {
    bool found = false;
    for (auto& each : layout.v1) {
      for (auto& name : split(each.controllers, ',')) found = found || name == controller;
    }
    for (auto& name : split(listed, ' ')) {
      // The last field has the newline.
      found = found || name == controller || name == kj::str(controller, "\n");
    }
    if (!found) result.add(kj::str(controller));
  }
  return result;
}

kj::Vector<kj::AutoCloseFd> ClusterCgroups::createNode(kj::StringPtr node, const Limits& limits) {
  kj::Vector<kj::AutoCloseFd> procsFiles;
  auto quota = static_cast<uint64_t>(limits.milliCpus) * kPeriod / 1000;
  eachRoot([&](kj::StringPtr root) {
    makeCgroups(root, kj::str(name, "/", node, "/", kInner));
    auto set = [&](kj::StringPtr file, kj::String value) {
      auto path = kj::str(root, "/", name, "/", node, "/", file);
      if (exists(path)) write(path, value);
    };
    if (limits.memory > 0) {
      set("memory.max", kj::str(limits.memory));
      set("memory.limit_in_bytes", kj::str(limits.memory));
    }
    if (limits.milliCpus > 0) {
      set("cpu.max", kj::str(quota, " ", kPeriod));
      set("cpu.cfs_period_us", kj::str(kPeriod));
      set("cpu.cfs_quota_us", kj::str(quota));
    }
    auto procs = kj::str(root, "/", name, "/", node, "/", kInner, "/cgroup.procs");
    int fd;
    KJ_SYSCALL(fd = open(procs.cStr(), O_WRONLY | O_CLOEXEC), procs);
    procsFiles.add(kj::AutoCloseFd(fd));
  });
  // A frozen cgroup of an earlier run would freeze the next run.
  tryWrite(kj::str(unified(node), "/cgroup.freeze"), "0");
  return procsFiles;
}

void ClusterCgroups::freeze(kj::StringPtr node, bool on) {
  auto folder = unified(node);
  write(kj::str(folder, "/cgroup.freeze"), on ? "1" : "0");
  if (waitForEvent(kj::str(folder, "/cgroup.events"), on ? "frozen 1" : "frozen 0",
                   kFreezeTimeout)) {
    return;
  }
  if (on) write(kj::str(folder, "/cgroup.freeze"), "0");  // freezes all of the node, or nothing
  fail(ErrorKind::kDeadlineExceeded,
       kj::str("a process of ", node, " could not be ", on ? "paused" : "resumed", " within ",
               kFreezeTimeout, " ms"));
}

void ClusterCgroups::removeNode(kj::StringPtr node) {
  eachRoot([&](kj::StringPtr root) { removeCgroups(kj::str(root, "/", name, "/", node)); });
}

void ClusterCgroups::remove() {
  if (layout.unified.size() > 0) {
    auto folder = kj::str(layout.unified, "/", name);
    tryWrite(kj::str(folder, "/cgroup.kill"), "1");
    waitForEvent(kj::str(folder, "/cgroup.events"), "populated 0", kKillTimeout);
  }
  std::set<int> pids;  // a process is in one cgroup of each hierarchy
  eachRoot([&](kj::StringPtr root) { addProcesses(kj::str(root, "/", name), pids); });
  if (!pids.empty()) {
    auto list = KJ_MAP(pid, pids) {
      return kj::str(pid);
    };
    fail(ErrorKind::kFailedPrecondition,
         kj::str("processes of this cluster still run: ", kj::strArray(list, ", "),
                 "; end them, then repeat"));
  }
  eachRoot([&](kj::StringPtr root) {
    removeCgroups(kj::str(root, "/", name));
    rmdir(kj::str(root, "/", kTop).cStr());  // succeeds only for the last cluster
  });
}

}  // namespace talos::container
