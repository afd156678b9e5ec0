#include "tests/cluster/vip-nodes.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <kj/debug.h>

#include <algorithm>
#include <atomic>
#include <regex>

namespace talos {
namespace {

using harness::eventually;

const std::string kVip = "10.5.0.50";
constexpr auto kStopped = std::chrono::milliseconds(450), kRunning = std::chrono::milliseconds(50);

size_t countOf(const std::string& text, const std::string& pattern) {
  std::regex regex(pattern);
  return std::distance(std::sregex_iterator(text.begin(), text.end(), regex),
                       std::sregex_iterator());
}

}  // namespace

VipNodes::VipNodes()
    : watch(Ip::require(kVip.c_str()), kCount),
      cluster("vipfaults", {"--provisioner", "container", "--masters", "3", "--workers", "0",
                            "--use-vip", "--bootstrap=true"}),
      segment(placeOf(cluster.supervisor())),
      kernel(inside(segment, [] { return netlink::openKernel(); })) {
  for (unsigned i = 0; i < kCount; ++i) {
    nodes.push_back({.name = "vipfaults-master-" + std::to_string(i + 1),
                     .address = "10.5.0." + std::to_string(i + 2),
                     .port = "node" + std::to_string(i),
                     .mac = {},
                     .place = {}});
    look(i);
  }
  addClient();
}

VipNodes::~VipNodes() {
  client = nullptr;
  watch.end();
}

void VipNodes::addClient() {
  clientPlace = newPlace();
  auto own = KJ_ASSERT_NONNULL(Prefix::parse("10.5.0.60/24"));
  inside(segment,
         [&] { plugIn(*kernel, netlink::indexOf(*kernel, "bridge"), "client", clientPlace, own); });
  inside(clientPlace, [&] {
    auto there = netlink::openKernel();
    auto eth0 = KJ_ASSERT_NONNULL(netlink::findLink(*there, "eth0"));
    client = std::make_unique<ArpProber>(eth0, own.address, Ip::require(kVip.c_str()));
  });
}

// At a node that has just been started: its namespace is a new one.
void VipNodes::look(unsigned number) {
  auto& node = nodes[number];
  auto pid = cluster.process(node.name);
  KJ_REQUIRE(pid > 0, "the supervisor has started no such node", node.name.c_str());
  node.place = placeOf(pid);
  inside(node.place, [&] {
    auto there = netlink::openKernel();
    auto eth0 = KJ_ASSERT_NONNULL(netlink::findLink(*there, "eth0"));
    node.mac.assign(eth0.hardwareAddress.asChars().begin(), eth0.hardwareAddress.size());
  });
  watch.put(number, node.place);
}

bool VipNodes::settled(double deadlineSeconds) {
  return eventually(
      [&] {
        int now = watch.onlyHolder();
        if (now < 0) return false;
        auto& holder = nodes[now];
        auto answered = client->answered.load();
        auto statuses =
            cluster.talosctl({"-e", cluster.endpoint(holder.address), "-n",
                              nodes[0].address + "," + nodes[1].address + "," + nodes[2].address,
                              "--timeout", "5s", "get", "vipstatus"},
                             20);
        return statuses.status == 0 && countOf(statuses.out, " eth0 +holder ") == 1 &&
               countOf(statuses.out, " eth0 +waiting ") == 2 && client->answered > answered;
      },
      deadlineSeconds);
}

int VipNodes::leader() const {
  std::vector<std::string> addresses;
  for (auto& node : nodes) addresses.push_back(node.address);
  auto leads = std::find(addresses.begin(), addresses.end(), cluster.etcdLeader(addresses));
  return leads == addresses.end() ? -1 : int(leads - addresses.begin());
}

int VipNodes::ownerOf(const std::string& mac) const {
  for (unsigned i = 0; i < kCount; ++i) {
    if (nodes[i].mac == mac) return int(i);
  }
  return -1;
}

std::string VipNodes::said() const {
  std::string all;
  for (auto& node : nodes) {
    auto at = [&](std::vector<std::string> words) {
      std::vector<std::string> line = {
          "-e", cluster.endpoint(node.address), "-n", node.address, "--timeout", "5s"};
      line.insert(line.end(), words.begin(), words.end());
      auto result = cluster.talosctl(line, 15);
      all += result.out + result.err;
    };
    all += "--- " + node.name + "\n";
    at({"get", "vipstatus"});
    at({"etcd", "status"});
    at({"logs", "vipd", "--tail", "40"});
  }
  return all;
}

// --- faults

// 0: it does not run.
pid_t VipNodes::pidOf(unsigned number, const std::string& program) const {
  return cluster.program(nodes[number].name, program);
}

// Not to a later process that has got its number.
void VipNodes::send(unsigned number, const std::string& program, pid_t pid, int signal) const {
  if (pid > 0 && pidOf(number, program) == pid) ::kill(pid, signal);
}

void VipNodes::kill(unsigned number, const std::string& program) {
  send(number, program, pidOf(number, program), SIGKILL);
}

Heal VipNodes::stop(unsigned number, const std::string& program) {
  auto pid = pidOf(number, program);
  send(number, program, pid, SIGSTOP);
  return [=, this] { send(number, program, pid, SIGCONT); };
}

Heal VipNodes::slow(unsigned number, const std::string& program) {
  auto pid = pidOf(number, program);
  auto thread = std::make_shared<std::jthread>([=, this](std::stop_token over) {
    while (!over.stop_requested()) {
      send(number, program, pid, SIGSTOP);
      std::this_thread::sleep_for(kStopped);
      send(number, program, pid, SIGCONT);
      std::this_thread::sleep_for(kRunning);
    }
  });
  return [thread] {
    thread->request_stop();
    thread->join();
  };
}

void VipNodes::power(const char* action, unsigned number) const {
  cluster.ok({"cluster", "node", action, nodes[number].name}, 60);
}

Heal VipNodes::lose(unsigned number) {
  power("kill", number);
  return [=, this] {
    power("start", number);
    look(number);
  };
}

Heal VipNodes::freeze(unsigned number) {
  power("pause", number);
  return [=, this] { power("resume", number); };
}

Heal VipNodes::unplug(unsigned number) {
  setPort(number, false);
  return [=, this] { setPort(number, true); };
}

void VipNodes::setPort(unsigned number, bool up) {
  netlink::setUp(*kernel, netlink::indexOf(*kernel, nodes[number].port.c_str()), up);
}

// In the segment's namespace.
void VipNodes::filter(const std::string& commands) const {
  auto result = inside(segment, [&] { return harness::run({"nft", commands}); });
  EXPECT_EQ(0, result.status) << commands << "\n" << result.err;
}

Heal VipNodes::cutOff(unsigned number, Way way) {
  auto& port = nodes[number].port;
  if (way == Way::kBoth) {
    auto index = netlink::indexOf(*kernel, port.c_str());
    netlink::setMaster(*kernel, index, 0);
    return [=, this] { netlink::setMaster(*kernel, index, netlink::indexOf(*kernel, "bridge")); };
  }
  auto hook = way == Way::kFromNode ? "ingress" : "egress";
  filter("add table netdev cut; add chain netdev cut here { type filter hook " + std::string(hook) +
         " device " + port + " priority 0; policy drop; }");
  return [this] { filter("delete table netdev cut"); };
}

}  // namespace talos
