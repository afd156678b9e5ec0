// Commented examples in a generated machine config: the keys that are needed most often, each with
// a plausible value. Used by common/config/config-generate.cc.
#pragma once

#include <kj/string.h>

namespace talos::config {

// A config that is valid, but for the authorities that it does not have; for workers without the
// Kubernetes control plane.
kj::StringPtr configExample(bool controlPlane);

}  // namespace talos::config
