// The places and names of system extensions.
#pragma once

#include <kj/string.h>

namespace talos::extension {

constexpr kj::StringPtr kListFile = "/etc/extensions.yaml"_kj;
// The content of the extensions' files for the node (ImageExtensions of rpc/extensions.capnp).
constexpr kj::StringPtr kImageFile = "/usr/share/extensions.capnp"_kj;
constexpr kj::StringPtr kServiceFolder = "/usr/local/etc/containers"_kj;
constexpr kj::StringPtr kContainerFolder = "/usr/local/lib/containers"_kj;
// Comes before the name of an extension's service.
constexpr kj::StringPtr kServicePrefix = "ext-"_kj;

// Returns true for the name of an extension, an extension's service, or an overlay: letters of
// lower case, digits, dashes and underlines.
inline bool isExtensionName(kj::StringPtr name) {
  constexpr size_t kMostName = 100;
  for (char c : name) {
    bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!good) return false;
  }
  return name.size() > 0 && name.size() <= kMostName;
}

}  // namespace talos::extension
