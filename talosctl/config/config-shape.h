// The shape of a value of the machine config by its path: from the schema and the keys of later
// versions. Pure.
#pragma once

#include "talosctl/config/patch.h"

namespace talos::talosctl {

// `path`: keys, and indices of lists. Unknown for single values and for what has any keys.
Shape shapeOfConfig(kj::ArrayPtr<const kj::StringPtr> path);

// True of a key of the machine config, also one of a later version or of a map.
bool isConfigKey(kj::ArrayPtr<const kj::StringPtr> path);

}  // namespace talos::talosctl
