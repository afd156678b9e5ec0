// Gets the images of upgrades: pulls them from a registry, downloads or receives their archives, or
// takes the image that an earlier request has left for a later one.
//
// An image that is kept lasts for an hour, until another image is requested, or until this brain
// exits. A crash leaves nothing of an archive, which has no name on the disk, and of an image of a
// registry a view in containerd, which the next pull replaces.
#pragma once

#include <kj/timer.h>

#include "machined/upgrade/upgrade-environment.h"
#include "machined/upgrade/upgrade-plan.h"
#include "machined/upgrade/upgrade-status.h"

namespace talos::machined {

// The place of a requested image.
struct ImageOrigin {
  kj::Maybe<ArchiveUrl> url;
  bool registry = false;
  kj::String digest;  // as in VerifiedImage, if the request names it
};
// Returns the origin, and shortens the request's name of the image to the part that may be shown.
// InvalidArgument if it names no image, or a URL that is not valid.
ImageOrigin originOf(UpgradeRequest& request);

class ImageSource {
 public:
  struct Dependencies {
    kj::Timer& timer;
    Containerd& containerd;
    ImageArchives& archives;
    UpgradableNode& node;
    UpgradeProgress& progress;
    kj::TaskSet& tasks;
  };
  explicit ImageSource(Dependencies deps) : deps(deps) {}
  KJ_DISALLOW_COPY_AND_MOVE(ImageSource);

  // Waits until the node has booted, and containerd runs if the image is of a registry.
  // DeadlineExceeded after two minutes.
  kj::Promise<void> whenReady(const ImageOrigin& origin);
  // Returns the verified image: the kept one if it is the requested one and fits `key`, a public
  // key in PEM or empty; otherwise drops the kept one and fetches the image. Dropping the promise
  // ends the fetch. NotFound for a kept file that is not kept any more; the errors of pullImage()
  // and of ImageArchives. The caller keeps `request`.
  kj::Promise<VerifiedImage> get(UpgradeRequest& request, ImageOrigin origin, kj::StringPtr key);

  // Keeps an image that fits `key`, for an hour from now, in the place of the one that is kept.
  void keep(VerifiedImage image, kj::String key);
  // Ends the keeping of an image, if one is kept. Does not reject.
  kj::Promise<void> drop();
  // Drops the view of an image that is not needed any more. Does not reject: the next pull repeats
  // it.
  kj::Promise<void> release(const VerifiedImage& image);

 private:
  struct Kept {
    VerifiedImage image;
    kj::String key;
    uint64_t number;
  };
  Dependencies deps;
  kj::Maybe<Kept> kept;
  uint64_t lastNumber = 0;

  kj::Promise<void> booted(bool containerd);
  kj::Maybe<VerifiedImage> takeKept(const ImageOrigin& origin, kj::StringPtr key);
  kj::Promise<VerifiedImage> pull(kj::String image, kj::String key);
  kj::Promise<VerifiedImage> archive(UpgradeRequest& request, kj::Maybe<ArchiveUrl> url,
                                     kj::String key);
  void progressed(uint64_t done, uint64_t size);
};

}  // namespace talos::machined
