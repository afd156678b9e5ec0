// The shape of a value of the machine config by its path, from the schema and the keys of later
// versions. Pure.
#pragma once

#include "talosctl/config/patch.h"

namespace talos::talosctl {

// `path`: keys, and indices of lists. Returns kUnknown for single values and for values with
// arbitrary keys.
Shape shapeOfConfig(kj::ArrayPtr<const kj::StringPtr> path);

// Returns true for a key of the machine config, including keys of later versions and of maps.
bool isConfigKey(kj::ArrayPtr<const kj::StringPtr> path);

}  // namespace talos::talosctl
