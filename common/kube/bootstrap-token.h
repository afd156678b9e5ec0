// Placeholder for the secret half of a bootstrap token in manifests, which are stored and shown (to
// os:admin). The creator of the object inserts the secret.
#pragma once

#include <kj/string.h>

namespace talos::kube {

constexpr kj::StringPtr kHiddenTokenSecret = "***"_kj;
constexpr kj::StringPtr kTokenType = "bootstrap.kubernetes.io/token"_kj;  // type of its Secret

}  // namespace talos::kube
