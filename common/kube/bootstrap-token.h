// What stands in a manifest for the secret half of a bootstrap token: manifests are stored and
// shown (to os:admin). Who creates the object puts the secret in.
#pragma once

#include <kj/string.h>

namespace talos::kube {

constexpr kj::StringPtr kHiddenTokenSecret = "***"_kj;

}  // namespace talos::kube
