// A task of a sequence. The tasks of one theme are defined in one file of this folder (*-tasks.cc,
// or with what they wait for), where a comment names the phase of each. A new task needs its
// definition there and a line in the table of sequences (machined/boot/sequences.inc), nothing
// else.
//
// If a crash interrupts a task, the next brain may run the task again, with the same result. Its
// name is part of the interface: logs, events and tools depend on it.
#pragma once

#include <kj/async.h>
#include <kj/string.h>
#include <kj/timer.h>

#include <tuple>

namespace talos {
class KernelArguments;
class UvLoop;
}  // namespace talos

namespace talos::machined {

class BootRecorder;
class ConfigManager;
class Console;
class Containerd;
class ControllerRuntime;
class DataVolumes;
class EphemeralVolume;
class Events;
class InstallImage;
class Installer;
class KernelClock;
class KernelHelpers;
struct KernelSettings;
class MachineConfigReader;
class Mounts;
class PlatformFactsFile;
class Process1;
class Reset;
class StateVolume;
class Store;
class Supervisor;
class Upgrader;
class UserDisks;
class UserFileProblems;

// All dependencies that tasks may have, each identified by its type.
using TaskDependencies =
    std::tuple<const KernelArguments&, UvLoop&, kj::Timer&, Process1&, Events&, Console&, Store&,
               MachineConfigReader&, ControllerRuntime&, Supervisor&, KernelClock&, Mounts&,
               KernelSettings&, StateVolume&, BootRecorder&, ConfigManager&, Containerd&,
               Installer&, EphemeralVolume&, Reset&, UserDisks&, DataVolumes&, Upgrader&,
               InstallImage&, PlatformFactsFile&, KernelHelpers&, UserFileProblems&>;

struct BootTask {
  kj::StringPtr name;
  kj::Promise<void> (*run)(const TaskDependencies&);
};

// Makes a task that calls `kFunction` with the dependencies in its parameter list.
//   const BootTask raiseClock = task<raise>("raiseClock");
template <auto kFunction>
constexpr BootTask task(kj::StringPtr name);

// --- inline

template <auto kFunction, typename Result, typename... Needs>
kj::Promise<void> runTask(const TaskDependencies& deps, Result (*)(Needs&...)) {
  if constexpr (kj::isSameType<Result, void>()) {
    kFunction(std::get<Needs&>(deps)...);
    return kj::READY_NOW;
  } else {
    return kFunction(std::get<Needs&>(deps)...);
  }
}

template <auto kFunction>
constexpr BootTask task(kj::StringPtr name) {
  return {name, [](const TaskDependencies& deps) { return runTask<kFunction>(deps, kFunction); }};
}

}  // namespace talos::machined
