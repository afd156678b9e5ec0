// The sequences of a machine's life: which phases, which tasks, in which order (spec
// boot-and-services.md §4.3). They are a table, sequences.inc. Names are part of the interface:
// logs, events and tools depend on them.
#pragma once

#include "machined/boot/sequencer.h"
#include "machined/boot/tasks/task.h"

namespace talos::machined {

enum class Mode { kMetal, kCloud, kContainer };
Mode modeOfPlatform(kj::StringPtr platform);
kj::StringPtr nameOf(Mode mode);

constexpr kj::StringPtr kInitialize = "initialize"_kj, kInstall = "install"_kj, kBoot = "boot"_kj,
                        kReboot = "reboot"_kj, kShutdown = "shutdown"_kj, kUpgrade = "upgrade"_kj,
                        kReset = "reset"_kj;

struct PlannedPhase {
  kj::StringPtr name;
  kj::Vector<const BootTask*> tasks;
};
// What the table says about a machine in this mode.
kj::Vector<PlannedPhase> plannedPhases(kj::StringPtr sequence, Mode mode);

// The same with the parts of this machine's brain, which must outlive it.
Sequence makeSequence(kj::StringPtr name, Mode mode, const TaskParts& parts);

}  // namespace talos::machined
