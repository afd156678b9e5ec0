// Interfaces of the Upgrader (upgrader.h) to the node that it upgrades. The brain implements them;
// tests have one model of all.
#pragma once

#include <kj/async.h>

#include "machined/upgrade/node-duties.h"
#include "machined/upgrade/upgrade-record.h"

namespace talos::machined {

struct Health {
  kj::Maybe<kj::String> lacks;  // none: it is healthy
  bool hopeless = false;        // and will not get better
  // All that it lacks is caused by other nodes (Duty::causedElsewhere).
  bool causedElsewhere = false;
};

// The record of an upgrade on STATE, and in META the reason why a system on trial gave up and the
// version floor (version-floor.h).
class UpgradeRecords {
 public:
  virtual ~UpgradeRecords() noexcept(false) = default;

  virtual kj::Promise<kj::Maybe<UpgradeRecord>> load() = 0;
  // The record is on the disk when it resolves.
  virtual kj::Promise<void> save(const UpgradeRecord& record) = 0;

  // Before the record whose upgrade it belongs to.
  virtual kj::Promise<void> saveDuties(const DutyRecord& duties) = 0;
  virtual kj::Promise<kj::Maybe<DutyRecord>> loadDuties() = 0;

  // The reason stays until it is cleared.
  virtual kj::Promise<void> writeTrialFailure(kj::StringPtr reason) = 0;
  virtual kj::Promise<kj::Maybe<kj::String>> readTrialFailure() = 0;
  virtual kj::Promise<void> clearTrialFailure() = 0;

  // None: META has none yet. Rejects when META is missing or cannot be read.
  virtual kj::Promise<kj::Maybe<kj::String>> readVersionFloor() = 0;
  virtual kj::Promise<void> writeVersionFloor(kj::StringPtr version) = 0;
};

// The node with its config and its sequences.
class UpgradableNode {
 public:
  virtual ~UpgradableNode() noexcept(false) = default;

  virtual kj::String kernelArguments() = 0;  // for the new entry of the boot loader
  virtual kj::String imageKey() = 0;         // machine.install.imageKey
  // The keys of the node's config that this list lacks (common/config/config-key-list.h).
  virtual kj::Vector<kj::String> configKeysNotIn(kj::StringPtr list) = 0;
  // Of an image of a registry, name@sha256:…: machined/upgrade/image-signatures.h.
  virtual kj::Promise<void> requireSignature(kj::String pinned, kj::String key) = 0;

  virtual bool isBooted() = 0;
  // Of the system itself; what it does for others is among its duties.
  virtual kj::Promise<Health> health() = 0;
  virtual kj::Promise<kj::Vector<Duty>> duties() = 0;  // as they are now; within seconds
  // Runs the sequence "upgrade", which calls Upgrader::write().
  virtual kj::Promise<void> runSequence() = 0;
  virtual kj::Promise<void> reboot(kj::StringPtr reason) = 0;  // the text is a constant
  virtual void announce(kj::StringPtr line) = 0;               // on the console, and in the events
};

// The clusters of etcd and Kubernetes that the node is a member of.
class UpgradeClusters {
 public:
  virtual ~UpgradeClusters() noexcept(false) = default;

  // Rejects when the cluster of etcd cannot do without this node; asked before anything is done.
  virtual kj::Promise<void> requireSpare(bool preserve) = 0;
  // With `preserve` the node takes its turn to restart, without it leaves etcd.
  virtual kj::Promise<void> leave(bool preserve, bool force) = 0;
  // A node that has its turn does not restart after all. Does not reject.
  virtual kj::Promise<void> stay() = 0;

  // The node's pods move to other nodes, until uncordon(). Does not reject.
  virtual kj::Promise<void> drain() = 0;
  virtual void uncordon() = 0;
};

}  // namespace talos::machined
