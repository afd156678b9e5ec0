#include "tests/harness/foreign-client.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace talos::harness {

std::string foreignClient() {
  auto path = getenv("CLIENTS");
  return path == nullptr ? "" : path;
}

void runForeignClient(const Cluster& cluster, const std::string& names, const std::string& node,
                      std::vector<std::string> environment, double seconds) {
  for (auto& each : {"NODE=" + node, "ENDPOINT=" + cluster.endpoint(node),
                     "TALOSCONFIG=" + cluster.talosconfig(), "TALOSCTL=" + talosctlPath()}) {
    environment.push_back(each);
  }
  auto timeout = std::to_string(static_cast<unsigned>(seconds * 5 / 6)) + "s";
  auto result = run({foreignClient(), "-test.v", "-test.run", names, "-test.timeout", timeout},
                    seconds, environment);
  EXPECT_EQ(0, result.status) << result.out << result.err;
  EXPECT_TRUE(contains(result.out, "--- PASS")) << "no test has run: " << result.out;
}

}  // namespace talos::harness
