#include "machined/api/machine-facts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/kernel/network-file-systems.h"

namespace talos::machined {
namespace {

constexpr size_t kArgumentsLimit = 4096;
constexpr size_t kFileLimit = 64u << 10;

// Returns the file's first `limit` bytes; nullptr for any error: a process may exit at any time.
kj::Maybe<kj::String> peek(kj::StringPtr path, size_t limit = kFileLimit) {
  int raw = open(path.cStr(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (raw < 0) return nullptr;
  kj::AutoCloseFd fd(raw);
  kj::Vector<char> content;
  char chunk[4096];
  while (content.size() < limit) {
    ssize_t n = read(fd, chunk, kj::min(sizeof chunk, limit - content.size()));
    if (n < 0) return nullptr;
    if (n == 0) break;
    content.addAll(kj::arrayPtr(chunk, n));
  }
  return kj::heapString(content.begin(), content.size());
}

kj::Maybe<uint64_t> peekNumber(kj::StringPtr path) {
  KJ_IF_MAYBE (text, peek(path)) {
    return parseNumber(*text);
  }
  return nullptr;
}

kj::Maybe<uint64_t> peekKey(kj::StringPtr path, kj::StringPtr key) {
  KJ_IF_MAYBE (text, peek(path)) {
    return flatKey(*text, key);
  }
  return nullptr;
}

kj::String linkTarget(kj::StringPtr path) {
  char target[4096];
  ssize_t n = readlink(path.cStr(), target, sizeof target);
  return n < 0 ? kj::String() : kj::heapString(target, n);
}

// Returns the memory without pages that the kernel can reclaim at once.
kj::Maybe<uint64_t> memoryOf(kj::StringPtr cgroups, kj::StringPtr cgroup) {
  struct Version {
    kj::StringPtr tree, used, droppable;
  };
  for (auto& v : {Version{"", "/memory.current", "inactive_file"},
                  Version{"/memory", "/memory.usage_in_bytes", "total_inactive_file"}}) {
    auto folder = kj::str(cgroups, v.tree, '/', cgroup);
    KJ_IF_MAYBE (used, peekNumber(kj::str(folder, v.used))) {
      auto droppable = peekKey(kj::str(folder, "/memory.stat"), v.droppable).orDefault(0);
      return *used - kj::min(*used, droppable);
    }
  }
  return nullptr;
}

kj::Maybe<uint64_t> cpuMicroseconds(kj::StringPtr cgroups, kj::StringPtr cgroup) {
  for (auto tree : {""_kj, "/unified"_kj}) {
    auto path = kj::str(cgroups, tree, '/', cgroup, "/cpu.stat");
    KJ_IF_MAYBE (used, peekKey(path, "usage_usec")) return *used;
  }
  return nullptr;
}

}  // namespace

kj::Vector<int> pidsOf(kj::StringPtr proc) {
  DIR* directory = opendir(proc.cStr());
  if (directory == nullptr) KJ_FAIL_SYSCALL("opendir", errno, proc);
  KJ_DEFER(closedir(directory));
  kj::Vector<int> pids;
  while (auto* entry = readdir(directory)) {
    KJ_IF_MAYBE (pid, parseNumber(kj::StringPtr(entry->d_name))) {
      pids.add(static_cast<int>(*pid));
    }
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

kj::Vector<ProcessFacts> readProcesses(kj::StringPtr proc) {
  kj::Vector<ProcessFacts> result;
  for (int pid : pidsOf(proc)) {
    auto folder = kj::str(proc, '/', pid);
    KJ_IF_MAYBE (text, peek(kj::str(folder, "/stat"))) {
      KJ_IF_MAYBE (stat, parseStat(*text)) {
        auto cmdline = peek(kj::str(folder, "/cmdline"), kArgumentsLimit).orDefault(nullptr);
        result.add(ProcessFacts{kj::mv(*stat), linkTarget(kj::str(folder, "/exe")),
                                parseArguments(cmdline)});
      }
    }
  }
  return result;
}

kj::Vector<MountFacts> readMounts(kj::StringPtr proc) {
  kj::Vector<MountFacts> result;
  kj::Vector<kj::String> failures;
  for (auto& mount : parseMounts(readFile(kj::str(proc, "/mounts")))) {
    if (isNetworkFileSystem(mount.type.cStr())) {
      result.add(MountFacts{kj::mv(mount)});
      continue;
    }
    struct statvfs space;
    struct stat st;
    if (stat(mount.path.cStr(), &st) < 0 || statvfs(mount.path.cStr(), &space) < 0) {
      // The mount was removed meanwhile, or is hidden below a later one.
      if (errno != ENOENT) failures.add(kj::str(mount.path, ": ", strerror(errno)));
      continue;
    }
    if (!S_ISDIR(st.st_mode)) continue;
    result.add(MountFacts{.mount = kj::mv(mount),
                          .size = uint64_t{space.f_blocks} * space.f_frsize,
                          .available = uint64_t{space.f_bavail} * space.f_frsize,
                          .free = uint64_t{space.f_bfree} * space.f_frsize,
                          .files = space.f_files,
                          .filesFree = space.f_ffree,
                          .readOnly = (space.f_flag & ST_RDONLY) != 0});
  }
  if (!failures.empty()) fail(ErrorKind::kUnavailable, kj::strArray(failures, "; "));
  return result;
}

kj::Vector<ServiceStats> readStats(kj::StringPtr cgroups,
                                   kj::ArrayPtr<const ServiceCgroup> services) {
  kj::Vector<ServiceStats> result;
  for (auto& service : services) {
    KJ_IF_MAYBE (memory, memoryOf(cgroups, service.cgroup)) {
      KJ_IF_MAYBE (cpu, cpuMicroseconds(cgroups, service.cgroup)) {
        result.add(ServiceStats{kj::str(service.id), *memory, *cpu * 1000});
      }
    }
  }
  return result;
}

kj::Maybe<uint64_t> processStartMs(kj::StringPtr proc, int pid) {
  KJ_IF_MAYBE (text, peek(kj::str(proc, "/", pid, "/stat"))) {
    KJ_IF_MAYBE (stat, parseStat(*text)) {
      return stat->startTicks * 1000 / static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
    }
  }
  return nullptr;
}

}  // namespace talos::machined
