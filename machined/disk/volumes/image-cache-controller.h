// cri.ImageCacheController: finds the node's cache of images while machine.features.imageCache is
// enabled, and writes ImageCacheConfigs[image-cache]. Its roots make registryd run
// (machined/brain/daemon-table.cc), and containerd ask it
// (config/controllers/registries-controller.h).
//
// A cache is a folder that the launcher of a node in a container hands in, and the folder
// /imagecache of a medium: ISO 9660 or FAT with the label TALOS or TALOS_…, which is mounted
// read-only. Nothing is copied and nothing is written, so a crash leaves at most the mount, which
// the next brain finds. A medium may come later; one that is gone is found by its folder, which
// cannot be read any more, at the next event of a device.
//
// A call to a medium that takes longer than kMediumTimeout counts as failed, so other media are
// looked at. The call itself cannot be cancelled and occupies a thread of the pool: until it ends,
// the medium is not called again; then the controller looks again.
#pragma once

#include <set>
#include <string>

#include "common/base/signal.h"

#include "machined/disk/volumes/disk-controllers.h"

namespace talos::machined {

class ImageCacheController final : public WokenController, private kj::TaskSet::ErrorHandler {
 public:
  // A USB stick or a drive that spins up mounts within a few seconds.
  static constexpr auto kMediumTimeout = 60 * kj::SECONDS;

  struct Dependencies {
    kj::Timer& timer;
    kj::Function<kj::Maybe<bool>(Store& store)> enabled;  // nullptr: the config is not known
    kj::Maybe<kj::Function<kj::Promise<kj::Vector<Volume>>()>> look;  // nullptr: in a container
    kj::Function<kj::Promise<bool>(kj::StringPtr root)> hasCache;
    // Mounts the volume without a mount point; closing the descriptor unmounts it.
    kj::Function<kj::Promise<kj::AutoCloseFd>(const Volume& volume)> open;
    kj::Function<kj::Promise<void>(kj::AutoCloseFd mount)> attach;
    kj::Function<kj::Promise<void>()> unmount;  // no-op if nothing is mounted
    kj::Function<void(kj::StringPtr line)> say;
    NextChange next;
  };
  explicit ImageCacheController(Dependencies deps);

  kj::StringPtr name() const override { return "cri.ImageCacheController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  // A call to a medium. `late`: it counts as failed, and must not change anything any more.
  struct Attempt : public kj::Refcounted {
    bool late = false;
  };
  using Work = kj::Function<kj::Promise<bool>(kj::Own<Attempt>)>;

  Dependencies deps;
  kj::String said, unread;       // unread: the last medium that failed
  std::set<std::string> called;  // calls that have not ended, by the texts of limited()
  Signal again;
  kj::TaskSet calls{*this};  // those calls

  kj::Promise<kj::Vector<kj::StringPtr>> find();
  kj::Promise<bool> isCache(const Volume& volume);
  kj::Promise<bool> mountAndLook(kj::Promise<kj::AutoCloseFd> opening, kj::Own<Attempt> attempt);
  // Resolves with the result of `work`, or fails after kMediumTimeout, or at once if the former
  // call with the text `what` has not ended.
  kj::Promise<bool> limited(kj::String what, Work work);
  void end(const std::string& what, const Attempt& attempt);
  void taskFailed(kj::Exception&& exception) override;
  void sayOnce(kj::String line);
};

// Returns true for a volume that may have a cache. Pure.
bool mayHaveCache(const Volume& volume);

}  // namespace talos::machined
