// The files of system extensions (rpc/extensions.capnp): manifests, the list of the extensions in
// an image, and service files. Each problem names file, line and key, and says what would be right.
//
// The builder of an image refuses a file with a problem (rootfs/extension-layers), so a node finds
// none but in an image of another builder; it leaves such a file out and says so. Pure.
#pragma once

#include <capnp/message.h>

#include "common/base/problem.h"
#include "common/extension/extension-names.h"
#include "rpc/extensions.capnp.h"

namespace talos::extension {

// A file that was read. The value holds what could be read, and counts only without problems.
template <typename T>
struct ExtensionFile {
  mutable capnp::MallocMessageBuilder message;
  Problems problems;
  typename T::Reader get() const { return message.getRoot<T>().asReader(); }
  bool isGood() const { return !hasErrors(problems); }
};

// `file` is the file's name in problems.
kj::Own<ExtensionFile<Manifest>> readManifest(kj::StringPtr text, kj::StringPtr file);
kj::Own<ExtensionFile<ExtensionList>> readList(kj::StringPtr text, kj::StringPtr file);
kj::Own<ExtensionFile<ServiceFile>> readService(kj::StringPtr text, kj::StringPtr file);

// Returns the reason why an extension with this manifest is not loaded by a system of this version;
// nullptr if it is. The version is that of Talos, with which extensions are published.
kj::Maybe<kj::String> incompatibility(Manifest::Reader manifest, kj::StringPtr version);

}  // namespace talos::extension
