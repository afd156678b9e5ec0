// Compares facts with a running node: with files of its kernel and its system, and where the kernel
// has no file, with its resources.
#pragma once

#include <string>

#include "tests/cluster/config-node.h"
#include "tests/published/config-facts.h"

namespace talos::published {

struct FactContext {
  const ConfigNode& node;
  std::string validated;  // output of `talosctl validate` about the config
};

// Returns an empty text if the fact holds; otherwise a short text of what the node has instead.
std::string contradiction(const FactContext& context, const Fact& fact);

}  // namespace talos::published
