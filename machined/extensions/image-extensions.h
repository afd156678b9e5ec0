// The system extensions of the running image, as its builder has read their files
// (rootfs/extension-layers). The file is a part of the root, so it is what the image's author put
// there; it is read within limits all the same.
#pragma once

#include <capnp/serialize.h>
#include <kj/memory.h>

#include "rpc/extensions.capnp.h"

namespace talos::machined {

class ImageExtensions {
 public:
  // Returns an image without extensions if the file does not exist. Throws if the file is not a
  // list of extensions.
  static kj::Own<ImageExtensions> read(kj::StringPtr file);

  capnp::List<extension::ExtensionLayer>::Reader layers() const { return root.getLayers(); }
  capnp::List<extension::ServiceFile>::Reader services() const { return root.getServices(); }

  explicit ImageExtensions(kj::Array<capnp::word> words);

 private:
  kj::Array<capnp::word> words;
  kj::Own<capnp::MessageReader> message;  // of `words`; nullptr without extensions
  extension::ImageExtensions::Reader root;
};

}  // namespace talos::machined
