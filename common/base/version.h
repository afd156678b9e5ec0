// The version of this build, the same in every program: what `version` shows and what a node says
// of itself.
#pragma once

#include <kj/string.h>

namespace talos {

struct BuildVersion {
  kj::StringPtr tag;  // v0.100.0
  kj::StringPtr sha;  // first 8 digits of the commit, "-dirty" behind them if files were changed;
                      // "none" without git
  kj::StringPtr
      built;  // RFC 3339: when the commit was made, so that equal sources give equal files
  kj::StringPtr compiler;  // clang 19.1.7
  kj::StringPtr os;        // linux
  kj::StringPtr arch;      // amd64, arm64
};

BuildVersion buildVersion();

// Stands in parentheses behind the tag of a node whose identity the node that was asked could not
// verify: it waits for its certificate.
constexpr kj::StringPtr kNotAuthenticated = "not authenticated"_kj;

}  // namespace talos
