// A machine whose address comes from DHCP: it requests an address before it has a config, fetches
// the config with it, and keeps it because the config says `dhcp: true`.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include "tests/harness/cluster.h"

namespace talos::vm {
namespace {

using harness::contains;

// dnsmasq in the network namespace of a cluster.
class Server {
 public:
  explicit Server(pid_t supervisor, std::vector<std::string> arguments) {
    auto place = "/proc/" + std::to_string(supervisor) + "/ns/net";
    arguments.insert(arguments.begin(), "/usr/sbin/dnsmasq");
    std::vector<char*> argv;
    for (auto& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid = fork();
    if (pid != 0) return;
    int fd = open(place.c_str(), O_RDONLY | O_CLOEXEC);
    if (setns(fd, CLONE_NEWNET) < 0) _exit(125);
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Server() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  Server(const Server&) = delete;

 private:
  pid_t pid;
};

// Takes the address and the routes out of a config, and puts DHCP and a shared address there, as
// the users' documents do.
void askByDhcp(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  static const std::regex address(R"(\n( *)cidr: 10\.5\.0\.2/24\n)");
  static const std::regex routes(R"(\n( *)routes:\n(\1 .*\n|\1-.*\n)+)");
  auto changed =
      std::regex_replace(text.str(), address, "\n$1dhcp: true\n$1vip: {ip: 10.5.0.50}\n");
  ASSERT_NE(changed, text.str()) << changed;
  std::ofstream(path) << std::regex_replace(changed, routes, "\n");
}

// Catches: a discovery that does not happen, or whose address is missing when the config has to be
// fetched; a node that loses it when its config arrives; a shared address that needs a static
// address beside it, or replaces the lease.
TEST(Dhcp, ANodeWithoutAnAddressGetsOneAndItsConfig) {
  // Without an uplink the config names no name servers: they come from the lease.
  harness::Cluster cluster(
      "dhcp", {"--masters", "1", "--workers", "0", "--memory", "512", "--wait=false", "--no-uplink",
               "--extra-boot-kernel-args", "ip=dhcp"});
  askByDhcp(cluster.stateFolder() + "/dhcp-master-1.yaml");
  Server server(
      cluster.supervisor(),
      {"--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
       "--host-record=clock.example.org,10.5.0.1", "--user=root", "--group=root", "--pid-file",
       "--no-ping", "--leasefile-ro", "--log-facility=/dev/null",
       "--dhcp-range=10.5.0.2,10.5.0.2,255.255.255.0,2m", "--dhcp-option=3,10.5.0.1",
       "--dhcp-option=6,10.5.0.53,10.5.0.1", "--domain=example.org", "--dhcp-authoritative"});
  harness::Result version;
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(300);
  while (version.status != 0 && std::chrono::steady_clock::now() < deadline) {
    version = cluster.talosctl({"version"}, 10);
    if (version.status != 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  ASSERT_EQ(version.status, 0) << version.out << version.err << cluster.console("dhcp-master-1");

  auto leases = cluster.ok({"get", "leases"});
  EXPECT_TRUE(contains(leases, "dhcp4/eth0") && contains(leases, "bound") &&
              contains(leases, "10.5.0.2/24"))
      << leases;
  auto addresses = cluster.ok({"get", "addressspecs", "eth0/10.5.0.2/24", "-o", "yaml"});
  EXPECT_TRUE(contains(addresses, "layer: operator")) << addresses;
  auto routes = cluster.ok({"get", "routes"});
  EXPECT_TRUE(contains(routes, "10.5.0.1/") && contains(routes, "1024")) << routes;
  auto resolvers = cluster.ok({"get", "resolvers", "-o", "yaml"});
  EXPECT_TRUE(contains(resolvers, "10.5.0.53") && contains(resolvers, "example.org")) << resolvers;
  EXPECT_TRUE(contains(cluster.ok({"read", "/etc/resolv.conf"}), "nameserver 10.5.0.53"));
  // The first of the two servers does not answer; the process that resolves names may open only
  // these files.
  auto time = cluster.talosctl({"time", "--check", "clock.example.org"}, 30);
  EXPECT_TRUE(time.status == 0 && contains(time.out, "10.5.0.1")) << time.out << time.err;
  auto unknown = cluster.talosctl({"time", "--check", "nobody.example.org"}, 30);
  EXPECT_TRUE(contains(unknown.err, "cannot resolve \"nobody.example.org\"")) << unknown.err;
  EXPECT_TRUE(contains(cluster.ok({"get", "hostnames"}), "dhcp-master-1"));
  EXPECT_TRUE(contains(cluster.ok({"get", "timeservers"}), "10.5.0.1"));

  auto made = cluster.talosctl({"bootstrap"}, harness::kBoots);
  ASSERT_EQ(made.status, 0) << made.err;
  std::string both;
  EXPECT_TRUE(harness::eventually(
      [&] {
        both = cluster.talosctl({"get", "addresses"}, 20).out;
        return contains(both, "eth0/10.5.0.50/32") && contains(both, "eth0/10.5.0.2/24");
      },
      harness::kBoots, 1))
      << both << cluster.talosctl({"get", "vipstatuses"}).out;
}

}  // namespace
}  // namespace talos::vm
