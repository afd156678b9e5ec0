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
#pragma once

#include "machined/disk/volumes/disk-controllers.h"

namespace talos::machined {

class ImageCacheController final : public WokenController {
 public:
  struct Dependencies {
    kj::Timer& timer;
    kj::Function<kj::Maybe<bool>(Store& store)> enabled;  // nullptr: the config is not known
    kj::Maybe<kj::Function<kj::Promise<kj::Vector<Volume>>()>> look;  // nullptr: in a container
    kj::Function<kj::Promise<bool>(kj::StringPtr root)> hasCache;
    kj::Function<kj::Promise<void>(const Volume& volume)> mount;
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
  Dependencies deps;
  kj::String said, unread;  // unread: the last medium that failed

  kj::Promise<kj::Vector<kj::StringPtr>> find();
  kj::Promise<bool> isCache(const Volume& volume);
  void sayOnce(kj::String line);
};

// Returns true for a volume that may have a cache. Pure.
bool mayHaveCache(const Volume& volume);

}  // namespace talos::machined
