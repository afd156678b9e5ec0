// Images of the node. The CRI pulls and unpacks them, because it knows machine.registries (mirrors,
// credentials and CAs; machined/system/containerd-registries.h), and keeps them in the namespace of
// the pods. containerd checks that a pulled image has the digest that the registry promised.
//
// Keeps no state: after a crash the unpacked images are found, and the others are pulled again.
#pragma once

#include <kj/time.h>
#include <kj/vector.h>

#include "machined/services/containers/containerd-connection.h"

namespace talos::machined {

struct ContainerImage {
  kj::String name, digest;
  uint64_t size;  // bytes, compressed; of one platform
  kj::Date created;
};
// Returns the images sorted by name; without names that are only a digest, and without names with a
// digest whose image also has a tag.
kj::Promise<kj::Vector<ContainerImage>> images(Containerd& containerd);

struct UnpackedImage {
  kj::String key;       // the CRI's key: the digest of the image's config
  kj::String snapshot;  // key of the unpacked layers
  kj::String pinned;    // name@sha256:…, which pulls exactly this image again; may be empty
};
// Returns the image if it is unpacked on this node; else nullptr.
kj::Promise<kj::Maybe<UnpackedImage>> unpackedImage(Containerd& containerd, kj::String reference);

// Pulls once, even if the image exists. NotFound, InvalidArgument and PermissionDenied are
// permanent; Unavailable, DeadlineExceeded and Conflict (another image was pulled by that name at
// the same time) may pass. All fields of the result describe the same image.
kj::Promise<UnpackedImage> pullImage(Containerd& containerd, kj::String reference);

// Pulls without looking for the unpacked image: for artifacts that are not unpacked
// (registry-artifacts.h). Returns the digest of the config.
kj::Promise<kj::String> pullContent(Containerd& containerd, kj::String reference);

// Removes the images of this name, in any spelling, so that the next pull starts from nothing.
// containerd does not sync what it unpacks: after a power cut an image can exist although its files
// are empty.
kj::Promise<void> forgetImage(Containerd& containerd, kj::String reference);

// Gets the image of a node's service: uses an existing image, or else pulls it and retries for 20
// minutes, with pauses from 5 s on. Reports each failure to `failed`. NotFound and InvalidArgument
// end it.
kj::Promise<UnpackedImage> needImage(Containerd& containerd, kj::String reference,
                                     kj::Function<void(kj::StringPtr)> failed);

// A read-only view of an unpacked image's files, as arguments of mount(2). containerd owns the view
// under this name until it is dropped; a second call with the same name replaces the view.
struct ImageView {
  kj::String type, source;
  kj::Vector<kj::String> options;
};
kj::Promise<ImageView> viewImage(Containerd& containerd, kj::String name, kj::String snapshot);
kj::Promise<void> dropView(Containerd& containerd, kj::String name);  // no-op without a view

// Returns, of the names with a digest by which the CRI knows an image, the name for the image that
// was pulled as `reference`. Its digest is that of the manifest, or of the index, that the registry
// serves. Pure.
kj::StringPtr pinnedName(kj::ArrayPtr<const kj::String> names, kj::StringPtr reference);

// Turns containerd's error for a failed pull into a message that says what to do. Pure.
kj::Exception pullProblem(kj::StringPtr reference, ErrorKind kind, kj::StringPtr text);

}  // namespace talos::machined
