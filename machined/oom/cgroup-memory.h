// The memory of the node's cgroups: its pressure (PSI, Documentation/accounting/psi.rst), its use,
// and the kill of a cgroup (Documentation/admin-guide/cgroup-v2.rst: cgroup.kill).
//
// Everything is read from memory of the kernel, so it takes less than 5 ms and needs no disk. A
// file that does not exist, as of a class without pods, reads as zero. The cgroup of process 1 and
// the brain, `init`, is in no class and never killed.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/cel/oom-expressions.h"

namespace talos::machined {

using cel::CgroupClass;
constexpr size_t kClassCount = kj::size(cel::kCgroupClasses);

// Indexes of cel::kPressures and of cel::kUses.
constexpr size_t kSomeAvg10 = 0, kSomeTotal = 3, kFullAvg10 = 4, kFullAvg60 = 5, kFullTotal = 7;
constexpr size_t kCurrent = 0, kPeak = 1, kMax = 2;

// Values in the order of cel::kPressures: averages in percent, totals in microseconds.
struct MemoryPressure {
  double values[kj::size(cel::kPressures)] = {};
};
MemoryPressure parsePressure(kj::StringPtr text);

struct MemorySample {
  MemoryPressure node;
  struct {
    // That of the cgroup that waits the most, for a class with several.
    MemoryPressure pressure;
    double uses[kj::size(cel::kUses)] = {};  // bytes; infinite without a limit
    unsigned measured = 0;                   // cgroups that the values are of
  } classes[kClassCount];
};

// A cgroup that could be killed: a pod, or a service of the node.
struct KillCandidate {
  kj::String path;  // kubepods/besteffort/pod…
  CgroupClass cgroupClass;
  kj::Maybe<uint64_t> uses[kj::size(cel::kUses)];  // nullptr: no limit, or the kernel has no value
};

struct KilledCgroup {
  uint32_t processes = 0;
  kj::Vector<kj::AutoCloseFd> pidfds;  // some of them, for releaseMemory()
};
// Frees the memory of killed processes at once, before they have run to their end
// (process_mrelease(2)). Blocking; an error is ignored, because the processes end anyway.
void releaseMemory(kj::ArrayPtr<const kj::AutoCloseFd> pidfds);

class CgroupMemory {
 public:
  CgroupMemory(kj::StringPtr cgroups = "/sys/fs/cgroup", kj::StringPtr proc = "/proc")
      : cgroups(kj::str(cgroups)), proc(kj::str(proc)) {}

  // Returns nullptr if the kernel does not measure pressure.
  kj::Maybe<MemorySample> sample() const;
  // Returns the cgroups that have processes, those of a class in the order of their paths.
  kj::Vector<KillCandidate> candidates() const;
  // Kills all processes of the cgroup and of those below it. Fails with the kernel's error.
  KilledCgroup kill(kj::StringPtr path) const;

 private:
  kj::String cgroups, proc;

  void add(kj::Vector<KillCandidate>& list, kj::String path, CgroupClass cgroupClass) const;
  void addPods(kj::Vector<KillCandidate>& list, kj::StringPtr folder, CgroupClass podClass) const;
};

}  // namespace talos::machined
