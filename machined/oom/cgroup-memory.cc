#include "machined/oom/cgroup-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "common/base/error.h"
#include "common/base/folder.h"
#include "common/base/lines.h"
#include "common/kernel/sysfs-attributes.h"
#include "common/text/fields.h"

namespace talos::machined {
namespace {

constexpr size_t kMostPidfds = 256, kDeepest = 8;

// The services whose cgroups have the programs that run pods.
constexpr kj::StringPtr kPodRuntime[] = {"cri"_kj, "kubelet"_kj};

// The cgroups that a class is measured by.
struct ClassGroup {
  CgroupClass cgroupClass;
  kj::StringPtr path;
};
constexpr ClassGroup kClassGroups[] = {
    {CgroupClass::kBesteffort, "kubepods/besteffort"_kj},
    {CgroupClass::kBurstable, "kubepods/burstable"_kj},
    {CgroupClass::kGuaranteed, "kubepods"_kj},
    {CgroupClass::kPodruntime, "system/cri"_kj},
    {CgroupClass::kPodruntime, "system/kubelet"_kj},
    {CgroupClass::kSystem, "system"_kj},
};

// Returns the value of "avg10=0.12".
double numberOf(kj::ArrayPtr<const char> field) {
  auto text = kj::heapString(field);
  KJ_IF_MAYBE (equals, text.findFirst('=')) return strtod(text.cStr() + *equals + 1, nullptr);
  return 0;
}

// Returns nullptr for the text "max", or if there is no such file.
kj::Maybe<uint64_t> bytesIn(kj::StringPtr folder, kj::StringPtr use) {
  KJ_IF_MAYBE (text, readAttributeLine(folder, kj::str("memory.", use))) {
    return text->tryParseAs<uint64_t>();
  }
  return nullptr;
}

bool hasProcesses(kj::StringPtr folder) {
  KJ_IF_MAYBE (events, readAttribute(folder, "cgroup.events")) {
    for (auto line : Lines(*events)) {
      if (line == "populated 1"_kj.asArray()) return true;
    }
  }
  return false;
}

// Returns false for the kernel's files, such as memory.stat. A cgroup's name may have a dot, too.
bool isCgroup(kj::StringPtr path) {
  return access(kj::str(path, "/cgroup.procs").cStr(), F_OK) == 0;
}

// Counts the processes of a cgroup and those below it, and opens the first.
void collect(kj::StringPtr folder, KilledCgroup& killed, size_t depth = 0) {
  KJ_IF_MAYBE (text, readAttribute(folder, "cgroup.procs")) {
    for (auto line : Lines(*text)) {
      auto pid = kj::heapString(line).tryParseAs<int>();
      KJ_IF_MAYBE (p, pid) {
        ++killed.processes;
        if (killed.pidfds.size() >= kMostPidfds) continue;
        int fd = static_cast<int>(syscall(SYS_pidfd_open, *p, 0));
        if (fd >= 0) killed.pidfds.add(kj::AutoCloseFd(fd));
      }
    }
  }
  if (depth == kDeepest) return;
  for (auto& name : namesIn(folder)) {
    auto path = kj::str(folder, "/", name);
    if (isCgroup(path)) collect(path, killed, depth + 1);
  }
}

}  // namespace

MemoryPressure parsePressure(kj::StringPtr text) {
  MemoryPressure pressure;
  constexpr size_t kHalf = kj::size(cel::kPressures) / 2;
  for (auto line : Lines(text)) {
    Fields fields(line);
    auto kind = fields.next();
    size_t first = kind == "some"_kj.asArray()   ? 0
                   : kind == "full"_kj.asArray() ? kHalf
                                                 : kj::size(cel::kPressures);
    for (size_t i = first; i < first + kHalf && i < kj::size(cel::kPressures); ++i) {
      pressure.values[i] = numberOf(fields.next());
    }
  }
  return pressure;
}

void releaseMemory(kj::ArrayPtr<const kj::AutoCloseFd> pidfds) {
  for (auto& fd : pidfds) syscall(SYS_process_mrelease, fd.get(), 0);
}

kj::Maybe<MemorySample> CgroupMemory::sample() const {
  auto node = readAttribute(proc, "pressure/memory");
  if (node == nullptr) return nullptr;
  MemorySample sample;
  sample.node = parsePressure(KJ_ASSERT_NONNULL(node));
  for (auto& group : kClassGroups) {
    auto folder = kj::str(cgroups, "/", group.path);
    auto& values = sample.classes[static_cast<size_t>(group.cgroupClass)];
    KJ_IF_MAYBE (text, readAttribute(folder, "memory.pressure")) {
      ++values.measured;
      auto pressure = parsePressure(*text);
      for (auto i : kj::indices(pressure.values)) {
        values.pressure.values[i] = std::max(values.pressure.values[i], pressure.values[i]);
      }
    }
    for (auto i : kj::indices(cel::kUses)) {
      auto bytes = bytesIn(folder, cel::kUses[i]);
      KJ_IF_MAYBE (b, bytes) {
        values.uses[i] += static_cast<double>(*b);
      } else if (i == kMax) {
        values.uses[i] = std::numeric_limits<double>::infinity();
      }
    }
  }
  return sample;
}

void CgroupMemory::add(kj::Vector<KillCandidate>& list, kj::String path,
                       CgroupClass cgroupClass) const {
  auto folder = kj::str(cgroups, "/", path);
  if (!hasProcesses(folder)) return;
  KillCandidate candidate{kj::mv(path), cgroupClass, {}};
  for (auto i : kj::indices(cel::kUses)) candidate.uses[i] = bytesIn(folder, cel::kUses[i]);
  list.add(kj::mv(candidate));
}

void CgroupMemory::addPods(kj::Vector<KillCandidate>& list, kj::StringPtr folder,
                           CgroupClass podClass) const {
  for (auto& name : namesIn(kj::str(cgroups, "/", folder))) {
    if (name.startsWith("pod")) add(list, kj::str(folder, "/", name), podClass);
  }
}

kj::Vector<KillCandidate> CgroupMemory::candidates() const {
  kj::Vector<KillCandidate> list;
  addPods(list, "kubepods/besteffort", CgroupClass::kBesteffort);
  addPods(list, "kubepods/burstable", CgroupClass::kBurstable);
  addPods(list, "kubepods", CgroupClass::kGuaranteed);
  for (auto& name : namesIn(kj::str(cgroups, "/system"))) {
    bool runtime =
        std::find(std::begin(kPodRuntime), std::end(kPodRuntime), name) != std::end(kPodRuntime);
    add(list, kj::str("system/", name), runtime ? CgroupClass::kPodruntime : CgroupClass::kSystem);
  }
  return list;
}

KilledCgroup CgroupMemory::kill(kj::StringPtr path) const {
  auto folder = kj::str(cgroups, "/", path);
  KilledCgroup killed;
  collect(folder, killed);
  int fd = open(kj::str(folder, "/cgroup.kill").cStr(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) fail(ErrorKind::kFailedPrecondition, kj::str(path, ": ", strerror(errno)));
  kj::AutoCloseFd file(fd);
  if (write(file, "1", 1) != 1) {
    fail(ErrorKind::kFailedPrecondition, kj::str(path, ": ", strerror(errno)));
  }
  return killed;
}

}  // namespace talos::machined
