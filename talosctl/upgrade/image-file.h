// The argument of `talosctl upgrade --image`: a reference of a registry, a URL, or a file of this
// machine, which is sent to the nodes.
#pragma once

#include <kj/function.h>
#include <kj/io.h>

#include "rpc/upgrade.capnp.h"
#include "talosctl/client/sent-file.h"

namespace talos::talosctl {

// Returns true for a path that begins with / ./ or ../, as no reference does. A usage error for
// another text that is the name of an existing file.
bool isImageFile(kj::StringPtr image);

// A file with the data against which a node checks it. It is read once for this data, and once for
// each node.
class ImageFile {
 public:
  // Opens the file; errors name it. A file with the same name and the suffix .sig is its signature.
  static kj::Promise<kj::Own<ImageFile>> open(kj::Timer& timer, kj::StringPtr path);
  ImageFile(kj::Own<SentFile> file, kj::Array<kj::byte> digest, kj::Array<kj::byte> signature);
  KJ_DISALLOW_COPY_AND_MOVE(ImageFile);

  kj::String digestText() const;  // sha256:<hex>, as nodes name it
  // `served` is called with the position up to which the node has read. This object must outlive
  // the capability.
  void fill(rpc::ImageFile::Builder out, kj::Function<void(uint64_t done, uint64_t size)> served);

 private:
  kj::Own<SentFile> file;
  kj::Array<kj::byte> digest, signature;
};

}  // namespace talos::talosctl
