// The node as the Upgrader and the pending image of an installation see it: implements their
// interfaces with the parts of the brain. Keeps nothing.
#pragma once

#include "machined/upgrade/upgrade-to-config-image.h"

namespace talos::machined {

class Wiring;

class NodeUpgrades final : public UpgradableNode,
                           public UpgradeRecords,
                           public UpgradeClusters,
                           public PendingImageNode {
 public:
  explicit NodeUpgrades(Wiring& brain) : brain(brain) {}

  kj::String kernelArguments() override;
  kj::String imageKey() override;
  kj::Promise<void> requireSignature(kj::String pinned, kj::String key) override;
  kj::Promise<kj::Vector<BlockDevice>> blockDevices() override;
  bool isBooted() override;
  kj::Promise<Health> health() override;
  kj::Promise<void> runSequence() override;
  kj::Promise<void> reboot(kj::StringPtr reason) override;
  void announce(kj::StringPtr line) override;

  kj::Promise<kj::Maybe<UpgradeRecord>> load() override;
  kj::Promise<void> save(const UpgradeRecord& record) override;
  kj::Promise<void> writeTrialFailure(kj::StringPtr reason) override;
  kj::Promise<kj::Maybe<kj::String>> readTrialFailure() override;
  kj::Promise<void> clearTrialFailure() override;

  kj::Promise<void> requireSpare(bool preserve) override;
  kj::Promise<void> leave(bool preserve, bool force) override;
  kj::Promise<void> stay() override;
  kj::Promise<void> drain() override;
  void uncordon() override;

  kj::Maybe<kj::String> configuredImage() override;
  void log(kj::StringPtr line) override;
  kj::Promise<kj::Maybe<PendingImage>> loadPendingImage() override;
  kj::Promise<void> savePendingImage(kj::Maybe<PendingImage> pending) override;

 private:
  Wiring& brain;
};

}  // namespace talos::machined
