#include "machined/api/cgroup-facts.h"

#include <dirent.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <kj/vector.h>
#include <unistd.h>

#include <algorithm>

#include "machined/api/proc-text.h"

namespace talos::machined {
namespace {

constexpr size_t kMostOfFile = 1u << 20;
constexpr unsigned kMostDepth = 64;
constexpr kj::StringPtr kResources[] = {"cpu"_kj, "memory"_kj, "io"_kj};

// One group: its files of version 2, and those of version 1 if version 1 counts its memory or
// confines it to processors.
struct CgroupFolders {
  kj::String unified, memory, cpuset;
};

kj::Maybe<kj::String> textOf(kj::StringPtr folder, kj::StringPtr name) {
  int raw = open(kj::str(folder, '/', name).cStr(), O_RDONLY | O_CLOEXEC);
  if (raw < 0) return nullptr;
  kj::AutoCloseFd fd(raw);
  kj::Vector<char> content;
  char chunk[4096];
  while (content.size() < kMostOfFile) {
    ssize_t n = read(fd, chunk, sizeof chunk);
    if (n < 0) return nullptr;
    if (n == 0) break;
    content.addAll(kj::arrayPtr(chunk, n));
  }
  return kj::heapString(content.begin(), content.size());
}

constexpr int64_t kUncounted = rpc::Cgroup::UNCOUNTED;

int64_t limitIn(kj::StringPtr folder, kj::StringPtr name) {
  KJ_IF_MAYBE (text, textOf(folder, name)) return parseCgroupLimit(*text);
  return kUncounted;
}

int64_t keyIn(kj::StringPtr text, kj::StringPtr key) {
  KJ_IF_MAYBE (value, flatKey(text, key)) return static_cast<int64_t>(*value);
  return kUncounted;
}

// Returns the value of "rbytes=12" with the key "rbytes="; nullptr if the field has another key.
kj::Maybe<kj::ArrayPtr<const char>> valueOf(kj::ArrayPtr<const char> field, kj::StringPtr key) {
  if (field.size() < key.size() || field.slice(0, key.size()) != key.asArray()) return nullptr;
  return field.slice(key.size(), field.size());
}

// "12.34"
double decimal(kj::ArrayPtr<const char> text) {
  return kj::heapString(text).tryParseAs<double>().orDefault(0);
}

// Without a limit, version 1 reports 2^63 in pages, rounded down.
int64_t limitOfVersion1(int64_t limit) {
  return limit > int64_t{1} << 60 ? -1 : limit;
}

void fillMemory(const CgroupFolders& folders, rpc::Cgroup::Builder out) {
  KJ_IF_MAYBE (current, textOf(folders.unified, "memory.current")) {
    auto memory = out.initMemory();
    memory.setCurrent(parseCgroupLimit(*current));
    memory.setPeak(limitIn(folders.unified, "memory.peak"));
    memory.setMin(limitIn(folders.unified, "memory.min"));
    memory.setLow(limitIn(folders.unified, "memory.low"));
    memory.setHigh(limitIn(folders.unified, "memory.high"));
    memory.setMax(limitIn(folders.unified, "memory.max"));
    memory.setSwapCurrent(limitIn(folders.unified, "memory.swap.current"));
    memory.setSwapMax(limitIn(folders.unified, "memory.swap.max"));
    auto events = textOf(folders.unified, "memory.events").orDefault(nullptr);
    memory.setOomKills(keyIn(events, "oom_kill"));
    return;
  }
  KJ_IF_MAYBE (current, textOf(folders.memory, "memory.usage_in_bytes")) {
    auto memory = out.initMemory();
    memory.setCurrent(parseCgroupLimit(*current));
    memory.setPeak(limitIn(folders.memory, "memory.max_usage_in_bytes"));
    memory.setMin(kUncounted), memory.setLow(kUncounted), memory.setHigh(kUncounted);
    memory.setMax(limitOfVersion1(limitIn(folders.memory, "memory.limit_in_bytes")));
    memory.setSwapCurrent(kUncounted), memory.setSwapMax(kUncounted);
    auto control = textOf(folders.memory, "memory.oom_control").orDefault(nullptr);
    memory.setOomKills(keyIn(control, "oom_kill"));
  }
}

void fillCpu(const CgroupFolders& folders, rpc::Cgroup::Builder out) {
  KJ_IF_MAYBE (stat, textOf(folders.unified, "cpu.stat")) {
    auto cpu = out.initCpu();
    cpu.setUsageUs(keyIn(*stat, "usage_usec"));
    cpu.setUserUs(keyIn(*stat, "user_usec"));
    cpu.setSystemUs(keyIn(*stat, "system_usec"));
    cpu.setThrottledUs(keyIn(*stat, "throttled_usec"));
    cpu.setThrottledPeriods(keyIn(*stat, "nr_throttled"));
    cpu.setWeight(limitIn(folders.unified, "cpu.weight"));
    cpu.setQuotaUs(kUncounted), cpu.setPeriodUs(kUncounted);
    KJ_IF_MAYBE (most, textOf(folders.unified, "cpu.max")) parseCpuMax(*most, cpu);
  }
}

// cpuset(7) and the kernel's cgroup-v2.rst; version 1 has other names for the effective lists.
bool fillCpuset(kj::StringPtr folder, kj::StringPtr effectiveCpus, kj::StringPtr effectiveNodes,
                rpc::Cgroup::Builder out) {
  if (textOf(folder, effectiveCpus) == nullptr) return false;
  auto list = [&](kj::StringPtr name) {
    auto text = textOf(folder, name).orDefault(nullptr);
    kj::ArrayPtr<const char> rest = text;
    return kj::heapString(nextField(rest));
  };
  auto cpuset = out.initCpuset();
  cpuset.setCpus(list("cpuset.cpus"));
  cpuset.setEffectiveCpus(list(effectiveCpus));
  cpuset.setMemoryNodes(list("cpuset.mems"));
  cpuset.setEffectiveMemoryNodes(list(effectiveNodes));
  return true;
}

void fillGroup(const CgroupFolders& folders, kj::StringPtr path, rpc::Cgroup::Builder out) {
  out.setPath(path);
  KJ_IF_MAYBE (text, textOf(folders.unified, "cgroup.procs")) {
    out.setProcesses(static_cast<uint32_t>(std::count(text->begin(), text->end(), '\n')));
  }
  fillMemory(folders, out);
  fillCpu(folders, out);
  fillCpuset(folders.unified, "cpuset.cpus.effective", "cpuset.mems.effective", out) ||
      fillCpuset(folders.cpuset, "cpuset.effective_cpus", "cpuset.effective_mems", out);
  KJ_IF_MAYBE (current, textOf(folders.unified, "pids.current")) {
    auto pids = out.initPids();
    pids.setCurrent(parseCgroupLimit(*current));
    pids.setPeak(limitIn(folders.unified, "pids.peak"));
    pids.setMax(limitIn(folders.unified, "pids.max"));
  }
  KJ_IF_MAYBE (stat, textOf(folders.unified, "io.stat")) parseIoStat(*stat, out.initIo());
  struct Found {
    kj::StringPtr resource;
    kj::String text;
  };
  kj::Vector<Found> found;
  for (auto resource : kResources) {
    KJ_IF_MAYBE (text, textOf(folders.unified, kj::str(resource, ".pressure"))) {
      found.add(Found{resource, kj::mv(*text)});
    }
  }
  auto list = out.initPressure(found.size());
  for (auto i : kj::indices(found)) {
    list[i].setResource(found[i].resource);
    parsePressure(found[i].text, list[i]);
  }
}

// Collects each group before its children, siblings by name.
void collectGroups(kj::StringPtr tree, kj::StringPtr path, unsigned depth, size_t most,
                   kj::Vector<kj::String>& groups, uint64_t& leftOut) {
  if (groups.size() < most) {
    groups.add(kj::str(path));
  } else {
    ++leftOut;
  }
  if (depth == kMostDepth) return;
  DIR* directory = opendir(kj::str(tree, '/', path).cStr());
  if (directory == nullptr) return;  // it has vanished
  kj::Vector<kj::String> names;
  while (auto* entry = readdir(directory)) {
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.') names.add(kj::str(entry->d_name));
  }
  closedir(directory);
  std::sort(names.begin(), names.end());
  for (auto& name : names) {
    collectGroups(tree, path.size() == 0 ? kj::str(name) : kj::str(path, '/', name), depth + 1,
                  most, groups, leftOut);
  }
}

}  // namespace

int64_t parseCgroupLimit(kj::ArrayPtr<const char> text) {
  auto field = nextField(text);
  if (field == "max"_kj.asArray()) return -1;
  auto value = parseNumber(field).orDefault(0);
  return static_cast<int64_t>(kj::min(value, static_cast<uint64_t>(int64_t(kj::maxValue))));
}

void parseCpuMax(kj::ArrayPtr<const char> text, rpc::Cgroup::Cpu::Builder out) {
  out.setQuotaUs(parseCgroupLimit(nextField(text)));
  out.setPeriodUs(parseCgroupLimit(nextField(text)));
}

void parseIoStat(kj::ArrayPtr<const char> text, rpc::Cgroup::Io::Builder out) {
  kj::ArrayPtr<const char> line;
  while (nextLine(text, line)) {
    for (auto field = nextField(line); field.size() > 0; field = nextField(line)) {
      auto number = [&](kj::StringPtr key) -> int64_t {
        KJ_IF_MAYBE (value, valueOf(field, key)) return parseCgroupLimit(*value);
        return 0;
      };
      out.setReadBytes(out.getReadBytes() + number("rbytes="));
      out.setWrittenBytes(out.getWrittenBytes() + number("wbytes="));
      out.setReads(out.getReads() + number("rios="));
      out.setWrites(out.getWrites() + number("wios="));
    }
  }
}

void parsePressure(kj::ArrayPtr<const char> text, rpc::Cgroup::Pressure::Builder out) {
  kj::ArrayPtr<const char> line;
  while (nextLine(text, line)) {
    auto kind = nextField(line);
    double averages[3] = {};
    int64_t total = 0;
    constexpr kj::StringPtr kKeys[] = {"avg10="_kj, "avg60="_kj, "avg300="_kj};
    for (auto field = nextField(line); field.size() > 0; field = nextField(line)) {
      for (size_t i = 0; i < 3; ++i) {
        KJ_IF_MAYBE (value, valueOf(field, kKeys[i])) averages[i] = decimal(*value);
      }
      KJ_IF_MAYBE (value, valueOf(field, "total=")) total = parseCgroupLimit(*value);
    }
    if (kind == "some"_kj.asArray()) {
      out.setSomeAvg10(averages[0]), out.setSomeAvg60(averages[1]);
      out.setSomeAvg300(averages[2]), out.setSomeTotalUs(total);
    } else if (kind == "full"_kj.asArray()) {
      out.setFullAvg10(averages[0]), out.setFullAvg60(averages[1]);
      out.setFullAvg300(averages[2]), out.setFullTotalUs(total);
    }
  }
}

kj::Own<capnp::MallocMessageBuilder> readCgroups(kj::StringPtr root, size_t most) {
  bool alone = textOf(root, "cgroup.controllers") != nullptr;
  auto tree = alone ? kj::str(root) : kj::str(root, "/unified");
  kj::Vector<kj::String> groups;
  uint64_t leftOut = 0;
  collectGroups(tree, "", 0, most, groups, leftOut);
  auto message = kj::heap<capnp::MallocMessageBuilder>();
  auto results = message->initRoot<rpc::Machine::CgroupsResults>();
  results.setLeftOut(leftOut);
  auto list = results.initGroups(groups.size());
  for (auto i : kj::indices(groups)) {
    CgroupFolders folders{kj::str(tree, '/', groups[i]), kj::str(root, "/memory/", groups[i]),
                          kj::str(root, "/cpuset/", groups[i])};
    fillGroup(folders, groups[i], list[i]);
  }
  return message;
}

}  // namespace talos::machined
