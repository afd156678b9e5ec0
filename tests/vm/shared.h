// The machine that the checks of this folder share; the last of them shuts it down.
#pragma once

#include "tests/harness/cluster.h"

namespace talos::vm {

harness::Cluster& machine();

// Return 10.5.0.2, and the loopback address that leads to it.
std::string node();
std::string endpoint();

// Waits until every service of the node is Running and healthy.
bool allUp(double deadlineSeconds);

}  // namespace talos::vm
