// Commented examples in a generated machine config: the keys that users need most often, each with
// a plausible value. Used by common/config/config-generate.cc.
#pragma once

#include <kj/string.h>

namespace talos::config {

// Returns a valid config, except that it has no CAs; for workers without the Kubernetes control
// plane.
kj::StringPtr configExample(bool controlPlane);

}  // namespace talos::config
