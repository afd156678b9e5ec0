// Five minutes of the node's activity and resources, one sample a second (rpc/machine.capnp:
// Sample), so that an operator who investigates a fault sees the time before it.
//
// The samples are only in memory, 30 KiB of them: a crash of the brain loses them, and the next
// brain starts empty. Reading costs some ten files of /proc a second, on the pool for reads; a
// sample that cannot be read is left out, and the next sample covers its time, too. Follows
// proc(5), Documentation/accounting/psi.rst and Documentation/admin-guide/iostats.rst.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/timer.h>
#include <kj/vector.h>

#include "machined/api/proc-text.h"
#include "machined/process1/read-pool.h"
#include "rpc/machine.capnp.h"

namespace talos::machined {

constexpr auto kSampleInterval = 1 * kj::SECONDS;
constexpr size_t kSamplesKept = 300;

struct Sample {
  uint64_t uptimeMs = 0;
  uint16_t cpuBusy = 0, cpuSystem = 0, cpuIowait = 0, cpuSteal = 0;  // in 1/10 %
  float load1 = 0;
  uint64_t memoryTotal = 0, memoryAvailable = 0;
  uint64_t diskRead = 0, diskWritten = 0, networkReceived = 0, networkSent = 0;  // bytes a second
  uint32_t processes = 0;
  float pressureCpu = 0, pressureMemory = 0, pressureIo = 0;  // in %
};

// The sources of one sample, as the kernel wrote them.
struct SampleSources {
  uint64_t uptimeMs = 0;
  kj::String stat, load, disks, links;
  kj::String pressureCpu, pressureMemory, pressureIo;  // empty if the kernel does not count it
  // Counters of the node's own control group and its limit (cpu.stat, cpu.max), if the node is a
  // container: /proc/stat is the host's then. Empty otherwise.
  kj::String groupCpu = nullptr, groupLimit = nullptr;
  kj::Vector<MemoryLine> memory;
  kj::Vector<kj::String> realDisks, realLinks;  // names of those that are counted
};
struct SamplePaths {
  kj::String proc, sys, cgroups, memory;
};
// Reads the sources; blocks. Only links that are devices count; without any, as in a container,
// links named eth….
SampleSources readSampleSources(const SamplePaths& paths, uint64_t uptimeMs);

// Makes samples from the sources of two moments. Pure.
class SampleMaker {
 public:
  // Returns nullptr for the first sources, and if no time has passed. A counter that decreased
  // counts as 0.
  kj::Maybe<Sample> next(const SampleSources& now);

 private:
  struct Counters {
    uint64_t uptimeMs = 0;
    uint64_t user = 0, system = 0, idle = 0, iowait = 0, steal = 0;  // ticks of all processors
    uint64_t diskRead = 0, diskWritten = 0, received = 0, sent = 0;  // bytes
  };
  kj::Maybe<Counters> before;

  static Counters countersOf(const SampleSources& now);
};

class SampleHistory {
 public:
  SampleHistory(ReadPool& pool, kj::Timer& timer, SamplePaths paths);
  KJ_DISALLOW_COPY_AND_MOVE(SampleHistory);

  // Takes a sample each interval until dropped. Does not reject.
  kj::Promise<void> run();
  void add(const Sample& sample);
  // Writes the samples of the last `lastMs` milliseconds, 0: all samples; oldest first.
  void fill(uint64_t lastMs, rpc::Machine::SamplesResults::Builder out) const;

 private:
  ReadPool& pool;
  kj::Timer& timer;
  SamplePaths paths;
  SampleMaker maker;
  kj::Array<Sample> ring = kj::heapArray<Sample>(kSamplesKept);
  size_t count = 0;  // number of samples ever added

  kj::Promise<void> takeOne();
};

}  // namespace talos::machined
