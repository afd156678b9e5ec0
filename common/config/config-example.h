// What a machine config can say besides what a generated one does: the keys that are most asked
// for, each with a value that could be right. Read by common/config/generate.cc as commented
// examples.
#pragma once

#include <kj/string.h>

namespace talos::config {

// A config that is valid, but for the authorities that it does not have; for workers without the
// Kubernetes control plane.
kj::StringPtr configExample(bool controlPlane);

}  // namespace talos::config
