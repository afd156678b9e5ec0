// The users' chapter "Configuring Wireguard Network": `cluster create --wireguard-cidr` as printed,
// in virtual machines.
#include <gtest/gtest.h>

#include <regex>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;

// The tunnel as the node's kernel has it.
std::string tunnelOf(const Cluster& cluster, const std::string& node) {
  return cluster.ok({"-n", node, "get", "link", "wg0", "-o", "yaml"});
}

// The topology of the chapter. Catches: keepalive packets or networks that stay in the config; a
// worker whose other traffic in the tunnel has no peer.
void checkTunnels(const Cluster& cluster) {
  const std::string kKeepalive = "persistentKeepaliveInterval: 5\n";
  auto server = tunnelOf(cluster, "10.5.0.2"), client = tunnelOf(cluster, "10.5.0.3");
  EXPECT_TRUE(contains(server, "listenPort: 51111\n")) << server;
  EXPECT_TRUE(contains(server, kKeepalive)) << server;
  EXPECT_TRUE(contains(server, "10.1.0.3/32")) << server;
  EXPECT_TRUE(contains(client, "10.5.0.2:51111")) << client;
  EXPECT_TRUE(contains(client, kKeepalive)) << client;
  EXPECT_TRUE(contains(client, "10.1.0.0/24")) << client;
}

// Catches: keys that do not belong together, and peers that do not find each other: a tunnel whose
// kernels agree on no session, at another port, or without keepalives. apid of the control-plane
// node calls the worker's by its address in the tunnel. A worker's certificate gets an address half
// a minute after the worker got the address (apid/join/joiner.h); until then the answering node is
// refused for its certificate, which only the worker could have shown.
TEST(Wireguard, NodesReachEachOtherInTheTunnel) {
  // The kernel's module then logs its handshakes.
  Cluster cluster("wireguard",
                  {"--provisioner", "qemu", "--wireguard-cidr", "10.1.0.0/24", "--memory", "384",
                   "--extra-boot-kernel-args", "wireguard.dyndbg=+p"});
  EXPECT_TRUE(contains(cluster.ok({"-n", "10.5.0.2", "interfaces"}), "10.1.0.2/24"));
  EXPECT_TRUE(contains(cluster.ok({"-n", "10.5.0.3", "interfaces"}), "10.1.0.3/24"));
  checkTunnels(cluster);
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
  // The kernel of a node numbers its peers as it likes.
  auto logged = [&](const std::string& node, const std::string& line) {
    std::string log;
    EXPECT_TRUE(eventually(
        [&] {
          log = cluster.ok({"-n", node, "dmesg"});
          return std::regex_search(log, std::regex("wireguard: wg0: " + line));
        },
        60, 0.5))
        << node << " has not logged " << line << "\n"
        << log;
  };
  for (auto node : {"10.5.0.2", "10.5.0.3"}) logged(node, "Keypair \\d+ created for peer \\d+");
  // Only the control plane listens where its peers can call it.
  logged("10.5.0.3",
         "Receiving handshake (initiation|response) from peer \\d+ "
         "\\(10\\.5\\.0\\.2:51111\\)");
  logged("10.5.0.2",
         "Receiving handshake (initiation|response) from peer \\d+ "
         "\\(10\\.5\\.0\\.3:\\d+\\)");
  logged("10.5.0.3", "Sending keepalive packet to peer \\d+");
}

}  // namespace
}  // namespace talos
