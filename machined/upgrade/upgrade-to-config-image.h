// Upgrades a newly installed node to the image that machine.install.image names, if it is not the
// installed one. An installation writes the running system, because it runs before any program
// could fetch an image. So it leaves a file on STATE, the pending image, and the installed node
// upgrades itself to this image, once, after its first boot. The Upgrader does this with all its
// checks, and returns to the old system if the new one fails. EPHEMERAL is kept.
//
// The pending image exists as soon as the node counts as installed (it is written before that). It
// survives every crash of machined and power cut until one of these:
// * the node runs another system that was confirmed: this image, or an administrator's choice;
// * an administrator has begun an upgrade or a rollback, which ends a fetch of this one;
// * the config does not name another release any more.
//
// A temporary failure (a network that is down, a slow boot, a power cut) is retried, with growing
// pauses. If an image is refused, or its system gave up, or the machine was cut off in its write
// five times, the file says so, and the image is not retried until the config names another one.
#pragma once

#include "common/base/backoff.h"
#include "common/base/version.h"
#include "machined/upgrade/upgrader.h"

namespace talos::machined {

constexpr kj::StringPtr kPendingImageFile = "/system/state/install-image"_kj;

struct PendingImage {
  kj::String image;      // as in machine.install.image, including the secrets of a URL
  bool refused = false;  // it was tried, and must not be tried again
  // Start time of the newest upgrade record that says nothing more about this image: it existed
  // before, or was counted among the cuts. A name is not enough: two URLs may differ in a part that
  // no record shows.
  kj::Date known = kj::UNIX_EPOCH;
  unsigned cuts = 0;  // how often the power seems to have been cut during the write

  PendingImage clone() const;
};
kj::Maybe<PendingImage> decodePendingImage(kj::StringPtr text);  // nullptr for a damaged file
kj::String encodePendingImage(const PendingImage& pending);
// Returns the image's name in the record of its upgrade.
kj::String nameInRecord(kj::StringPtr image);

// The node that has the pending image: its config, its console, and the file on STATE.
class PendingImageNode {
 public:
  virtual ~PendingImageNode() noexcept(false) = default;

  virtual kj::Maybe<kj::String> configuredImage() = 0;  // nullptr: there is no config yet
  virtual void log(kj::StringPtr line) = 0;             // on the console
  virtual kj::Promise<kj::Maybe<PendingImage>> loadPendingImage() = 0;
  // Resolves when `pending` is on the disk; nullptr removes the file, if it exists.
  virtual kj::Promise<void> savePendingImage(kj::Maybe<PendingImage> pending) = 0;
};

class InstallImage final : private kj::TaskSet::ErrorHandler {
 public:
  struct Dependencies {
    kj::Timer& timer;
    Upgrader& upgrader;
    kj::String own;                 // the image of this build
    kj::Function<double()> chance;  // [0, 1)
    PendingImageNode& node;
  };
  explicit InstallImage(Dependencies deps) : deps(kj::mv(deps)), tasks(*this) {}
  KJ_DISALLOW_COPY_AND_MOVE(InstallImage);

  // Runs during an installation, when the new STATE is mounted.
  kj::Promise<void> leave();
  // Runs when STATE is mounted: restores the pending image, and the state of the Upgrader. A second
  // call does nothing. Does not throw.
  kj::Promise<void> resume();
  // Reports that the config, or the progress of an upgrade, may have changed.
  void changed();
  // Returns true if a change of the configured image needs no other installation: there is a
  // pending image, or the config now names the image that runs. `applied`: the config already has
  // the change.
  bool acts(bool applied);

 private:
  Dependencies deps;
  bool resumed = false;
  kj::Maybe<PendingImage> pending;
  Backoff pauses{{5 * kj::SECONDS, 10 * kj::MINUTES, 2, 0.5, 1}};
  kj::TimePoint nextTry = kj::origin<kj::TimePoint>();
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> waker;
  kj::TaskSet tasks;

  bool isOwn(kj::StringPtr image) const {
    return image.size() == 0 || image == deps.own || isOwnInstaller(image);
  }
  kj::Promise<bool> beginsAnew(const UpgradeRecord& cut);
  kj::Promise<void> follow();
  kj::Promise<kj::Maybe<kj::Duration>> look();
  kj::Promise<bool> settled();
  kj::Promise<bool> compare(kj::StringPtr configured);
  kj::Promise<kj::Maybe<kj::Duration>> attempt();
  kj::Promise<void> whenAnotherIsConfigured(kj::String image);
  kj::Promise<void> drop();
  kj::Promise<void> keep();
  kj::Promise<void> nextChange();
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::machined
