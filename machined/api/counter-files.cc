#include "machined/api/counter-files.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"

namespace talos::machined {
namespace {

// /proc/cpuinfo of a thousand processors is 1.5 MB; an answer is one message of at most 8 MiB.
constexpr size_t kMostBytes = 4u << 20;
// Limit of a file with one value.
constexpr size_t kMostValue = 4096;

constexpr kj::StringPtr kFrequencyFiles[] = {"scaling_cur_freq"_kj, "scaling_min_freq"_kj,
                                             "scaling_max_freq"_kj, "scaling_governor"_kj};

// Files of Counter::kernel, below /proc.
constexpr kj::StringPtr kKernelFiles[] = {"/pressure/cpu"_kj,
                                          "/pressure/memory"_kj,
                                          "/pressure/io"_kj,
                                          "/vmstat"_kj,
                                          "/net/sockstat"_kj,
                                          "/net/snmp"_kj,
                                          "/net/netstat"_kj,
                                          "/sys/fs/file-nr"_kj,
                                          "/sys/net/netfilter/nf_conntrack_count"_kj,
                                          "/sys/net/netfilter/nf_conntrack_max"_kj};
// Each has some kilobytes.
constexpr size_t kMostKernelFile = 256u << 10;

kj::Vector<uint32_t> processorsIn(kj::StringPtr folder) {
  constexpr kj::StringPtr kPrefix = "cpu"_kj;
  kj::Vector<uint32_t> numbers;
  for (auto& name : namesIn(folder)) {
    if (!name.startsWith(kPrefix)) continue;  // "cpufreq" and "cpuidle" have no number
    KJ_IF_MAYBE (n, name.slice(kPrefix.size()).tryParseAs<uint32_t>()) numbers.add(*n);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// Returns nullptr for any error: the file may vanish while it is being read.
kj::Maybe<kj::String> valueAt(kj::StringPtr path, size_t most = kMostValue) {
  kj::Maybe<kj::String> value;
  auto problem = kj::runCatchingExceptions([&] { value = tryReadFile(path, most); });
  return problem == nullptr ? kj::mv(value) : nullptr;
}

kj::Vector<CounterText> readFrequencies(kj::StringPtr sys) {
  kj::Vector<CounterText> all;
  for (auto number : processorsIn(kj::str(sys, "/devices/system/cpu"))) {
    kj::Vector<CounterText> ofOne;
    for (auto file : kFrequencyFiles) {
      auto path = kj::str("/devices/system/cpu/cpu", number, "/cpufreq/", file);
      KJ_IF_MAYBE (text, valueAt(kj::str(sys, path))) {
        ofOne.add(CounterText{kj::str("/sys", path), kj::mv(*text)});
      }
    }
    if (ofOne.size() < kj::size(kFrequencyFiles)) continue;
    for (auto& file : ofOne) all.add(kj::mv(file));
  }
  return all;
}

kj::Vector<CounterText> readKernelFiles(kj::StringPtr proc) {
  kj::Vector<CounterText> all;
  for (auto name : kKernelFiles) {
    KJ_IF_MAYBE (text, valueAt(kj::str(proc, name), kMostKernelFile)) {
      all.add(CounterText{kj::str("/proc", name), kj::mv(*text)});
    }
  }
  return all;
}

}  // namespace

kj::Vector<CounterText> readCounters(kj::StringPtr proc, kj::StringPtr sys, rpc::Counter which) {
  auto one = [&](kj::StringPtr name) {
    kj::Vector<CounterText> all;
    all.add(CounterText{kj::str("/proc", name), readFile(kj::str(proc, name), kMostBytes)});
    return all;
  };
  switch (which) {
    case rpc::Counter::LOAD:
      return one("/loadavg");
    case rpc::Counter::SYSTEM:
      return one("/stat");
    case rpc::Counter::PROCESSORS:
      return one("/cpuinfo");
    case rpc::Counter::NETWORK:
      return one("/net/dev");
    case rpc::Counter::DISKS:
      return one("/diskstats");
    case rpc::Counter::FREQUENCIES:
      return readFrequencies(sys);
    case rpc::Counter::KERNEL:
      return readKernelFiles(proc);
  }
  fail(ErrorKind::kInvalidArgument,
       kj::str(static_cast<unsigned>(which), " is not a counter that this node knows"));
}

}  // namespace talos::machined
