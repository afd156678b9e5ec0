// The files of an installer image, in its folder usr/install: of a file system that containerd has
// unpacked, or of an archive. What is in them is foreign.
//
// Everything blocks, and throws FailedPrecondition for what is no installer image.
#pragma once

#include <kj/io.h>
#include <kj/one-of.h>
#include <kj/vector.h>

#include "machined/disk/installer/synced-file.h"

namespace talos::install {

// The file system of an image, as containerd gives it.
struct ImageMount {
  kj::String type, source;  // "bind" or "overlay"
  kj::Vector<kj::String> options;
};

// An archive that is open, and where in it the files of the folder usr/install are.
struct ImageInArchive {
  int archive;
  struct Part {
    kj::String name;
    uint64_t offset, size;
  };
  kj::Vector<Part> parts;
};

using ImageSource = kj::OneOf<ImageMount, ImageInArchive>;

class InstallerImage {
 public:
  virtual ~InstallerImage() noexcept(false) = default;

  struct Part {
    kj::AutoCloseFd own;  // none: it is a part of a file that stays open
    FileRange range;
  };
  virtual Part openPart(kj::StringPtr name) = 0;
  virtual bool has(kj::StringPtr name) = 0;
  // Of the folder that the image is; none: all of it is open.
  virtual kj::Maybe<int> root() const { return nullptr; }

  kj::Array<char> small(kj::StringPtr name, size_t limit);
  kj::Array<char> versionFile();
  kj::String version();  // that it says it has
  // The keys of the machine config that its system knows (common/config/config-key-list.h). Empty:
  // it does not say, as those of earlier releases.
  kj::String configKeys();
};

constexpr size_t kMostVersionFile = 128;
constexpr kj::StringPtr kConfigKeysFile = "config-keys"_kj;
constexpr size_t kMostConfigKeys = 256u << 10;

// `source` stays.
kj::Own<InstallerImage> openImage(const ImageSource& source);

}  // namespace talos::install
