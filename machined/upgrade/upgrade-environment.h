// Interfaces of the Upgrader (upgrader.h) to the node that it upgrades. The brain implements them;
// tests have one model of all.
#pragma once

#include <kj/async.h>
#include <kj/function.h>

#include "common/base/error.h"
#include "machined/upgrade/node-duties.h"
#include "machined/upgrade/upgrade-record.h"

namespace talos::machined {

struct Health {
  kj::Maybe<kj::String> lacks;  // nullptr: the system is healthy
  bool hopeless = false;        // it will not become healthy
  // Everything that it lacks is caused by other nodes (Duty::causedElsewhere).
  bool causedElsewhere = false;
  // Part of the network that is missing. It counts unless the network was incomplete when the
  // upgrade began (kNetworkDuty).
  kj::Maybe<kj::String> network = nullptr;
};

// Storage for the record of an upgrade on STATE, and in META for the reason why a system on trial
// gave up and the version floor (version-floor.h). Each write resolves when it is on the disk.
// After an error the old value or the new one is stored.
class UpgradeRecords {
 public:
  virtual ~UpgradeRecords() noexcept(false) = default;

  // Returns the newest record, or nullptr if none is stored or it cannot be understood.
  virtual kj::Promise<kj::Maybe<UpgradeRecord>> load() = 0;
  // Replaces the record.
  virtual kj::Promise<void> save(const UpgradeRecord& record) = 0;

  // Replaces the duties; called before the record of the same upgrade is saved. load() is not
  // affected.
  virtual kj::Promise<void> saveDuties(const DutyRecord& duties) = 0;
  // Returns the newest duties, or nullptr if none are stored or they cannot be understood.
  virtual kj::Promise<kj::Maybe<DutyRecord>> loadDuties() = 0;

  // Writes a reason that stays until it is cleared. Needs META alone: STATE may not be mounted.
  virtual kj::Promise<void> writeTrialFailure(kj::StringPtr reason) = 0;
  // Returns nullptr if there is no reason, or no META.
  virtual kj::Promise<kj::Maybe<kj::String>> readTrialFailure() = 0;
  // Rejects if there is no reason.
  virtual kj::Promise<void> clearTrialFailure() = 0;

  // Returns nullptr if META has no floor yet. Rejects when META is missing or cannot be read.
  virtual kj::Promise<kj::Maybe<kj::String>> readVersionFloor() = 0;
  // Replaces the floor; it may be lower than the stored one.
  virtual kj::Promise<void> writeVersionFloor(kj::StringPtr version) = 0;
};

// The node with its config and its sequences.
class UpgradableNode {
 public:
  virtual ~UpgradableNode() noexcept(false) = default;

  virtual kj::String kernelArguments() = 0;  // for the new entry of the boot loader
  virtual kj::String imageKey() = 0;         // machine.install.imageKey
  // Returns the keys of the node's config that this list lacks (common/config/config-key-list.h).
  virtual kj::Vector<kj::String> configKeysNotIn(kj::StringPtr list) = 0;
  // Verifies an image of a registry, name@sha256:… (machined/upgrade/image-signatures.h). Rejects
  // if it has no signature by `key`; changes nothing.
  virtual kj::Promise<void> requireSignature(kj::String pinned, kj::String key) = 0;

  virtual bool isBooted() = 0;
  // Returns the health of the system itself; its work for others is among its duties.
  virtual kj::Promise<Health> health() = 0;
  virtual kj::Promise<kj::Vector<Duty>> duties() = 0;  // current; resolves within seconds
  virtual DutyScope dutyScope() = 0;
  // Runs `write` as the task of the sequence "upgrade". Rejects with Conflict, and does not call
  // `write`, while another sequence runs; drops its promise when another sequence takes over.
  virtual kj::Promise<void> runSequence(kj::Function<kj::Promise<void>()> write) = 0;
  // Reboots the node. Resolves when process 1 holds the request: from then on a crash of the brain
  // does not cancel it. `reason` is a constant.
  virtual kj::Promise<void> reboot(kj::StringPtr reason) = 0;
  virtual void announce(kj::StringPtr line) = 0;  // on the console, and in the events
  // Announces an error that does not end the work.
  void announceError(const kj::Exception& e) { announce(kj::str("upgrade: ", messageOf(e))); }
  // Resolves when `work` has ended; announces its error.
  kj::Promise<void> reported(kj::Promise<void> work) {
    return work.catch_([this](kj::Exception&& e) { announceError(e); });
  }
};

// The etcd and Kubernetes clusters that the node is a member of.
class UpgradeClusters {
 public:
  virtual ~UpgradeClusters() noexcept(false) = default;

  // Rejects when the etcd cluster needs this node; called before anything is done. Changes nothing.
  virtual kj::Promise<void> requireSpare(bool preserve) = 0;
  // With `preserve`, takes the node's turn to restart, which ends with stay() or after 5 minutes; a
  // repeated call keeps the turn, and checks again whether the cluster can do without the node.
  // Without it, removes the node from etcd, which joins again at the next boot. After an error the
  // node is still a member, or etcd-supervisor completes its leaving. With `force`, does not
  // reject.
  virtual kj::Promise<void> leave(bool preserve, bool force) = 0;
  // Gives back the turn of a node that does not restart after all. Does not reject.
  virtual kj::Promise<void> stay() = 0;

  // Moves the node's pods to other nodes, until uncordon(). Does not reject.
  virtual kj::Promise<void> drain() = 0;
  virtual void uncordon() = 0;
};

}  // namespace talos::machined
