// Upgrades a newly installed node to the image that machine.install.image names, when it is another
// one than the installation has put onto the disk. An installation writes the system that runs,
// because it runs before there is anything that could fetch an image. So it leaves a file on STATE,
// the pending image, and the installed node upgrades itself to that image, once, after its first
// boot: by the Upgrader, with all that it verifies, and back to the old system if the new one is no
// good. EPHEMERAL is kept.
//
// The pending image is there as soon as the node counts as installed (it is written before that),
// and until one of these, whatever ends a machined or the power in between:
//   * the node runs another system that was confirmed: this image, or what an administrator chose;
//   * an administrator has begun an upgrade or a rollback of his own, which a fetch gives way to;
//   * the config names no other release any more.
// A failure that can pass (a network that is down, a boot that takes long, a power cut) is tried
// again, with growing pauses. An image that is refused, whose system gave up, or in whose write the
// machine was cut off five times, is marked so in the file, and not tried again until the config
// names another one.
#pragma once

#include "common/base/backoff.h"
#include "common/base/installer-name.h"
#include "machined/upgrade/upgrader.h"

namespace talos::machined {

constexpr kj::StringPtr kPendingImageFile = "/system/state/install-image"_kj;

struct PendingImage {
  kj::String image;      // as machine.install.image has it; of a URL also what is secret in it
  bool refused = false;  // it was tried, and is not to be tried again
  // Identifies the newest record of an upgrade that says nothing more of this image: it was there
  // before, or was counted among the cuts. A name is not enough: two URLs may differ in a part that
  // no record shows.
  kj::Date known = kj::UNIX_EPOCH;
  unsigned cuts = 0;  // how often the power was cut, as it seems, while the slot was written

  PendingImage clone() const;
};
kj::Maybe<PendingImage> decodePendingImage(kj::StringPtr text);  // none for a damaged file
kj::String encodePendingImage(const PendingImage& pending);
// As the record of its upgrade calls it.
kj::String nameInRecord(kj::StringPtr image);

// The node that has the pending image: its config, its console, and the file on STATE.
class PendingImageNode {
 public:
  virtual ~PendingImageNode() noexcept(false) = default;

  virtual kj::Maybe<kj::String> configuredImage() = 0;  // none: there is no config yet
  virtual void log(kj::StringPtr line) = 0;             // on the console
  virtual kj::Promise<kj::Maybe<PendingImage>> loadPendingImage() = 0;
  // On the disk when it resolves; none: removed, if there is one.
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

  // During an installation, when the new STATE is mounted.
  kj::Promise<void> leave();
  // When STATE is mounted: restores the pending image, and the state that the Upgrader was in. A
  // second call does nothing. Does not throw.
  kj::Promise<void> resume();
  // The config, or how far an upgrade is, may have changed.
  void changed();

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
