// The program of tests/clients, which speaks to a node as the original's clients do: in Go, with
// their transport. Its tests are run by name.
#pragma once

#include <string>
#include <vector>

#include "tests/harness/cluster.h"

namespace talos::harness {

// $CLIENTS, which `make test` compiles; empty: it was not.
std::string foreignClient();

// The tests that the expression names, against one node; one that fails, or none that runs, fails
// the test. `environment`: more than where the node is and who asks.
void runForeignClient(const Cluster& cluster, const std::string& names, const std::string& node,
                      std::vector<std::string> environment, double seconds = 240);

}  // namespace talos::harness
