// The ingress firewall, through the packet filter of the real kernel: the node and its neighbour
// are network namespaces, and networkd runs as on a node.
#include "networkd/plan/firewall-rules.h"

#include <map>
#include <string>
#include <vector>

#include "common/testing/test-namespace.h"
#include "tests/network/place.h"

namespace talos {
namespace {

constexpr auto kId = "firewall"_kj;
constexpr uint16_t kApi = 50000, kRangeFirst = 6443, kRangeLast = 6445, kKubelet = 10250,
                   kOther = 8080, kUdp = 5353;
constexpr unsigned kEchoes = 100, kMostOfThem = 50;

// A node, and its neighbour with two addresses of each family.
class Neighbours {
 public:
  Place peer;
  Node node{peer.fd.get()};
  Ip node4 = Ip::require("10.5.0.2"), node6 = Ip::require("fd00:5::2"),
     peer4 = Ip::require("10.5.0.1"), peer6 = Ip::require("fd00:5::1"),
     other4 = Ip::require("10.5.0.9"), other6 = Ip::require("fd00:5::9");

  Neighbours() {
    kj::AutoCloseFd six(open("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", O_WRONLY | O_CLOEXEC));
    KJ_SYSCALL(::write(six, "0", 1), "disable_ipv6");
    node.putLink();
    node.putAddress("10.5.0.2/24");
    node.putRoute("10.5.0.1");
    netlink::setUp(*node.kernel, node.eth0);
    netlink::change(*node.kernel,
                    netlink::AddAddress{{.link = node.eth0,
                                         .prefix = KJ_ASSERT_NONNULL(Prefix::parse("fd00:5::2/64")),
                                         .flags = IFA_F_NODAD}});
    for (auto address : {"10.5.0.1/24", "10.5.0.9/24", "fd00:5::1/64", "fd00:5::9/64"}) {
      peer.address("peer", address);
    }
    netlink::setUp(*peer.kernel, netlink::indexOf(*peer.kernel, "peer"));
    node.serve();
    node.start();
    node.until("the network", [&] { return node.applied(3); });
    for (auto port : {kApi, kRangeFirst, kRangeLast, kKubelet, kOther}) {
      for (auto& ip : {node4, node6}) listeners.add(boundSocket(ip, port, SOCK_STREAM));
    }
    udp4 = boundSocket(node4, kUdp, SOCK_DGRAM);
    udp6 = boundSocket(node6, kUdp, SOCK_DGRAM);
  }

  struct Rule {
    const char *name, *protocol;
    std::vector<networkd::PacketRule::Range> ports;
    std::vector<std::string> subnets, except = {};
  };
  void apply(bool block, const std::vector<Rule>& rules) {
    node.put<rpc::FirewallSpecSpec>(kId, [&](rpc::FirewallSpecSpec::Builder spec) {
      spec.setBlock(block);
      auto list = spec.initRules(static_cast<unsigned>(rules.size()));
      unsigned i = 0;
      for (auto& rule : rules) fill(list[i++], rule);
      spec.initPodSubnets(1).set(0, "10.244.0.0/16");
      spec.initServiceSubnets(1).set(0, "10.96.0.0/12");
    });
    auto spec = KJ_ASSERT_NONNULL(node.store.tryGet<rpc::FirewallSpecSpec>(kId));
    auto wanted = networkd::firewallTable(spec).listed();
    node.until("the rules", [&] {
      return ingress() == (block ? "block" : "accept") && networkd::sameRules(found(), wanted);
    });
  }
  void remove() {
    node.store.destroy("", typeName<rpc::FirewallSpecSpec>(), kId, "test");
    node.until("no rules and no status", [&] { return counts().empty() && ingress().empty(); });
  }

  // The packets of each rule, "chain: comment".
  std::map<std::string, uint64_t> counts() {
    std::map<std::string, uint64_t> all;
    for (auto& rule : found()) all[kj::str(rule.chain, ": ", rule.comment).cStr()] += rule.packets;
    return all;
  }
  // Packets of TCP and UDP that were dropped. Others come by themselves, such as those by which a
  // link joins multicast groups.
  uint64_t dropped() {
    uint64_t packets = 0;
    for (auto& [rule, count] : counts()) {
      bool drops = rule.ends_with("drop");
      if (drops && (rule.starts_with("prerouting: ct state new") || rule.starts_with("rule-"))) {
        packets += count;
      }
    }
    return packets;
  }
  uint64_t reported() {
    KJ_IF_MAYBE (status, node.store.tryGet<rpc::FirewallStatusSpec>(kId)) {
      return status->getDropped();
    }
    return 0;
  }

  // True if a new connection was made, false if its first packet was dropped.
  bool connects(const Ip& from, const Ip& to, uint16_t port) {
    auto before = dropped();
    auto request = peer.within([&] { return Request(to, port, "x", from); });
    bool drops = false;
    node.until("a connection or a dropped packet", [&] {
      drops = dropped() > before && !request.connected();
      return drops || request.connected();
    });
    return !drops;
  }
  // True if a datagram arrived.
  bool arrives(const Ip& from, const Ip& to) {
    auto before = dropped();
    auto socket = peer.within([&] { return boundSocket(from, 0, SOCK_DGRAM); });
    Name name(to, kUdp);
    KJ_SYSCALL(sendto(socket, "?", 1, 0, name.get(), name.size));
    bool drops = false;
    node.until("a datagram or a dropped packet", [&] {
      char byte;
      if (recv(to == node4 ? udp4 : udp6, &byte, 1, 0) == 1) return true;
      return drops = dropped() > before;
    });
    return !drops;
  }
  // Sends requests for an echo, each of another id, which is a new connection for the kernel, until
  // so many packets have passed the rule or the rules with this end. Returns the number of replies
  // that have arrived then.
  unsigned echoes(const Ip& from, const Ip& to, kj::StringPtr rule, uint64_t packets) {
    auto before = counts();
    bool v4 = to.family() == AF_INET;
    kj::AutoCloseFd socket;
    peer.within([&] {
      int fd;
      KJ_SYSCALL(fd = ::socket(to.family(), SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
                               v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6));
      socket = kj::AutoCloseFd(fd);
      Name name(from, 0);
      KJ_SYSCALL(bind(socket, name.get(), name.size), from);
      return true;
    });
    Name name(to, 0);
    for (unsigned i = 0; i < kEchoes; ++i) {
      auto request = echo(uint8_t(v4 ? 8 : 128), ++lastId);
      KJ_SYSCALL(sendto(socket, request.data(), request.size(), 0, name.get(), name.size));
    }
    unsigned replies = 0;
    node.until(rule, [&] {
      replies += repliesAt(socket, v4);
      uint64_t passed = 0;
      for (auto& [one, count] : counts()) {
        if (one.ends_with(rule.cStr())) passed += count - before[one];
      }
      return passed >= packets;
    });
    // A reply is on its way when its request has passed.
    if (rule.endsWith("drop")) return replies;
    node.until("replies", [&] { return (replies += repliesAt(socket, v4)) >= packets; });
    return replies;
  }
  // True if the answer to a datagram of the node arrives.
  bool hearsAnswer() {
    auto far = peer.within([&] { return boundSocket(peer4, kUdp, SOCK_DGRAM); });
    auto before = dropped();
    Name there(peer4, kUdp), back(node4, kUdp);
    KJ_SYSCALL(sendto(udp4, "?", 1, 0, there.get(), there.size));
    bool sent = false, answered = false;
    node.until("an answer or a dropped packet", [&] {
      char byte;
      if (!sent && recv(far, &byte, 1, 0) == 1) {
        KJ_SYSCALL(sendto(far, "!", 1, 0, back.get(), back.size));
        sent = true;
      }
      answered = answered || recv(udp4, &byte, 1, 0) == 1;
      return answered || dropped() > before;
    });
    return answered;
  }
  // Takes the connection that the neighbour makes to the API.
  kj::AutoCloseFd takeConnection() {
    int fd = -1;
    node.until("a connection", [&] {
      fd = accept4(listeners[0], nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      return fd >= 0;
    });
    return kj::AutoCloseFd(fd);
  }

 private:
  kj::Vector<kj::AutoCloseFd> listeners;
  kj::AutoCloseFd udp4, udp6;
  netlink::Socket filter{NETLINK_NETFILTER, 5 * kj::SECONDS};
  uint16_t lastId = 0;

  static void fill(config::FirewallRule::Builder out, const Rule& rule) {
    out.setName(rule.name);
    out.setProtocol(rule.protocol);
    auto ports = out.initPorts(static_cast<unsigned>(rule.ports.size()));
    unsigned i = 0;
    for (auto& range : rule.ports) {
      ports[i].setFirst(range.first);
      ports[i++].setLast(range.last);
    }
    auto set = [](capnp::List<capnp::Text>::Builder list, auto& texts) {
      unsigned next = 0;
      for (auto& text : texts) list.set(next++, text.c_str());
    };
    set(out.initSubnets(static_cast<unsigned>(rule.subnets.size())), rule.subnets);
    set(out.initExcept(static_cast<unsigned>(rule.except.size())), rule.except);
  }
  kj::Vector<networkd::FilterRule> found() {
    kj::Vector<networkd::FilterRule> rules;
    for (auto& message : filter.dump(networkd::encodeRuleDump(networkd::kFirewallTable), "rules")) {
      KJ_IF_MAYBE (part, message.body.tryGet<netlink::Generic>()) {
        KJ_IF_MAYBE (rule, networkd::readRule(*part, networkd::kFirewallTable)) {
          rules.add(kj::mv(*rule));
        }
      }
    }
    return rules;
  }
  std::string ingress() {
    KJ_IF_MAYBE (status, node.store.tryGet<rpc::FirewallStatusSpec>(kId)) {
      KJ_REQUIRE(status->getProblem().size() == 0, status->getProblem());
      return status->getIngress().cStr();
    }
    return "";
  }

  static std::array<uint8_t, 8> echo(uint8_t type, uint16_t id) {
    std::array<uint8_t, 8> out{type, 0, 0, 0, uint8_t(id >> 8), uint8_t(id), 0, 1};
    uint32_t sum = 0;
    for (size_t i = 0; i < out.size(); i += 2) sum += uint32_t(out[i]) << 8 | out[i + 1];
    sum = ~((sum & 0xffff) + (sum >> 16));
    out[2] = uint8_t(sum >> 8);
    out[3] = uint8_t(sum);
    return out;  // for IPv6 the kernel computes the sum
  }
  static unsigned repliesAt(int fd, bool v4) {
    unsigned count = 0;
    uint8_t packet[1500];
    for (;;) {
      auto size = recv(fd, packet, sizeof packet, 0);
      if (size < 0) return count;
      auto header = v4 ? size_t(packet[0] & 15) * 4 : 0;
      if (size_t(size) > header && packet[header] == (v4 ? 0 : 129)) ++count;
    }
  }
};

struct Row {
  const Ip &from, &to;
  uint16_t port;
  bool open;
};

// Catches: a port that a rule does not open, or that stays open; an exception or the other family
// that a rule lets in; a node that gets no replies, or cannot reach itself; rules that go with
// networkd, or that the next one replaces.
TEST(Firewall, BlockOpensWhatRulesName) {
  inNamespace([] {
    Neighbours net;
    auto& node = net.node;
    ASSERT_TRUE(net.connects(net.peer4, net.node4, kOther)) << "the way of the packets";
    ASSERT_TRUE(net.connects(net.peer6, net.node6, kOther)) << "the way of the packets";
    net.apply(true, {{"api",
                      "tcp",
                      {{kApi, kApi}, {kRangeFirst, kRangeLast}},
                      {"10.5.0.0/24", "fd00:5::/64"},
                      {"10.5.0.8/30", "fd00:5::9/128"}},
                     {"closed", "tcp", {{kKubelet, kKubelet}}, {}},
                     {"datagrams", "udp", {{kUdp, kUdp}}, {"10.5.0.1/32"}}});
    const Row rows[] = {
        {net.peer4, net.node4, kApi, true},       {net.peer4, net.node4, kRangeFirst, true},
        {net.peer4, net.node4, kRangeLast, true}, {net.peer6, net.node6, kApi, true},
        {net.other4, net.node4, kApi, false},     {net.other6, net.node6, kApi, false},
        {net.peer4, net.node4, kKubelet, false},  {net.peer4, net.node4, kOther, false},
        {net.peer6, net.node6, kOther, false},
    };
    for (auto& row : rows) {
      EXPECT_EQ(net.connects(row.from, row.to, row.port), row.open)
          << kj::str(row.from, " to port ", row.port).cStr();
    }
    EXPECT_TRUE(net.arrives(net.peer4, net.node4));
    EXPECT_FALSE(net.arrives(net.other4, net.node4));
    EXPECT_FALSE(net.arrives(net.peer6, net.node6));
    EXPECT_TRUE(net.hearsAnswer());
    Request self(net.node4, kOther, "x");
    node.until("a connection to itself", [&] { return self.connected(); });

    node.kill();
    EXPECT_FALSE(net.connects(net.peer4, net.node4, kOther));
    auto packets = net.dropped();
    EXPECT_GE(packets, 8u);
    node.start();
    // Only rules that were left alone have the count.
    node.until("the count", [&] { return net.reported() >= packets; });
    EXPECT_FALSE(net.connects(net.peer4, net.node4, kOther));
    net.remove();
    EXPECT_TRUE(net.connects(net.peer4, net.node4, kOther));
  });
}

// Catches: a port of no rule that is closed; a rule that closes its port to its own networks, or
// leaves it open to an exception, to the other family, or to all if it names no network; answers to
// the node that a rule for their port drops.
TEST(Firewall, AcceptClosesWhatRulesName) {
  inNamespace([] {
    Neighbours net;
    net.apply(false, {{"api", "tcp", {{kApi, kApi}}, {"10.5.0.0/24"}, {"10.5.0.9/32"}},
                      {"closed", "tcp", {{kKubelet, kKubelet}}, {}},
                      {"datagrams", "udp", {{kUdp, kUdp}}, {"fd00:5::/64"}}});
    const Row rows[] = {
        {net.peer4, net.node4, kApi, true},       {net.other4, net.node4, kApi, false},
        {net.peer6, net.node6, kApi, false},      {net.peer4, net.node4, kKubelet, false},
        {net.peer4, net.node4, kOther, true},     {net.other4, net.node4, kOther, true},
        {net.peer6, net.node6, kRangeLast, true},
    };
    for (auto& row : rows) {
      EXPECT_EQ(net.connects(row.from, row.to, row.port), row.open)
          << kj::str(row.from, " to port ", row.port).cStr();
    }
    EXPECT_FALSE(net.arrives(net.peer4, net.node4));
    EXPECT_TRUE(net.arrives(net.peer6, net.node6));
    EXPECT_TRUE(net.hearsAnswer());
  });
}

// Catches: echoes without a limit for those that no rule names, or with it for those that one does;
// a rule of one family that decides over the other.
TEST(Firewall, EchoesOfBothFamilies) {
  inNamespace([] {
    Neighbours net;
    ASSERT_TRUE(net.connects(net.peer4, net.node4, kOther));
    ASSERT_TRUE(net.connects(net.peer6, net.node6, kOther));
    net.apply(true, {{"ping", "icmp", {{0, 0}}, {"10.5.0.1/32"}},
                     {"ping6", "icmpv6", {{0, 65535}}, {"fd00:5::1/128"}}});
    EXPECT_EQ(net.echoes(net.peer4, net.node4, "ip saddr 10.5.0.1/32 accept", kEchoes), kEchoes);
    EXPECT_LE(net.echoes(net.other4, net.node4, "ingress: drop", kMostOfThem),
              kEchoes - kMostOfThem);
    EXPECT_EQ(net.echoes(net.peer6, net.node6, "ip6 saddr fd00:5::1/128 accept", kEchoes), kEchoes);
    EXPECT_LE(net.echoes(net.other6, net.node6, "ingress: drop", kMostOfThem),
              kEchoes - kMostOfThem);
    net.apply(false,
              {{"ping", "icmp", {{0, 0}}, {"10.5.0.1/32"}}, {"ping6", "icmpv6", {{0, 0}}, {}}});
    EXPECT_EQ(net.echoes(net.peer4, net.node4, "ip saddr 10.5.0.1/32 return", kEchoes), kEchoes);
    EXPECT_EQ(net.echoes(net.other4, net.node4, "rule-0: drop", kEchoes), 0u);
    EXPECT_EQ(net.echoes(net.peer6, net.node6, "rule-1: drop", kEchoes), 0u);
  });
}

// Catches: a trial that cuts the connection of the client that applied it; one that lets in a new
// connection, so that the client confirms a config that locks it out.
TEST(Firewall, AConnectionStaysAndANewOneIsBlocked) {
  inNamespace([] {
    Neighbours net;
    auto& node = net.node;
    // From here on the kernel tracks connections, as on a node with Services.
    net.apply(false, {{"any", "tcp", {{kKubelet, kKubelet}}, {"10.5.0.0/24"}}});
    auto old = net.peer.within([&] { return Request(net.node4, kApi, "x", net.peer4); });
    auto taken = net.takeConnection();
    net.apply(true, {{"other", "tcp", {{kOther, kOther}}, {"10.5.0.0/24"}}});
    EXPECT_FALSE(net.connects(net.peer4, net.node4, kApi));
    node.until("the text of the old connection", [&] {
      char byte;
      return old.connected() && recv(taken, &byte, 1, 0) == 1;
    });
    KJ_SYSCALL(send(taken, "still here", 10, MSG_NOSIGNAL));
    taken = nullptr;
    node.until("the answer", [&] { return old.answered(); });
    EXPECT_EQ(old.answer, "still here");
    net.remove();  // the end of the trial
    EXPECT_TRUE(net.connects(net.peer4, net.node4, kApi));
  });
}

// Catches: rules that do not fit into a write of the socket, of which the kernel gets a part.
TEST(Firewall, ManyNetworksAreOneTransaction) {
  inNamespace([] {
    Neighbours net;
    std::vector<std::string> networks;
    for (int i = 0; i < 4000; ++i) {
      networks.push_back(kj::str("10.", 16 + i / 250, ".", i % 250, ".0/24").cStr());
    }
    net.apply(true, {{"many", "tcp", {{kApi, kApi}}, networks}});
    EXPECT_FALSE(net.connects(net.peer4, net.node4, kApi));
    networks.push_back("10.5.0.1/32");
    net.apply(true, {{"many", "tcp", {{kApi, kApi}}, networks}});
    EXPECT_TRUE(net.connects(net.peer4, net.node4, kApi));
  });
}

}  // namespace
}  // namespace talos
