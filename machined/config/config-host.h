// The machine around the config manager, for its parts and for their tests.
#pragma once

#include <kj/async.h>
#include <kj/string.h>

#include "machined/config/trial-judge.h"
#include "machined/logs/node-console.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

class ConfigHost {
 public:
  virtual ~ConfigHost() noexcept(false) = default;
  virtual void print(kj::StringPtr line, Tone tone) = 0;
  virtual kj::String sequence() const = 0;  // the running sequence, or empty
  // Returns true from the request of a reset to its sequence: the node leaves its cluster.
  virtual bool isLeaving() const = 0;
  // Returns true if a boot is running that has already written its config: it waits for services,
  // which may take long.
  virtual bool bootHasSaved() const = 0;
  virtual bool bootFailed() const = 0;  // known to a new brain from the start
  // Resolves when process 1 knows that the machine reboots.
  virtual kj::Promise<void> intendReboot() = 0;
  // Reboots after a delay, so that the answer to the caller is sent first.
  virtual void reboot() = 0;
  // Called when maintenance starts or ends, or its reasons change.
  virtual void maintenanceChanged() = 0;
  // Called when a trial starts, continues or ends; revertsIn() has the time left.
  virtual void trialChanged(kj::StringPtr what) = 0;
  // Called with the news of the trial of a change (change-trial.h).
  virtual void changeTrialChanged(kj::StringPtr what, Tone tone) = 0;
  // Resolves with the duties of the node within seconds. `before` is the last good config;
  // `ownNetwork`: the change may be why other nodes do not answer. Does not reject.
  virtual kj::Promise<TrialFacts> trialFacts(config::Config::Reader before, bool ownNetwork) = 0;
};

}  // namespace talos::machined
