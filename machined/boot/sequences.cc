#include "machined/boot/sequences.h"

#include <kj/debug.h>

#include "machined/platforms/platform.h"

namespace talos::machined {

namespace tasks {

#define LINE(sequence, phase, where, task) extern const BootTask task;
#include "machined/boot/sequences.inc"
#undef LINE

}  // namespace tasks

namespace {

// kMachine: not in a container, where disks and the kernel are the host's.
enum class Where { kEverywhere, kMachine, kContainer };

struct Line {
  kj::StringPtr sequence, phase;
  Where where;
  const BootTask* task;
};

#define LINE(sequence, phase, where, task) \
  {#sequence##_kj, #phase##_kj, Where::where, &tasks::task},
constexpr Line kTable[] = {
#include "machined/boot/sequences.inc"
};
#undef LINE

bool isAt(Where where, Mode mode) {
  if (where == Where::kEverywhere) return true;
  return (where == Where::kContainer) == (mode == Mode::kContainer);
}

}  // namespace

Mode modeOfPlatform(kj::StringPtr platform) {
  if (platform == platforms::kContainer) return Mode::kContainer;
  KJ_IF_MAYBE (known, platforms::called(platform)) {
    // Its machines are installed like machines of their owners.
    return known == &platforms::kEquinixMetal ? Mode::kMetal : Mode::kCloud;
  }
  // Also for an unknown name: the config manager reports it, and a machine with a config continues
  // to boot.
  return Mode::kMetal;
}

kj::StringPtr nameOf(Mode mode) {
  switch (mode) {
    case Mode::kCloud:
      return "cloud";
    case Mode::kContainer:
      return "container";
    default:
      return "metal";
  }
}

kj::Vector<PlannedPhase> plannedPhases(kj::StringPtr sequence, Mode mode) {
  kj::Vector<PlannedPhase> phases;
  for (auto& line : kTable) {
    if (line.sequence != sequence || !isAt(line.where, mode)) continue;
    if (phases.empty() || phases.back().name != line.phase)
      phases.add(PlannedPhase{line.phase, {}});
    phases.back().tasks.add(line.task);
  }
  KJ_REQUIRE(!phases.empty(), "there is no such sequence", sequence);
  return phases;
}

Sequence makeSequence(kj::StringPtr name, Mode mode, const TaskDependencies& deps) {
  Sequence result{kj::str(name), {}};
  for (auto& planned : plannedPhases(name, mode)) {
    auto& phase = result.phases.add(Phase{kj::str(planned.name), {}});
    for (auto task : planned.tasks) {
      phase.tasks.add(Task{kj::str(task->name), [task, &deps]() { return task->run(deps); }});
    }
  }
  return result;
}

Sequence upgradeSequence(kj::Function<kj::Promise<void>()> write) {
  Phase phase{kj::str(kUpgrade), {}};
  phase.tasks.add(Task{kj::str(kUpgrade), kj::mv(write)});
  Sequence result{kj::str(kUpgrade), {}};
  result.phases.add(kj::mv(phase));
  return result;
}

}  // namespace talos::machined
