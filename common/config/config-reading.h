// A stream of documents without its view: which of them is the machine config, and which problems
// count for a config that a node has kept from an earlier release.
#pragma once

#include "common/config/config.h"
#include "common/yaml/yaml.h"

namespace talos::config {

// Returns the index of the machine config in a stream: the first document with the key `machine`.
kj::Maybe<size_t> machineConfigIn(const codec::YamlStream& stream);

// Returns the problems of a config for a node that may have kept it from an earlier release: errors
// that the earlier release accepted are warnings, so that the node boots with the config after an
// upgrade.
Problems problemsOfKept(const MachineConfig& config, kj::StringPtr file);

}  // namespace talos::config
