// What stands in a manifest for the secret half of a bootstrap token: manifests are shown to
// everybody who may read resources. Who creates the object puts the secret in.
#pragma once

#include <kj/string.h>

namespace talos::kube {

constexpr kj::StringPtr kHiddenTokenSecret = "***"_kj;

}  // namespace talos::kube
