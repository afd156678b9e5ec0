// Version of this build, the same in every program: shown by `version` and reported by the node;
// and the name of its installer image.
#pragma once

#include <kj/string.h>

namespace talos {

struct BuildVersion {
  kj::StringPtr tag;    // v0.100.0
  kj::StringPtr sha;    // first 8 digits of the commit, followed by "-dirty" if files were changed;
                        // "none" without git
  kj::StringPtr built;  // RFC 3339: time of the commit, so that equal sources give equal files
  kj::StringPtr compiler;  // clang 19.1.7
  kj::StringPtr os;        // linux
  kj::StringPtr arch;      // amd64, arm64
};

BuildVersion buildVersion();

// Shown in parentheses after the tag of a node whose identity the called node could not verify: the
// node waits for its certificate.
constexpr kj::StringPtr kNotAuthenticated = "not authenticated"_kj;

// Name of this build's installer image in registries, as `gen config` and `talosctl images` print
// it. `make REGISTRY=registry.example.com/site` sets it (cmake/version.cmake).

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
