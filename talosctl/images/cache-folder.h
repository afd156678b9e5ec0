// Fills a folder with images for nodes without a registry (common/image-cache/cache-layout.h).
//
// While images are added, the folder is called <path>.unfinished; it gets its name when all of them
// are in it, so what is at <path> is whole. Files are written as temporary ones, synced, and
// renamed when their digest is right; those of an image in the order blobs, manifests, tag. A run
// that was interrupted at any line leaves <path>.unfinished, and the next run continues with the
// whole files in it.
#pragma once

#include <kj/io.h>

#include "talosctl/images/registry-client.h"

namespace talos::talosctl {

class CacheFolder {
 public:
  // Makes <path>.unfinished, or takes the one of an interrupted run; with `force`, of the folder at
  // `path`, whose images stay in it. Throws Conflict if `path` exists without `force`.
  CacheFolder(kj::StringPtr path, bool force);
  // Gives the folder its name.
  void finish();

  bool hasBlob(const Descriptor& blob) const;
  void writeManifest(const imagecache::ImageName& image, kj::StringPtr reference,
                     kj::ArrayPtr<const char> content);

  // A blob that is being written; without finish() nothing of it stays.
  class Blob {
   public:
    Blob(kj::StringPtr folder, kj::StringPtr digest);
    ~Blob() noexcept(false);
    KJ_DISALLOW_COPY_AND_MOVE(Blob);
    void add(kj::ArrayPtr<const kj::byte> bytes);
    void finish();

   private:
    kj::String path, temporary;
    kj::AutoCloseFd file;
    bool finished = false;
  };
  kj::StringPtr path() const { return work; }

 private:
  kj::String target, work;
};

struct AddedImage {
  unsigned blobs = 0, present = 0;  // fetched, and in the folder before
  uint64_t bytes = 0;               // fetched
};
// Adds an image: of an index, the images of these platforms ("linux/amd64"); all of them if the
// list is empty. InvalidArgument if the index lacks one of them.
kj::Promise<AddedImage> addImage(RegistryClient& client, CacheFolder& folder,
                                 const imagecache::ImageName& image,
                                 kj::ArrayPtr<const kj::String> platforms);

}  // namespace talos::talosctl
