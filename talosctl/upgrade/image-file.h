// The argument of `talosctl upgrade --image`: a reference of a registry, a URL, or a file of this
// machine, which is sent to the nodes.
#pragma once

#include <kj/function.h>
#include <kj/io.h>

#include "rpc/upgrade.capnp.h"
#include "talosctl/client/sent-file.h"

namespace talos::talosctl {

// A path that begins with / ./ or ../, which no reference does. A usage error for another word that
// is a file here.
bool isImageFile(kj::StringPtr image);

// With what a node compares it with. It is read once for that, and once for each node.
class ImageFile {
 public:
  // Rejects naming the file. A file beside it with .sig at its end is its signature.
  static kj::Promise<kj::Own<ImageFile>> open(kj::Timer& timer, kj::StringPtr path);
  ImageFile(kj::Own<SentFile> file, kj::Array<kj::byte> digest, kj::Array<kj::byte> signature);
  KJ_DISALLOW_COPY_AND_MOVE(ImageFile);

  kj::String digestText() const;  // sha256:<hex>, as a node names it
  // `served` hears how far the node has read. This object has to outlive the capability.
  void fill(rpc::ImageFile::Builder out, kj::Function<void(uint64_t done, uint64_t size)> served);

 private:
  kj::Own<SentFile> file;
  kj::Array<kj::byte> digest, signature;
};

}  // namespace talos::talosctl
