// The program of tests/clients, which calls a node as Talos' clients do: in Go, with their
// transport. Its tests are run by name.
#pragma once

#include <string>
#include <vector>

#include "tests/harness/cluster.h"

namespace talos::harness {

// Returns $CLIENTS, which `make test` compiles; empty if it was not compiled.
std::string foreignClient();

// Runs the tests that the expression names, against one node. The test fails if one of them fails,
// or if none runs. `environment`: variables besides the node's address and the client's identity.
void runForeignClient(const Cluster& cluster, const std::string& names, const std::string& node,
                      std::vector<std::string> environment, double seconds = 240);

}  // namespace talos::harness
