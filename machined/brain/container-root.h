// The switch of a node in a container to another system without a reboot (upgrade/root-switch.h,
// which has the crash argument). A container cannot attach an image to a loop device, so its
// launcher mounts the image of a slot: the node writes a request into the folder of its slots, and
// the launcher mounts the image in the node's mount namespace, or answers with an error
// (talosctl/cluster/containers/node-slots.h).
#pragma once

#include "machined/brain/brain-core.h"
#include "machined/services/supervisor.h"
#include "machined/upgrade/live/entered-system.h"
#include "machined/upgrade/live/root-mounts.h"
#include "machined/upgrade/root-switch.h"

namespace talos::machined {

class ContainerRoot final : public RootSwitch {
 public:
  ContainerRoot(BrainCore& core, Supervisor& supervisor);
  KJ_DISALLOW_COPY_AND_MOVE(ContainerRoot);

  // Returns the running system, if it took over since the boot.
  kj::Maybe<const EnteredSystem&> entered() const { return running; }
  // Returns true in the first brain of a system that took over: the end of the one before it was no
  // failure.
  bool isFirstBrain() const;
  // Returns the rest of the time of its trial.
  kj::Maybe<kj::Duration> trialLeft() const;

  kj::Promise<void> requireStated(kj::String configKeys) override;
  kj::Promise<void> prepare(install::Slot slot) override;
  kj::Promise<void> enter(install::Slot slot, kj::Maybe<unsigned> trialS) override;
  kj::Promise<void> abandon() override;
  kj::Promise<void> replaceServices() override;
  kj::Maybe<kj::String> unreplaced() override;

 private:
  BrainCore& core;
  Supervisor& supervisor;
  kj::Maybe<EnteredSystem> running;
  kj::TimePoint brainStarted = core.timer.now();
  bool hasReplaced = false;
  kj::String left;  // what replaceServices() does, or its error

  kj::Promise<void> mountSlot(install::Slot slot);
  kj::Promise<void> hold(kj::StringPtr name, kj::ArrayPtr<const kj::byte> bytes);
  kj::Promise<kj::Vector<kj::String>> servicesWithOldFiles();
  kj::Promise<void> replaceAll();
  kj::Promise<void> replaceService(kj::StringPtr id);
  int pidOf(kj::StringPtr id) const;
};

}  // namespace talos::machined
