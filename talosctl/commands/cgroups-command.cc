// cgroups
#include <math.h>

#include "common/text/size.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/commands/render-answers.h"

namespace talos::talosctl {

namespace {

using Cgroups = rpc::Machine::CgroupsResults;

constexpr uint64_t kSecondUs = 1'000'000;
constexpr kj::StringPtr kUncounted = "-"_kj;

bool isCounted(int64_t value) {
  return value != rpc::Cgroup::UNCOUNTED;
}

kj::String bytesOrMax(int64_t bytes) {
  if (!isCounted(bytes)) return kj::str(kUncounted);
  return bytes < 0 ? kj::str("max") : decimalSize(static_cast<uint64_t>(bytes));
}

kj::String countOrMax(int64_t count) {
  if (!isCounted(count)) return kj::str(kUncounted);
  return count < 0 ? kj::str("max") : kj::str(count);
}

kj::String secondsOf(int64_t us) {
  if (!isCounted(us)) return kj::str(kUncounted);
  return kj::str(fixed(static_cast<uint64_t>(kj::max(us, int64_t{0})), kSecondUs, 2), "s");
}

// Formats a quota in cores: "1.50" for 150 ms in 100 ms.
kj::String quotaOf(rpc::Cgroup::Cpu::Reader cpu) {
  if (!isCounted(cpu.getQuotaUs())) return kj::str(kUncounted);
  if (cpu.getQuotaUs() < 0 || cpu.getPeriodUs() <= 0) return kj::str("max");
  return fixed(static_cast<uint64_t>(cpu.getQuotaUs()), static_cast<uint64_t>(cpu.getPeriodUs()),
               2);
}

kj::String percentOf(double value) {
  return kj::str(fixed(static_cast<uint64_t>(lround(value * 100)), 100, 2), "%");
}

using Cells = kj::Vector<kj::String>;

// A kind of table: its columns after NODE and NAME, and the values of a group that they show.
struct Preset {
  kj::StringPtr name;
  std::vector<kj::StringPtr> columns;
  void (*fill)(rpc::Cgroup::Reader group, Cells& cells);
};

void fillOverview(rpc::Cgroup::Reader group, Cells& cells) {
  cells.add(kj::str(group.getProcesses()));
  cells.add(group.hasMemory() ? bytesOrMax(group.getMemory().getCurrent()) : kj::str(kUncounted));
  cells.add(group.hasMemory() ? bytesOrMax(group.getMemory().getMax()) : kj::str(kUncounted));
  cells.add(group.hasCpu() ? secondsOf(group.getCpu().getUsageUs()) : kj::str(kUncounted));
  cells.add(group.hasPids() ? countOrMax(group.getPids().getCurrent()) : kj::str(kUncounted));
}

void fillMemory(rpc::Cgroup::Reader group, Cells& cells) {
  if (!group.hasMemory()) return;
  auto m = group.getMemory();
  for (auto value : {m.getCurrent(), m.getPeak(), m.getMin(), m.getLow(), m.getHigh(), m.getMax()})
    cells.add(bytesOrMax(value));
  cells.add(countOrMax(m.getOomKills()));
}

void fillSwap(rpc::Cgroup::Reader group, Cells& cells) {
  if (!group.hasMemory()) return;
  cells.add(bytesOrMax(group.getMemory().getSwapCurrent()));
  cells.add(bytesOrMax(group.getMemory().getSwapMax()));
}

void fillCpu(rpc::Cgroup::Reader group, Cells& cells) {
  if (!group.hasCpu()) return;
  auto cpu = group.getCpu();
  cells.add(secondsOf(cpu.getUsageUs()));
  cells.add(secondsOf(cpu.getUserUs()));
  cells.add(secondsOf(cpu.getSystemUs()));
  cells.add(countOrMax(cpu.getWeight()));
  cells.add(quotaOf(cpu));
  cells.add(secondsOf(cpu.getThrottledUs()));
}

void fillCpuset(rpc::Cgroup::Reader group, Cells& cells) {
  if (!group.hasCpuset()) return;
  auto cpuset = group.getCpuset();
  auto add = [&](kj::StringPtr allowed, kj::StringPtr effective) {
    cells.add(kj::str(allowed.size() > 0     ? allowed
                      : effective.size() > 0 ? "inherited"_kj
                                             : kUncounted));
    cells.add(kj::str(effective.size() > 0 ? effective : kUncounted));
  };
  add(cpuset.getCpus(), cpuset.getEffectiveCpus());
  add(cpuset.getMemoryNodes(), cpuset.getEffectiveMemoryNodes());
}

void fillProcesses(rpc::Cgroup::Reader group, Cells& cells) {
  cells.add(kj::str(group.getProcesses()));
  if (!group.hasPids()) return;
  cells.add(countOrMax(group.getPids().getCurrent()));
  cells.add(countOrMax(group.getPids().getPeak()));
  cells.add(countOrMax(group.getPids().getMax()));
}

void fillIo(rpc::Cgroup::Reader group, Cells& cells) {
  if (!group.hasIo()) return;
  cells.add(bytesOrMax(group.getIo().getReadBytes()));
  cells.add(bytesOrMax(group.getIo().getWrittenBytes()));
  cells.add(kj::str(group.getIo().getReads()));
  cells.add(kj::str(group.getIo().getWrites()));
}

void fillPressure(rpc::Cgroup::Reader group, Cells& cells) {
  for (auto resource : {"cpu"_kj, "memory"_kj, "io"_kj}) {
    auto some = kj::str(kUncounted), full = kj::str(kUncounted);
    for (auto pressure : group.getPressure()) {
      if (pressure.getResource() != resource) continue;
      some = percentOf(pressure.getSomeAvg60());
      full = percentOf(pressure.getFullAvg60());
    }
    cells.add(kj::mv(some));
    if (resource != "cpu") cells.add(kj::mv(full));
  }
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"overview", {"PROCESSES", "MEMORY", "MEMORY MAX", "CPU", "TASKS"}, fillOverview},
      {"cpu", {"USAGE", "USER", "SYSTEM", "WEIGHT", "MAX(CORES)", "THROTTLED"}, fillCpu},
      {"cpuset", {"CPUS", "CPUS IN EFFECT", "MEMORY NODES", "MEMORY NODES IN EFFECT"}, fillCpuset},
      {"io", {"READ", "WRITTEN", "READS", "WRITES"}, fillIo},
      {"memory", {"CURRENT", "PEAK", "MIN", "LOW", "HIGH", "MAX", "OOM KILLS"}, fillMemory},
      {"process", {"PROCESSES", "TASKS", "PEAK", "MAX"}, fillProcesses},
      {"psi", {"CPU SOME", "MEMORY SOME", "MEMORY FULL", "IO SOME", "IO FULL"}, fillPressure},
      {"swap", {"CURRENT", "MAX"}, fillSwap},
  };
  return all;
}

// Returns the last part of the path, indented by its depth.
kj::String nameInTree(kj::StringPtr path) {
  if (path.size() == 0) return kj::str(".");
  size_t depth = 0;
  for (char c : path) depth += c == '/';
  auto name = path.slice(path.findLast('/').map([](size_t at) { return at + 1; }).orDefault(0));
  return kj::str(kj::repeat(' ', depth * 2), "└─", name);
}

kj::Promise<int> runCgroups(Invocation& call) {
  return tabulate<Cgroups>(
      call,
      [](rpc::Node::Client node) {
        return node.machineRequest().send().getMachine().cgroupsRequest().send();
      },
      [](Invocation& call, kj::ArrayPtr<const Reply<Cgroups>> replies) {
        for (auto& r : replies) {
          if (r.value.getLeftOut() == 0) continue;
          call.err(kj::str("WARNING: ", r.node, ": ", r.value.getLeftOut(),
                           " more groups did not fit the answer\n"));
        }
        return renderCgroups(replies, call.text("preset"));
      });
}

}  // namespace

kj::String renderCgroups(kj::ArrayPtr<const Reply<Cgroups>> replies, kj::StringPtr presetName) {
  for (auto& preset : presets()) {
    if (preset.name != presetName) continue;
    kj::Vector<kj::StringPtr> header;
    header.add("NODE"), header.add("NAME");
    for (auto column : preset.columns) header.add(column);
    Table table(header.asPtr());
    for (auto& r : replies) {
      for (auto group : r.value.getGroups()) {
        Cells cells;
        cells.add(kj::str(r.node));
        cells.add(nameInTree(group.getPath()));
        preset.fill(group, cells);
        while (cells.size() < header.size()) cells.add(kj::str(kUncounted));
        table.row(cells.releaseAsArray());
      }
    }
    return table.render();
  }
  KJ_FAIL_ASSERT("the parser knows the presets", presetName);
}

void addCgroupCommands(Command& root) {
  auto& cgroups = root.add("cgroups", "Show the control groups of nodes and what they use");
  std::vector<kj::StringPtr> names;
  for (auto& preset : presets()) names.push_back(preset.name);
  cgroups.details =
      "\"-\": the kernel does not count this for the group; \"max\": no limit; \"inherited\": the "
      "same as the group above. psi shows the share of the last minute in which some, or all, "
      "tasks of a group waited.";
  cgroups.flag({.name = "preset",
                .kind = FlagKind::kText,
                .fallback = "overview",
                .help = "what the table shows",
                .choices = kj::mv(names)});
  addOutputFlag(cgroups);
  cgroups.run = runCgroups;
}

}  // namespace talos::talosctl
