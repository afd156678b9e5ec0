#include "tests/cluster/vip-segment.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdio.h>

#include <algorithm>
#include <regex>

namespace talos {

namespace {

size_t countOf(const std::string& text, const std::string& pattern) {
  std::regex regex(pattern);
  return std::distance(std::sregex_iterator(text.begin(), text.end(), regex),
                       std::sregex_iterator());
}

std::vector<std::string> withNodes(std::vector<std::string> flags, unsigned workers) {
  flags.insert(flags.end(), {"--masters", std::to_string(VipSegment::kCount), "--workers",
                             std::to_string(workers), "--use-vip", "--bootstrap=true"});
  return flags;
}

}  // namespace

Heal both(Heal a, Heal b) {
  return [a, b] {
    a();
    b();
  };
}

VipSegment::VipSegment(const std::string& name, const std::string& port,
                       std::vector<std::string> flags, unsigned workers)
    : cluster(name, withNodes(std::move(flags), workers)),
      segment(placeOf(cluster.supervisor())),
      kernel(inside(segment, [] { return netlink::openKernel(); })) {
  for (unsigned i = 0; i < kCount + workers; ++i) {
    auto kind = i < kCount ? "-master-" + std::to_string(i + 1)
                           : "-worker-" + std::to_string(i + 1 - kCount);
    nodes.push_back({.name = name + kind,
                     .address = "10.5.0." + std::to_string(i + 2),
                     .port = port + std::to_string(i)});
  }
  addClient();
}

VipSegment::~VipSegment() {
  client = nullptr;
}

void VipSegment::addClient() {
  clientPlace = newPlace();
  auto own = KJ_ASSERT_NONNULL(Prefix::parse(kj::str(kClient, "/24")));
  inside(segment,
         [&] { plugIn(*kernel, netlink::indexOf(*kernel, "bridge"), "client", clientPlace, own); });
  inside(clientPlace, [&] {
    auto there = netlink::openKernel();
    auto eth0 = KJ_ASSERT_NONNULL(netlink::findLink(*there, "eth0"));
    client = std::make_unique<ArpProber>(eth0, own.address, Ip::require(kVip));
  });
}

harness::Result VipSegment::at(unsigned node, std::vector<std::string> arguments,
                               unsigned timeoutSeconds) const {
  auto& address = nodes[node].address;
  std::vector<std::string> line = {"-e",        cluster.endpoint(address),           "-n", address,
                                   "--timeout", std::to_string(timeoutSeconds) + "s"};
  line.insert(line.end(), arguments.begin(), arguments.end());
  return cluster.talosctl(line, timeoutSeconds + 10);
}

int VipSegment::settledBy(unsigned node) const {
  auto answered = client->answered.load();
  auto statuses =
      cluster.talosctl({"-e", cluster.endpoint(nodes[node].address), "-n",
                        nodes[0].address + "," + nodes[1].address + "," + nodes[2].address,
                        "--timeout", "5s", "get", "vipstatus"},
                       20);
  if (statuses.status != 0 || countOf(statuses.out, " eth0 +holder ") != 1 ||
      countOf(statuses.out, " eth0 +waiting ") != kCount - 1 || client->answered <= answered) {
    return -1;
  }
  for (unsigned i = 0; i < kCount; ++i) {
    std::string dots = std::regex_replace(nodes[i].address, std::regex("\\."), "\\.");
    if (countOf(statuses.out, "(^|\n)" + dots + " .* eth0 +holder ") == 1) return int(i);
  }
  return -1;
}

int VipSegment::leader() const {
  std::vector<std::string> addresses;
  for (unsigned i = 0; i < kCount; ++i) addresses.push_back(nodes[i].address);
  auto leads = std::find(addresses.begin(), addresses.end(), cluster.etcdLeader(addresses));
  return leads == addresses.end() ? -1 : int(leads - addresses.begin());
}

std::string VipSegment::said() const {
  std::string all;
  for (unsigned i = 0; i < kCount; ++i) {
    all += "--- " + nodes[i].name + "\n";
    for (auto& command :
         std::vector<std::vector<std::string>>{{"get", "vipstatus"},
                                               {"etcd", "status"},
                                               {"logs", "vipd", "--tail", "40"},
                                               {"logs", "etcd", "--tail", "40"},
                                               {"logs", "machined", "--tail", "20"}}) {
      auto result = at(i, command);
      all += result.out + result.err;
    }
  }
  return all;
}

void VipSegment::power(const char* action, unsigned node) const {
  cluster.ok({"cluster", "node", action, nodes[node].name}, 120);
}

Heal VipSegment::lose(unsigned node) {
  power("kill", node);
  return [=, this] { power("start", node); };
}

Heal VipSegment::freeze(unsigned node) const {
  power("pause", node);
  return [=, this] { power("resume", node); };
}

Heal VipSegment::unplug(unsigned node) {
  setPort(node, false);
  return [=, this] { setPort(node, true); };
}

void VipSegment::setPort(unsigned node, bool up) {
  netlink::setUp(*kernel, netlink::indexOf(*kernel, nodes[node].port.c_str()), up);
}

// Sets a filter in the segment's namespace.
void VipSegment::filter(const std::string& commands) const {
  auto result = inside(segment, [&] { return harness::run({"nft", commands}); });
  EXPECT_EQ(0, result.status) << commands << "\n" << result.err;
}

Heal VipSegment::cutOff(unsigned node, Way way) {
  auto& port = nodes[node].port;
  if (way == Way::kBoth) {
    auto index = netlink::indexOf(*kernel, port.c_str());
    netlink::setMaster(*kernel, index, 0);
    return [=, this] { netlink::setMaster(*kernel, index, netlink::indexOf(*kernel, "bridge")); };
  }
  return drop(node, way == Way::kFromNode ? "ingress" : "egress", "");
}

// `hook`: "ingress" for frames from the node, "egress" for frames to the node. Faults of several
// ports have separate tables, so that each ends by itself.
Heal VipSegment::drop(unsigned node, const std::string& hook, const std::string& frames) {
  auto& port = nodes[node].port;
  auto table = "netdev cut_" + port + "_" + hook;
  filter("add table " + table + "; add chain " + table + " here { type filter hook " + hook +
         " device " + port + " priority 0; policy " + (frames.empty() ? "drop" : "accept") + "; }" +
         (frames.empty() ? "" : "; add rule " + table + " here " + frames + " drop"));
  return [=, this] { filter("delete table " + table); };
}

Heal VipSegment::cutLink(unsigned a, unsigned b) {
  auto from = [&](unsigned node) {
    auto bytes = hardwareAddress(node);
    KJ_REQUIRE(bytes.size() == 6, nodes[node].name.c_str());
    char text[32];
    auto at = [&](size_t i) { return unsigned(static_cast<unsigned char>(bytes[i])); };
    snprintf(text, sizeof text, "%02x:%02x:%02x:%02x:%02x:%02x", at(0), at(1), at(2), at(3), at(4),
             at(5));
    return std::string("ether saddr ") + text;
  };
  return both(drop(b, "egress", from(a)), drop(a, "egress", from(b)));
}

Heal VipSegment::slowLink(unsigned node) {
  auto& port = nodes[node].port;
  auto tc = [=, this](std::vector<std::string> words) {
    words.insert(words.begin(), {"tc", "qdisc"});
    auto result = inside(segment, [&] { return harness::run(words); });
    EXPECT_EQ(0, result.status) << result.err;
  };
  tc({"add", "dev", port, "root", "netem", "delay", "120ms", "60ms", "loss", "8%"});
  return [=] { tc({"del", "dev", port, "root"}); };
}

bool VipSegment::canSlowLinks() {
  auto& port = nodes[0].port;
  auto tc = [&](const char* action) {
    return inside(segment, [&] {
      return harness::run({"tc", "qdisc", action, "dev", port, "root", "netem", "delay", "0ms"});
    });
  };
  return tc("add").status == 0 && tc("del").status == 0;
}

}  // namespace talos
