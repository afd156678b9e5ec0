// Name of this build's installer image in registries, as `gen config` and `talosctl images` print
// it. `make REGISTRY=registry.example.com/site` sets it (cmake/version.cmake).
#pragma once

#include <kj/string.h>

namespace talos {

// Name in a build without REGISTRY=: the top-level domain .invalid (RFC 2606) exists nowhere, so a
// pull fails at once and its message contains the cause. No image is published there.
constexpr kj::StringPtr kUnpublishedInstaller = "registry-not-set.invalid/talos/installer"_kj;
// Name in configs of builds before REGISTRY=, for a release that was never published there.
constexpr kj::StringPtr kFormerInstaller = "ghcr.io/talos-systems/installer"_kj;

kj::StringPtr installerRepository();  // without a tag
kj::String installerImage();          // with the tag of this version
// Returns true for a name of the running system: this build's name, or a name under which no image
// of this version is published. A node has nothing to pull for it.
bool isOwnInstaller(kj::StringPtr image);

}  // namespace talos
