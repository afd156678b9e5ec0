// The users' chapter "Configuring Wireguard Network": `cluster create --wireguard-cidr` as printed,
// in virtual machines.
#include <gtest/gtest.h>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;

// Catches: keys that do not belong together, and peers that do not find each other. apid of the
// control-plane node calls the worker's by its address in the tunnel. A worker's certificate gets
// an address half a minute after it has come (apid/join/joiner.h); until then the one that answers
// is refused for its certificate, which only the worker could have shown.
TEST(Wireguard, NodesReachEachOtherInTheTunnel) {
  Cluster cluster("wireguard",
                  {"--provisioner", "qemu", "--wireguard-cidr", "10.1.0.0/24", "--memory", "384"});
  EXPECT_TRUE(contains(cluster.ok({"-n", "10.5.0.2", "interfaces"}), "10.1.0.2/24"));
  EXPECT_TRUE(contains(cluster.ok({"-n", "10.5.0.3", "interfaces"}), "10.1.0.3/24"));
  std::string said;
  auto answers = [&](const std::string& node) {
    auto result = cluster.talosctl({"-n", node, "--timeout", "10s", "version"}, 20);
    said = result.out + result.err;
    return (result.status == 0 && contains(result.out, node)) ||
           contains(result.err, "TLS handshake with " + node + ": IP address mismatch");
  };
  // The first handshake of a tunnel may take several seconds.
  EXPECT_TRUE(eventually([&] { return answers("10.1.0.3"); }, 60)) << said;
  EXPECT_FALSE(answers("10.1.0.9")) << said;
}

}  // namespace
}  // namespace talos
