// The sequences of a machine's life: their phases and tasks in order, from the table sequences.inc,
// and the sequence "upgrade". Names are part of the interface: logs, events and tools depend on
// them.
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
// The phase of the boot that waits for services; the phases before it write to disks.
constexpr kj::StringPtr kStartEverything = "startEverything"_kj;

struct PlannedPhase {
  kj::StringPtr name;
  kj::Vector<const BootTask*> tasks;
};
// Returns the phases of the table for a machine in this mode.
kj::Vector<PlannedPhase> plannedPhases(kj::StringPtr sequence, Mode mode);

// Returns the same as a sequence that can be run. `deps` must outlive it.
Sequence makeSequence(kj::StringPtr name, Mode mode, const TaskDependencies& deps);

// Returns the sequence "upgrade", whose only task is `write`: it carries out a plan, which a task
// of the table could not get. The node works meanwhile, and reboots afterwards.
Sequence upgradeSequence(kj::Function<kj::Promise<void>()> write);

}  // namespace talos::machined
