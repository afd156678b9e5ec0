#include "machined/api/sample-history.h"

#include <time.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/text/texts.h"
#include "machined/api/memory-lines.h"

namespace talos::machined {
namespace {

constexpr uint64_t kSectorBytes = 512;  // unit of /proc/diskstats for all disks

uint64_t uptimeNowMs() {
  struct timespec now;
  KJ_SYSCALL(clock_gettime(CLOCK_BOOTTIME, &now));
  return uint64_t(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

kj::Vector<kj::String> namesWithDevice(kj::StringPtr folder) {
  kj::Vector<kj::String> found;
  for (auto& name : namesIn(folder)) {
    if (access(kj::str(folder, "/", name, "/device").cStr(), F_OK) == 0) found.add(kj::mv(name));
  }
  return found;
}

uint64_t numberField(kj::ArrayPtr<const char>& line) {
  return parseNumber(nextField(line)).orDefault(0);
}

float decimalField(kj::ArrayPtr<const char> field) {
  return static_cast<float>(kj::heapString(field).tryParseAs<double>().orDefault(0));
}

// Returns the first value of the first line: "some avg10=0.31 avg60=…".
float someOf10s(kj::StringPtr pressure) {
  constexpr kj::StringPtr kPrefix = "avg10="_kj;
  kj::ArrayPtr<const char> text = pressure, line;
  if (!nextLine(text, line)) return 0;
  nextField(line);
  auto field = nextField(line);
  if (!kj::heapString(field).startsWith(kPrefix)) return 0;
  return decimalField(field.slice(kPrefix.size(), field.size()));
}

uint64_t bytesOfLine(kj::ArrayPtr<const MemoryLine> lines, kj::StringPtr name) {
  for (auto& line : lines) {
    if (line.name == name) return line.value << 10;
  }
  return 0;
}

// Returns the processors of the machine, in 1/1000: lines "cpu0", "cpu1" …
uint64_t milliProcessors(kj::StringPtr stat) {
  uint64_t count = 0;
  kj::ArrayPtr<const char> text = stat, line;
  while (nextLine(text, line)) {
    auto name = nextField(line);
    count += name.size() > 3 && name.slice(0, 3) == "cpu"_kj.asArray();
  }
  return kj::max(count, uint64_t(1)) * 1000;
}

// Returns the same for the limit of a control group, "200000 100000" or "max 100000".
uint64_t limitedTo(kj::StringPtr limit, uint64_t milli) {
  kj::ArrayPtr<const char> text = limit, line;
  if (!nextLine(text, line)) return milli;
  auto quota = parseNumber(nextField(line)).orDefault(0), period = numberField(line);
  if (quota == 0 || period == 0) return milli;
  return kj::min(milli, quota * 1000 / period);
}

uint64_t grown(uint64_t now, uint64_t before) {
  return now > before ? now - before : 0;
}

}  // namespace

SampleSources readSampleSources(const SamplePaths& paths, uint64_t uptimeMs) {
  auto optional = [&](kj::StringPtr name) {
    return tryReadFile(kj::str(paths.proc, name)).orDefault(nullptr);
  };
  SampleSources sources{.uptimeMs = uptimeMs,
                        .stat = readFile(kj::str(paths.proc, "/stat")),
                        .load = readFile(kj::str(paths.proc, "/loadavg")),
                        .disks = optional("/diskstats"),
                        .links = optional("/net/dev"),
                        .pressureCpu = nullptr,
                        .pressureMemory = nullptr,
                        .pressureIo = nullptr,
                        .memory = readMemory(paths.proc, paths.cgroups, paths.memory),
                        .realDisks = namesWithDevice(kj::str(paths.sys, "/block")),
                        .realLinks = namesWithDevice(kj::str(paths.sys, "/class/net"))};
  // Only a group below the host's root has this file.
  bool container = access(kj::str(paths.cgroups, "/cgroup.type").cStr(), F_OK) == 0;
  auto ofGroup = [&](kj::StringPtr name) {
    return tryReadFile(kj::str(paths.cgroups, name)).orDefault(nullptr);
  };
  if (container) {
    sources.groupCpu = ofGroup("/cpu.stat");
    sources.groupLimit = ofGroup("/cpu.max");
  }
  // In a kernel that was started with psi=0 the files exist, but cannot be opened.
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                 sources.pressureCpu =
                     container ? ofGroup("/cpu.pressure") : optional("/pressure/cpu");
                 sources.pressureMemory =
                     container ? ofGroup("/memory.pressure") : optional("/pressure/memory");
                 sources.pressureIo =
                     container ? ofGroup("/io.pressure") : optional("/pressure/io");
               })) {
    (void)e;
  }
  if (sources.realLinks.empty()) {
    for (auto& name : namesIn(kj::str(paths.sys, "/class/net"))) {
      if (name.startsWith("eth")) sources.realLinks.add(kj::mv(name));
    }
  }
  return sources;
}

SampleMaker::Counters SampleMaker::countersOf(const SampleSources& now) {
  Counters counters{.uptimeMs = now.uptimeMs};
  kj::ArrayPtr<const char> text = now.stat, line;
  if (nextLine(text, line)) {
    nextField(line);  // "cpu"
    uint64_t user = numberField(line), nice = numberField(line), system = numberField(line);
    counters.idle = numberField(line);
    counters.iowait = numberField(line);
    uint64_t interrupts = numberField(line), softInterrupts = numberField(line);
    counters.steal = numberField(line);
    counters.user = user + nice;
    counters.system = system + interrupts + softInterrupts;
  }
  if (now.groupCpu.size() > 0) {
    auto of = [&](kj::StringPtr key) { return flatKey(now.groupCpu, key).orDefault(0); };
    auto used = of("usage_usec");
    counters.system = kj::min(of("system_usec"), used);
    counters.user = used - counters.system;
    // Microseconds that the node could have used since the machine booted.
    auto possible = now.uptimeMs * limitedTo(now.groupLimit, milliProcessors(now.stat));
    counters.idle = possible - kj::min(possible, used);
    counters.iowait = counters.steal = 0;
  }
  text = now.disks;
  while (nextLine(text, line)) {
    nextField(line), nextField(line);  // major and minor number
    if (!contains(now.realDisks, kj::heapString(nextField(line)))) continue;
    numberField(line), numberField(line);  // reads, merged ones
    counters.diskRead += numberField(line) * kSectorBytes;
    numberField(line), numberField(line), numberField(line);  // ms, writes, merged ones
    counters.diskWritten += numberField(line) * kSectorBytes;
  }
  text = now.links;
  while (nextLine(text, line)) {
    // "  eth0: 1234 …", and without the blank if the number is wide.
    auto colon = kj::heapString(line).findFirst(':');
    if (colon == nullptr) continue;
    auto head = line.slice(0, KJ_ASSERT_NONNULL(colon));
    auto rest = line.slice(KJ_ASSERT_NONNULL(colon) + 1, line.size());
    if (!contains(now.realLinks, kj::heapString(nextField(head)))) continue;
    counters.received += numberField(rest);
    for (int skipped = 0; skipped < 7; ++skipped) nextField(rest);
    counters.sent += numberField(rest);
  }
  return counters;
}

kj::Maybe<Sample> SampleMaker::next(const SampleSources& now) {
  auto counters = countersOf(now);
  auto old = before;
  before = counters;
  auto previous = KJ_UNWRAP_OR_RETURN(old, nullptr);
  uint64_t ms = grown(counters.uptimeMs, previous.uptimeMs);
  if (ms == 0) return nullptr;

  Sample sample{.uptimeMs = counters.uptimeMs};
  uint64_t user = grown(counters.user, previous.user);
  uint64_t system = grown(counters.system, previous.system);
  uint64_t iowait = grown(counters.iowait, previous.iowait);
  uint64_t steal = grown(counters.steal, previous.steal);
  uint64_t ticks = user + system + iowait + steal + grown(counters.idle, previous.idle);
  auto part = [&](uint64_t of) {
    return static_cast<uint16_t>(ticks == 0 ? 0 : (of * 1000 + ticks / 2) / ticks);
  };
  sample.cpuBusy = part(user + system + steal);
  sample.cpuSystem = part(system);
  sample.cpuIowait = part(iowait);
  sample.cpuSteal = part(steal);

  kj::ArrayPtr<const char> load = now.load;
  sample.load1 = decimalField(nextField(load));
  nextField(load), nextField(load);
  auto running = kj::heapString(nextField(load));  // "2/345": running, all
  KJ_IF_MAYBE (slash, running.findFirst('/')) {
    sample.processes = static_cast<uint32_t>(
        parseNumber(running.asArray().slice(*slash + 1, running.size())).orDefault(0));
  }
  sample.memoryTotal = bytesOfLine(now.memory, "MemTotal");
  sample.memoryAvailable = bytesOfLine(now.memory, "MemAvailable");
  auto perSecond = [&](uint64_t current, uint64_t earlier) {
    return grown(current, earlier) * 1000 / ms;
  };
  sample.diskRead = perSecond(counters.diskRead, previous.diskRead);
  sample.diskWritten = perSecond(counters.diskWritten, previous.diskWritten);
  sample.networkReceived = perSecond(counters.received, previous.received);
  sample.networkSent = perSecond(counters.sent, previous.sent);
  sample.pressureCpu = someOf10s(now.pressureCpu);
  sample.pressureMemory = someOf10s(now.pressureMemory);
  sample.pressureIo = someOf10s(now.pressureIo);
  return sample;
}

SampleHistory::SampleHistory(ReadPool& pool, kj::Timer& timer, SamplePaths paths)
    : pool(pool), timer(timer), paths(kj::mv(paths)) {}

kj::Promise<void> SampleHistory::takeOne() {
  auto sources = co_await pool.run(
      "reading a sample of the counters",
      [proc = kj::str(paths.proc), sys = kj::str(paths.sys), cgroups = kj::str(paths.cgroups),
       memory = kj::str(paths.memory)]() {
        return readSampleSources({kj::str(proc), kj::str(sys), kj::str(cgroups), kj::str(memory)},
                                 uptimeNowMs());
      });
  KJ_IF_MAYBE (sample, maker.next(sources)) add(*sample);
}

kj::Promise<void> SampleHistory::run() {
  for (;;) {
    // The next sample covers the time of a failed one.
    co_await takeOne().catch_([](kj::Exception&&) {});
    co_await timer.afterDelay(kSampleInterval);
  }
}

void SampleHistory::add(const Sample& sample) {
  ring[count++ % kSamplesKept] = sample;
}

void SampleHistory::fill(uint64_t lastMs, rpc::Machine::SamplesResults::Builder out) const {
  out.setIntervalMs(kSampleInterval / kj::MILLISECONDS);
  size_t kept = kj::min(count, kSamplesKept), first = count - kept;
  if (kept == 0) return;
  uint64_t newest = ring[(count - 1) % kSamplesKept].uptimeMs;
  if (lastMs > 0) {
    while (first < count && ring[first % kSamplesKept].uptimeMs + lastMs <= newest) ++first;
  }
  auto list = out.initSamples(static_cast<unsigned>(count - first));
  for (auto one : list) {
    auto& sample = ring[first++ % kSamplesKept];
    one.setUptimeMs(sample.uptimeMs);
    one.setCpuBusy(sample.cpuBusy);
    one.setCpuSystem(sample.cpuSystem);
    one.setCpuIowait(sample.cpuIowait);
    one.setCpuSteal(sample.cpuSteal);
    one.setLoad1(sample.load1);
    one.setMemoryTotal(sample.memoryTotal);
    one.setMemoryAvailable(sample.memoryAvailable);
    one.setDiskRead(sample.diskRead);
    one.setDiskWritten(sample.diskWritten);
    one.setNetworkReceived(sample.networkReceived);
    one.setNetworkSent(sample.networkSent);
    one.setProcesses(sample.processes);
    one.setPressureCpu(sample.pressureCpu);
    one.setPressureMemory(sample.pressureMemory);
    one.setPressureIo(sample.pressureIo);
  }
}

}  // namespace talos::machined
