#include "tests/cluster/config-node.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include <filesystem>
#include <fstream>

#include "tests/harness/cluster.h"
#include "tests/vm/lone-machine.h"

namespace talos::published {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::Result;
using vm::LoneMachine;
namespace fs = std::filesystem;

constexpr double kUp = harness::kBoots;

std::string endOf(const std::string& text) {
  return text.size() < 4000 ? text : text.substr(text.size() - 4000);
}

// Writes a talosconfig with a certificate of the config's CA.
void writeTalosconfig(const config::Secrets& secrets, const std::string& path) {
  config::adminConfig(secrets, "published", nullptr).save(path.c_str());
}

// A node of a local cluster: a control-plane node, or a worker with a control-plane node beside it
// that signs the worker's certificate.
class ClusterNode final : public ConfigNode {
 public:
  ClusterNode(const NodeConfig& config, const FactsFile& facts, const config::Secrets& secrets)
      : worker(config.worker),
        machine(facts.machine),
        cluster("published", flagsFor(config, facts)),
        talosconfig(cluster.folder() + "/admin-talosconfig"),
        dhcp(dhcpServer(cluster, address())) {
    writeTalosconfig(secrets, talosconfig);
    if (worker) apply(Cluster::kFirst, config.controlPlane, controlPlanePatch(config.token));
    apply(address(), config.text);
    Result version;
    KJ_REQUIRE(eventually(
                   [&] {
                     version = talosctl({"version"});
                     return version.status == 0 &&
                            (!facts.installs || contains(read("/proc/cmdline"), "talos.slot="));
                   },
                   kUp, 0.5),
               "the node's API does not answer", version.err.c_str(), endOf(console()).c_str());
  }

  Result talosctl(std::vector<std::string> arguments) const override {
    // A container is called from inside of its network, which its config may have moved to other
    // addresses or closed; a worker has no loopback address in its certificate.
    std::string target = worker ? address() : "127.0.0.1", endpoint = target;
    std::vector<std::string> command;
    if (machine) {
      endpoint = cluster.endpoint();
    } else {
      command = inNetworkOf(cluster.process(nodeName()));
    }
    command.insert(command.end(), {harness::talosctlPath(), "--talosconfig", talosconfig,
                                   "--timeout", "20s", "-e", endpoint, "-n", target});
    command.insert(command.end(), arguments.begin(), arguments.end());
    return harness::run(command, 60);
  }
  std::string console() const override { return cluster.console(nodeName()); }
  std::string firewall() const override {
    if (machine) return get("firewall");
    auto command = inNetworkOf(cluster.process(nodeName()));
    command.insert(command.end(), {"nft", "list", "ruleset"});
    return harness::run(command, 30).out;
  }

 private:
  bool worker, machine;
  Cluster cluster;
  std::string talosconfig;
  harness::Background dhcp;

  std::string address() const { return worker ? "10.5.0.3" : Cluster::kFirst; }
  std::string nodeName() const { return worker ? "published-worker-1" : "published-master-1"; }

  static std::vector<std::string> flagsFor(const NodeConfig& config, const FactsFile& facts) {
    std::vector<std::string> flags = {"--provisioner",
                                      "container",
                                      "--masters",
                                      "1",
                                      "--workers",
                                      config.worker ? "1" : "0",
                                      "--wait=false",
                                      "--no-uplink",
                                      "--skip-injecting-config"};
    if (facts.machine) flags.insert(flags.end(), {"--virtual-machines", "1", "--memory", "3072"});
    if (facts.installs) flags.push_back("--with-bootloader");
    for (auto& size : facts.disks)
      flags.insert(flags.end(), {"--user-disk", "/var/published:" + size + "B"});
    return flags;
  }
  static std::vector<std::string> inNetworkOf(pid_t pid) {
    return {"nsenter", "--net=/proc/" + std::to_string(pid) + "/ns/net"};
  }
  // Gives each node that requests an address this one, which the node has already.
  static std::vector<std::string> dhcpServer(const Cluster& cluster, const std::string& address) {
    auto command = inNetworkOf(cluster.supervisor());
    command.insert(command.end(),
                   {"/usr/sbin/dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null",
                    "--no-resolv", "--no-hosts", "--user=root", "--group=root", "--pid-file",
                    "--no-ping", "--leasefile-ro", "--log-facility=/dev/null", "--port=0",
                    "--dhcp-range=" + address + "," + address + ",255.255.255.0,1h",
                    "--dhcp-option=3,10.5.0.1", "--dhcp-authoritative"});
    return command;
  }
  // Sets the addresses at which workers look for the control plane, and the names of its
  // certificate.
  std::string controlPlanePatch(const std::string& token) const {
    return "machine: {token: " + token + ", certSANs: [" + cluster.endpoint() +
           ", 10.5.0.10], network: {interfaces: [{interface: eth0, addresses: [10.5.0.2/24, "
           "10.5.0.10/24]}]}}";
  }

  // Waits until the node is in maintenance mode, and gives it a config.
  void apply(const std::string& node, const std::string& config, const std::string& patch = "") {
    auto target = cluster.endpoint(node), file = cluster.folder() + "/" + node + ".yaml";
    Result version;
    KJ_REQUIRE(eventually(
                   [&] {
                     version = cluster.talosctl({"-n", target, "version", "--insecure"});
                     return version.status == 0;
                   },
                   kUp, 0.5),
               "the node is not in maintenance mode", version.err.c_str());
    std::ofstream(file) << config;
    std::vector<std::string> command = {"apply-config", "--insecure", "-n", target, "-f", file};
    if (!patch.empty()) command.insert(command.end(), {"--config-patch", patch});
    auto applied = cluster.talosctl(command);
    KJ_REQUIRE(applied.status == 0, "the node refused the config", applied.err.c_str());
  }
};

// A machine outside of any cluster: eth0 is its way to this host, the others are the config's.
class MachineNode final : public ConfigNode {
 public:
  MachineNode(const NodeConfig& config, const FactsFile& facts, const config::Secrets& secrets)
      : machine(hardwareFor(config, facts)) {
    writeTalosconfig(secrets, machine.path("talosconfig"));
    auto failures = failed();
    machine.configure(config.text, kUp,
                      {"--config-patch", "machine: {certSANs: [" + machine.address + "]}"});
    KJ_REQUIRE(failed() == failures, "the machine does not come up with the config");
  }

  Result talosctl(std::vector<std::string> arguments) const override {
    return machine.at(std::move(arguments));
  }
  std::string console() const override { return machine.console(); }
  std::string firewall() const override { return get("firewall"); }

 private:
  LoneMachine machine;

  static int failed() {
    return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
  }
  // Returns a machine whose disks have the names of the config: SCSI if it installs on /dev/sda.
  static LoneMachine::Hardware hardwareFor(const NodeConfig& config, const FactsFile& facts) {
    LoneMachine::Hardware hardware{
        .disk = LoneMachine::writtenDisk("../image",
                                         {"ip=10.0.2.15::10.0.2.2:255.255.255.0::eth0:off"}),
        .card = "virtio-net-pci,mac=52:54:00:00:00:01"};
    if (contains(config.text, "disk: /dev/sda"))
      hardware.controller = {"virtio-scsi-pci,id=bus", "scsi-hd,bus=bus.0"};
    for (auto name : {"port1", "port2", "port3"}) {
      hardware.more.insert(hardware.more.end(),
                           {"-device", std::string("pcie-root-port,id=") + name +
                                           ",chassis=" + name[4] + ",addr=0x1" + name[4]});
    }
    for (auto& card : facts.cards) addCard(hardware, card);
    hardware.beforeItStarts = [disks = facts.disks](LoneMachine& self, LoneMachine::Hardware& all) {
      for (auto& size : disks) addDisk(self, all, size);
    };
    return hardware;
  }
  static void addCard(LoneMachine::Hardware& hardware, const FactsFile::Card& card) {
    if (card.link == "eth0") return;
    auto number = card.link.substr(3);
    // Bonds of the mode 802.3ad keep a port down whose speed is unknown.
    hardware.more.insert(
        hardware.more.end(),
        {"-netdev", "user,id=" + card.link + ",restrict=on,net=192.168.20" + number + ".0/24",
         "-device",
         "virtio-net-pci,netdev=" + card.link + ",romfile=,speed=1000,duplex=full" +
             (card.options.empty() ? "" : "," + card.options)});
  }
  static void addDisk(const LoneMachine& machine, LoneMachine::Hardware& hardware,
                      const std::string& size) {
    auto name = "further" + std::to_string(hardware.more.size()), file = machine.path(name);
    std::ofstream{file};
    fs::resize_file(file, std::stoull(size) << 30);
    hardware.more.insert(hardware.more.end(),
                         {"-drive", "if=none,id=" + name + ",format=raw,file=" + file, "-device",
                          "scsi-hd,bus=bus.0,drive=" + name});
  }
};

}  // namespace

std::unique_ptr<ConfigNode> startNode(const NodeConfig& config, const FactsFile& facts,
                                      const config::Secrets& secrets) {
  if (facts.machine && !config.worker) return std::make_unique<MachineNode>(config, facts, secrets);
  return std::make_unique<ClusterNode>(config, facts, secrets);
}

}  // namespace talos::published
