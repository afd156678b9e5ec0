// Decides whether a verified image may be installed on this node: its system must know each key of
// the node's config, and a signed one must not be below the version floor (version-floor.h).
//
// Owns the floor in META, which it only raises. After a crash between the confirmation of a system
// and the floor, the next start raises the floor, and so does the next upgrade before it compares.
#pragma once

#include "machined/upgrade/slot-switch.h"
#include "machined/upgrade/upgrade-plan.h"

namespace talos::machined {

class ImageAdmission {
 public:
  struct Dependencies {
    SlotSwitch& slots;
    UpgradeRecords& storage;
    UpgradableNode& node;
    kj::Maybe<install::Slot> running;  // nullptr: the node has no slots; no method may be called
    kj::StringPtr version;             // of the running system
  };
  explicit ImageAdmission(Dependencies deps) : deps(deps) {}
  KJ_DISALLOW_COPY_AND_MOVE(ImageAdmission);

  // Returns the facts about an image that may be installed. FailedPrecondition with the reason if
  // it may not; if META cannot be read, its error. Changes nothing but the floor, which may rise.
  // The caller keeps `image`.
  kj::Promise<SlotSwitch::Facts> require(const VerifiedImage& image, bool isSigned);

  // Raises the floor to the version of the running system, if that is the confirmed one. Resolves
  // to the floor when META has it. `found`, which the caller keeps: the slots as they are now.
  kj::Promise<kj::String> raiseFloor(const install::SlotsOnDisk& found);
  // Does the same, and reads the slots.
  kj::Promise<kj::String> raiseFloor();

 private:
  Dependencies deps;

  void requireKnownKeys(const VerifiedImage& image, const SlotSwitch::Facts& facts);
  // Returns the version of the running system's image, whose builder may number differently.
  kj::StringPtr runningVersion(const install::SlotsOnDisk& found) const;
};

}  // namespace talos::machined
