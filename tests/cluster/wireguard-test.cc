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
// control-plane node calls the worker's by its address in the tunnel; the worker answers with a
// certificate, which is not one for that address.
TEST(Wireguard, NodesReachEachOtherInTheTunnel) {
  Cluster cluster("wireguard",
                  {"--provisioner", "qemu", "--wireguard-cidr", "10.1.0.0/24", "--memory", "384"});
  EXPECT_TRUE(contains(cluster.ok({"-n", "10.5.0.2", "interfaces"}), "10.1.0.2/24"));
  EXPECT_TRUE(contains(cluster.ok({"-n", "10.5.0.3", "interfaces"}), "10.1.0.3/24"));
  std::string said;
  auto answers = [&](const std::string& node) {
    said = cluster.talosctl({"-n", node, "--timeout", "10s", "version"}, 20).err;
    return contains(said, "TLS handshake with " + node + ": IP address mismatch");
  };
  // The first handshake of a tunnel may take several seconds.
  EXPECT_TRUE(eventually([&] { return answers("10.1.0.3"); }, 60)) << said;
  EXPECT_FALSE(answers("10.1.0.9")) << said;
}

}  // namespace
}  // namespace talos
