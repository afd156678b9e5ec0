// The files of an installer image, in its folder usr/install: in a file system that containerd has
// unpacked, or in an archive. Their content is foreign.
//
// Everything blocks, and throws FailedPrecondition if it is not an installer image.
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

// An open archive, and the positions of the files of usr/install in it.
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
    kj::AutoCloseFd own;  // empty: a part of a file that stays open
    FileRange range;
  };
  virtual Part openPart(kj::StringPtr name) = 0;
  virtual bool has(kj::StringPtr name) = 0;
  // Returns the descriptor of the image's folder; nullptr if all of the image is open already.
  virtual kj::Maybe<int> root() const { return nullptr; }

  kj::Array<char> small(kj::StringPtr name, size_t limit);
  kj::Array<char> versionFile();
  kj::String version();  // that the image states
  // Returns the keys of the machine config that its system knows (common/config/config-key-list.h);
  // empty if it does not state them, like images of earlier releases.
  kj::String configKeys();
  // Returns the names and versions of its system extensions, which that file states.
  kj::Vector<kj::String> extensions();
};

constexpr size_t kMostVersionFile = 128;
constexpr kj::StringPtr kConfigKeysFile = "config-keys"_kj;
constexpr size_t kMostConfigKeys = 256u << 10;

// `source` must outlive it.
kj::Own<InstallerImage> openImage(const ImageSource& source);

}  // namespace talos::install
