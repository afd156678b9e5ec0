// Images of the node: the CRI pulls and unpacks them, because it knows machine.registries (mirrors,
// credentials and CAs; machined/system/containerd-registries.h), and keeps them in the namespace of
// the pods. What is pulled has the digest that the registry promised: containerd checks it.
//
// Nothing is kept here: after a crash what was unpacked is found, and the rest is pulled again.
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
// Sorted by name; without the names that are a digest only, and without those with a digest that
// have the same image under a tag.
kj::Promise<kj::Vector<ContainerImage>> images(Containerd& containerd);

struct UnpackedImage {
  kj::String key;       // by which the CRI knows it: the digest of its config
  kj::String snapshot;  // the layers, unpacked
  kj::String pinned;    // name@sha256:…, by which exactly this one is pulled again; may be empty
};
// The image that is there already.
kj::Promise<kj::Maybe<UnpackedImage>> unpackedImage(Containerd& containerd, kj::String reference);

// Pulls once, even if the image is there. NotFound, InvalidArgument and PermissionDenied do not
// pass by themselves; Unavailable, DeadlineExceeded and Conflict, when another one was pulled by
// that name at the same time, may. All fields of the result are of one and the same image.
kj::Promise<UnpackedImage> pullImage(Containerd& containerd, kj::String reference);

// Without asking what was unpacked: for what is not (registry-artifacts.h). Its digest, of the
// config.
kj::Promise<kj::String> pullContent(Containerd& containerd, kj::String reference);

// Removes the images of this name, however it is written, so that the next pull starts from
// nothing. containerd does not sync what it unpacks: after a power cut an image can be there, and
// its files empty.
kj::Promise<void> forgetImage(Containerd& containerd, kj::String reference);

// For a service of the node: an image that is there is used; otherwise it is pulled until that
// works, for 20 minutes, with pauses from 5 s on. Each failure is reported to `failed`. NotFound
// and InvalidArgument end it.
kj::Promise<UnpackedImage> needImage(Containerd& containerd, kj::String reference,
                                     kj::Function<void(kj::StringPtr)> failed);

// The files of an unpacked image, to be read: as mount(2) takes it. The view is containerd's, goes
// by this name, and stays until it is dropped; one of an earlier call by the same name is replaced.
struct ImageView {
  kj::String type, source;
  kj::Vector<kj::String> options;
};
kj::Promise<ImageView> viewImage(Containerd& containerd, kj::String name, kj::String snapshot);
kj::Promise<void> dropView(Containerd& containerd, kj::String name);  // or there is none

// Of the names with a digest that the CRI knows an image by, the one for what was pulled as
// `reference`. Its digest is that of the manifest, or of the index, that the registry gives. Pure.
kj::StringPtr pinnedName(kj::ArrayPtr<const kj::String> names, kj::StringPtr reference);

// Turns containerd's error for a failed pull into a message that says what to do. Pure.
kj::Exception pullProblem(kj::StringPtr reference, ErrorKind kind, kj::StringPtr text);

}  // namespace talos::machined
