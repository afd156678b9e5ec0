// Version of this build, the same in every program: shown by `version` and reported by the node.
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

}  // namespace talos
