// Keys that act since this release and had no effect before. A config that a node has kept from an
// earlier release may have anything in them, so a mistake there is no error: it is a warning, and
// the key, or the item with the mistake, has no effect, as before. Pure.
#pragma once

#include "common/base/problem.h"
#include "common/yaml/yaml.h"

namespace talos::config {

// Returns true for the path of a problem that is at or below such a key.
bool isInNewKey(kj::StringPtr path);

// Removes the new keys in which there is one of these errors from the document. Returns true if
// there was one to remove.
bool removeWrongNewKeys(codec::YamlStream& stream, const codec::YamlNode& document,
                        kj::ArrayPtr<const Problem> problems);

}  // namespace talos::config
