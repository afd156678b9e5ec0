// The name of this build's installer image in registries, as `gen config` and `talosctl images`
// print it. `make REGISTRY=registry.example.com/site` sets it (cmake/version.cmake).
#pragma once

#include <kj/string.h>

namespace talos {

// Where the build was made without REGISTRY=: the top-level domain .invalid (RFC 2606) exists
// nowhere, so a pull fails at once and its message has the reason. No image is published there.
constexpr kj::StringPtr kUnpublishedInstaller = "registry-not-set.invalid/talos/installer"_kj;
// Configs of builds before REGISTRY= name it for a release that was never published there.
constexpr kj::StringPtr kFormerInstaller = "ghcr.io/talos-systems/installer"_kj;

kj::StringPtr installerRepository();  // without a tag
kj::String installerImage();          // with the tag of this version
// True for a name that stands for the system that runs: this build's own name, or a name under
// which nothing of this version is published. A node has nothing to fetch for it.
bool isOwnInstaller(kj::StringPtr image);

}  // namespace talos
