// The sequences of a machine's life: which phases, which tasks, in which order (spec
// boot-and-services.md §4.3). Names are part of the interface: logs, events and tools depend on
// them.
//
// What needs disks or Kubernetes is not in these lists yet; nothing stands in for it.
#pragma once

#include <kj/async.h>

#include "machined/boot/sequencer.h"

namespace talos::machined {

// What the tasks do. Each of them may be run again by the next brain after a crash in its middle,
// and comes to the same end.
class MachineTasks {
 public:
  virtual kj::Promise<void> setupLogger() = 0;
  virtual kj::Promise<void> raiseClock() = 0;  // to when this version was made, at least
  virtual kj::Promise<void> enforceKsppRequirements() = 0;
  virtual kj::Promise<void> writeRequiredSysctls() = 0;
  virtual kj::Promise<void> setupSystemDirectory() = 0;
  virtual kj::Promise<void> loadNetworkModules() = 0;  // what networkd will look for
  virtual kj::Promise<void> loadDiskModules() = 0;     // what the config may be on
  virtual kj::Promise<void> loadDeviceModules() = 0;   // all others, once the services are up
  virtual kj::Promise<void> setResourceLimits() = 0;
  virtual kj::Promise<void> createEtcNetworkFiles() = 0;
  virtual kj::Promise<void> discoverNetwork() = 0;  // before there is a config
  virtual kj::Promise<void> mountState() = 0;
  virtual kj::Promise<void> loadConfig() = 0;
  virtual kj::Promise<void> setupNetwork() = 0;  // with the config
  virtual kj::Promise<void> validateConfig() = 0;
  virtual kj::Promise<void> saveConfig() = 0;
  virtual kj::Promise<void> setUserEnvVars() = 0;
  virtual kj::Promise<void> mountEphemeralPartition() = 0;
  virtual kj::Promise<void> setupVarDirectory() = 0;
  virtual kj::Promise<void> mountOverlayFilesystems() = 0;
  virtual kj::Promise<void> writeUserFiles() = 0;
  virtual kj::Promise<void> writeUserSysctls() = 0;
  virtual kj::Promise<void> startAllServices() = 0;
  virtual kj::Promise<void> stopNetworkd() = 0;
  virtual kj::Promise<void> stopAllServices() = 0;
  virtual kj::Promise<void> unmountState() = 0;
  virtual kj::Promise<void> goDown(unsigned command) = 0;  // reboot(2)'s; does not return
};

enum class Mode { kMetal, kCloud, kContainer };
Mode modeOfPlatform(kj::StringPtr platform);
kj::StringPtr nameOf(Mode mode);

Sequence initializeSequence(MachineTasks& tasks, Mode mode);
Sequence bootSequence(MachineTasks& tasks, Mode mode);
Sequence rebootSequence(MachineTasks& tasks);
Sequence shutdownSequence(MachineTasks& tasks, unsigned command);

}  // namespace talos::machined
