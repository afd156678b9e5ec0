#include "networkd/plan/firewall-rules.h"

#include <capnp/message.h>
#include <gtest/gtest.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include "common/base/error.h"
#include "common/testing/printing.h"

namespace talos::networkd {
namespace {

using Texts = std::initializer_list<kj::StringPtr>;

struct Spec {
  capnp::MallocMessageBuilder message;
  rpc::FirewallSpecSpec::Builder root = message.initRoot<rpc::FirewallSpecSpec>();

  static void set(capnp::List<capnp::Text>::Builder list, Texts texts) {
    unsigned i = 0;
    for (auto text : texts) list.set(i++, text);
  }
  void pods(Texts pods, Texts services) {
    set(root.initPodSubnets(static_cast<unsigned>(pods.size())), pods);
    set(root.initServiceSubnets(static_cast<unsigned>(services.size())), services);
  }
  static void fill(config::FirewallRule::Builder rule, kj::StringPtr name, kj::StringPtr protocol,
                   std::initializer_list<PacketRule::Range> ports, Texts subnets,
                   Texts except = {}) {
    rule.setName(name);
    rule.setProtocol(protocol);
    auto ranges = rule.initPorts(static_cast<unsigned>(ports.size()));
    unsigned i = 0;
    for (auto& range : ports) {
      ranges[i].setFirst(range.first);
      ranges[i++].setLast(range.last);
    }
    set(rule.initSubnets(static_cast<unsigned>(subnets.size())), subnets);
    set(rule.initExcept(static_cast<unsigned>(except.size())), except);
  }
  // Every shape of a rule.
  void allShapes() {
    auto rules = root.initRules(4);
    fill(rules[0], "api", "tcp", {{50000, 50000}, {6443, 6444}}, {"10.5.0.0/24", "fd00:5::/64"},
         {"10.5.0.8/30"});
    fill(rules[1], "dns of all", "udp", {{53, 53}}, {"0.0.0.0/0"});
    fill(rules[2], "ping", "icmp", {{0, 65535}}, {"10.5.0.0/24"});
    fill(rules[3], "ping6", "icmpv6", {{1, 1}}, {});
  }
  FirewallTable table() { return firewallTable(root.asReader()); }
};

std::string shown(const FirewallTable& table) {
  std::string text;
  for (auto& rule : table.listed()) text += kj::str(rule.chain, ": ", rule.comment, "\n").cStr();
  return text;
}

// Catches: pods without names, because block mode keeps them from the node's resolver; a resolver
// that is open to others than pods, or at other ports.
TEST(FirewallRules, BlockLetsPodsReachTheResolver) {
  Spec spec;
  spec.root.setBlock(true);
  spec.pods({"10.244.0.0/16"}, {});
  auto without = shown(spec.table());
  spec.set(spec.root.initHostDnsAddresses(2),
           {"169.254.116.108", "fd54:616c:6f73::204f:5320:444e:531"});
  EXPECT_EQ(shown(spec.table()),
            without +
                "pods: ip daddr 169.254.116.108/32 tcp dport 53 accept\n"
                "pods: ip daddr 169.254.116.108/32 udp dport 53 accept\n"
                "pods: ip6 daddr fd54:616c:6f73:0:204f:5320:444e:531/128 tcp dport 53 accept\n"
                "pods: ip6 daddr fd54:616c:6f73:0:204f:5320:444e:531/128 udp dport 53 accept\n");
  spec.root.setBlock(false);
  EXPECT_EQ(shown(spec.table()).find("169.254.116.108"), std::string::npos);
}

// Catches: a port that a rule does not open, or opens to an exception or to the other family; a
// rule without networks that opens its port to all; a node without IPv6 or DHCPv6; NodePorts that
// stay open; a rule that is not counted.
TEST(FirewallRules, BlockOpensWhatRulesName) {
  Spec spec;
  spec.root.setBlock(true);
  spec.pods({"10.244.0.0/16"}, {"10.96.0.0/12"});
  spec.allShapes();
  EXPECT_EQ(shown(spec.table()),
            "ingress: iifname lo accept\n"
            "ingress: iifname siderolink accept\n"
            "ingress: iifname kubespan accept\n"
            "ingress: icmpv6 type 133-136 accept\n"
            "ingress: ct state established,related accept\n"
            "ingress: ct state invalid drop\n"
            "ingress: icmp type 13-14 drop\n"
            "ingress: icmp type 17-18 drop\n"
            "ingress: icmp limit 5 a second accept\n"
            "ingress: icmpv6 limit 5 a second accept\n"
            "ingress: ip6 saddr fe80::/10 udp dport 546 accept\n"
            "ingress: ip saddr 10.244.0.0/16 jump pods\n"
            "ingress: ip saddr 10.96.0.0/12 jump pods\n"
            "ingress: tcp dport 50000 jump rule-0 for api\n"
            "ingress: tcp dport 6443-6444 jump rule-0 for api\n"
            "ingress: udp dport 53 jump rule-1 for dns?of?all\n"
            "ingress: icmp jump rule-2 for ping\n"
            "ingress: icmpv6 jump rule-3 for ping6\n"
            "ingress: drop\n"
            "prerouting: iifname lo accept\n"
            "prerouting: iifname siderolink accept\n"
            "prerouting: iifname kubespan accept\n"
            "prerouting: fib daddr type not local accept\n"
            "prerouting: ip6 saddr fe80::/10 udp dport 546 accept\n"
            "prerouting: ip saddr 10.244.0.0/16 jump pods\n"
            "prerouting: ip saddr 10.96.0.0/12 jump pods\n"
            "prerouting: ct state new tcp dport 50000 jump rule-0 for api\n"
            "prerouting: ct state new tcp dport 6443-6444 jump rule-0 for api\n"
            "prerouting: ct state new udp dport 53 jump rule-1 for dns?of?all\n"
            "prerouting: ct state new icmp jump rule-2 for ping\n"
            "prerouting: ct state new icmpv6 jump rule-3 for ping6\n"
            "prerouting: ct state new tcp drop\n"
            "prerouting: ct state new udp drop\n"
            "pods: ip daddr 10.244.0.0/16 accept\n"
            "pods: ip daddr 10.96.0.0/12 accept\n"
            "rule-0: ip saddr 10.5.0.8/30 return\n"
            "rule-0: ip saddr 10.5.0.0/24 accept\n"
            "rule-0: ip6 saddr fd00:5::/64 accept\n"
            "rule-1: ip saddr 0.0.0.0/0 accept\n"
            "rule-2: ip saddr 10.5.0.0/24 accept\n");
  EXPECT_EQ(spec.table().count, 4u);
  EXPECT_EQ(kj::strArray(spec.table().chains, " "),
            "ingress prerouting pods rule-0 rule-1 rule-2 rule-3");
}

// Catches: ports that no rule names and that are closed; a rule that closes its port to its own
// networks, or leaves it open to their exceptions; answers to the node's own connections that a
// rule for their port drops.
TEST(FirewallRules, AcceptClosesWhatRulesName) {
  Spec spec;
  spec.pods({"10.244.0.0/16"}, {"10.96.0.0/12"});
  spec.allShapes();
  EXPECT_EQ(shown(spec.table()),
            "ingress: iifname lo accept\n"
            "ingress: iifname siderolink accept\n"
            "ingress: iifname kubespan accept\n"
            "ingress: icmpv6 type 133-136 accept\n"
            "ingress: ct direction reply accept\n"
            "ingress: tcp dport 50000 jump rule-0 for api\n"
            "ingress: tcp dport 6443-6444 jump rule-0 for api\n"
            "ingress: udp dport 53 jump rule-1 for dns?of?all\n"
            "ingress: icmp jump rule-2 for ping\n"
            "ingress: icmpv6 jump rule-3 for ping6\n"
            "prerouting: iifname lo accept\n"
            "prerouting: iifname siderolink accept\n"
            "prerouting: iifname kubespan accept\n"
            "prerouting: fib daddr type not local accept\n"
            "prerouting: ct state new tcp dport 50000 jump rule-0 for api\n"
            "prerouting: ct state new tcp dport 6443-6444 jump rule-0 for api\n"
            "prerouting: ct state new udp dport 53 jump rule-1 for dns?of?all\n"
            "prerouting: ct state new icmp jump rule-2 for ping\n"
            "prerouting: ct state new icmpv6 jump rule-3 for ping6\n"
            "rule-0: ip saddr 10.5.0.8/30 drop\n"
            "rule-0: ip saddr 10.5.0.0/24 return\n"
            "rule-0: ip6 saddr fd00:5::/64 return\n"
            "rule-0: drop\n"
            "rule-1: ip saddr 0.0.0.0/0 return\n"
            "rule-1: drop\n"
            "rule-2: ip saddr 10.5.0.0/24 return\n"
            "rule-2: drop\n"
            "rule-3: drop\n");
}

// Catches: a jump to a chain that does not exist, for which the kernel refuses the whole table.
TEST(FirewallRules, BlockWithoutRulesAndPods) {
  Spec spec;
  spec.root.setBlock(true);
  auto text = shown(spec.table());
  EXPECT_EQ(text.find("jump"), text.npos) << text;
  EXPECT_NE(text.find("ingress: drop\n"), text.npos) << text;
  EXPECT_EQ(kj::strArray(spec.table().chains, " "), "ingress prerouting");
}

// Catches: a count that has accepted packets in it, or those of a chain that only jumps.
TEST(FirewallRules, DroppedPacketsAreThoseOfDrops) {
  Spec spec;
  spec.pods({}, {});
  Spec::fill(spec.root.initRules(1)[0], "a", "tcp", {{22, 22}}, {"10.0.0.0/8"}, {"10.1.0.0/16"});
  auto table = spec.table();
  auto found = table.listed();
  EXPECT_EQ(table.dropped(found), 0u);
  for (auto& rule : found) rule.packets = 1;
  EXPECT_EQ(table.dropped(found), 2u);  // those of the exception, and those of others
  EXPECT_EQ(table.dropped(nullptr), 0u);
}

// Catches: a network that is left out, so that a rule opens or closes something else.
TEST(FirewallRules, ANetworkThatIsNotValidIsAnError) {
  Spec spec;
  Spec::fill(spec.root.initRules(1)[0], "a", "tcp", {{22, 22}}, {"10.0.0.1"});
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { spec.table(); })) {
    EXPECT_EQ(kindOf(*e), ErrorKind::kInvalidArgument);
    EXPECT_EQ(messageOf(*e), "the firewall has the network 10.0.0.1");
  } else {
    ADD_FAILURE() << "no error";
  }
}

std::string hexOf(kj::ArrayPtr<const kj::byte> bytes) {
  std::string text;
  for (auto byte : bytes) {
    constexpr auto kDigits = "0123456789abcdef";
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// Returns the message of the rule with this comment.
std::string encodedRule(const FirewallTable& table, kj::StringPtr comment) {
  auto wanted = hexOf(comment.asBytes()) + "00";
  for (auto& bytes : encodeFirewall(table)) {
    auto text = hexOf(bytes);
    if (text.find(wanted) != text.npos) return text;
  }
  return "none";
}

// Catches: a number in this machine's byte order where the kernel reads the network's, or the other
// way round; a wrong offset, mask, key or verdict. The bytes are those of
// `nft --debug=netlink`, for a machine whose numbers begin with the lowest byte.
TEST(FirewallRules, Bytes) {
  Spec spec;
  spec.root.setBlock(true);
  Spec::fill(spec.root.initRules(1)[0], "a", "tcp", {{6443, 6444}}, {"10.0.0.0/9"}, {"fe80::/10"});
  auto table = spec.table();
  const struct {
    const char *comment, *bytes;
  } rows[] = {
      // The name of the link, with the NULs after it.
      {"iifname lo accept", "6c6f0000000000000000000000000000"},
      // The state, key 0 of ct; masked with 6; not 0.
      {"ct state established,related accept", "08000100000000010800020000000000"},
      {"ct state established,related accept", "0800010006000000"},
      {"ct state invalid drop", "0800010001000000"},
      {"ct state new tcp drop", "0800010008000000"},
      // The first byte of the transport header, from 13 (operation 5) to 14 (operation 3).
      {"icmp type 13-14 drop",
       "08000100000000010800020000000002080003000000000008000400"
       "00000001"},
      {"icmp type 13-14 drop",
       "08000200000000050c00038005000100"
       "0d000000"},
      {"icmp type 13-14 drop",
       "08000200000000030c00038005000100"
       "0e000000"},
      // 5 in 1 second, a burst of 5, packets.
      {"icmp limit 5 a second accept",
       "0c00010000000000000000050c0002000000000000000001080003000000000508000400000000000800050000"
       "000000"},
      // The type of the destination's address (3, 2) is not local (operation 1, 2).
      {"fib daddr type not local accept", "080001000000000108000200000000030800030000000002"},
      {"fib daddr type not local accept", "08000200000000010c0003800800010002000000"},
      // Ports from 6443 to 6444.
      {"tcp dport 6443-6444 jump rule-0 for a",
       "08000200000000050c00038006000100"
       "192b0000"},
      {"tcp dport 6443-6444 jump rule-0 for a",
       "08000200000000030c00038006000100"
       "192c0000"},
      {"tcp dport 6443-6444 jump rule-0 for a", "08000100fffffffd0b00020072756c652d3000"},
      // 4 bytes at 12, masked with 9 bits; 16 bytes at 8, masked with 10 bits.
      {"ip saddr 10.0.0.0/9 accept", "080003000000000c0800040000000004"},
      {"ip saddr 10.0.0.0/9 accept", "08000100ff800000"},
      {"ip saddr 10.0.0.0/9 accept", "080001000a000000"},
      {"ip6 saddr fe80::/10 return", "08000300000000080800040000000010"},
      {"ip6 saddr fe80::/10 return", "14000100ffc00000000000000000000000000000"},
      {"ip6 saddr fe80::/10 return", "08000100fffffffb"},
  };
  for (auto& row : rows) {
    auto text = encodedRule(table, row.comment);
    EXPECT_NE(text.find(row.bytes), text.npos) << row.comment << ": " << text;
  }
}

// Catches: hooks, priorities and policies of other chains; changes outside of the batch; rules that
// a later networkd does not recognize.
TEST(FirewallRules, OneBatchReplacesTheTable) {
  Spec spec;
  spec.root.setBlock(true);
  spec.allShapes();
  auto table = spec.table();
  auto writes = encodeFirewall(table);
  // Begin, table, its removal, table, chains, rules; the end is in one buffer with the last rule.
  ASSERT_EQ(writes.size(), 4 + table.chains.size() + table.rules.size());
  // Hook 1 (input), priority -140, policy 0 (drop); hook 0 (prerouting), -110, 1 (accept).
  auto ingress = hexOf(writes[4]), prerouting = hexOf(writes[5]);
  EXPECT_NE(ingress.find("080001000000000108000200ffffff74"), ingress.npos) << ingress;
  EXPECT_NE(ingress.find("0800050000000000"), ingress.npos) << ingress;
  EXPECT_NE(prerouting.find("080001000000000008000200ffffff92"), prerouting.npos) << prerouting;
  EXPECT_NE(prerouting.find("0800050000000001"), prerouting.npos) << prerouting;
  kj::Vector<FilterRule> found;
  for (auto& bytes : writes) {
    netlink::eachMessage(bytes, netlink::Format::kGeneric, [&](netlink::Message&& one) {
      KJ_IF_MAYBE (part, one.body.tryGet<netlink::Generic>()) {
        KJ_IF_MAYBE (rule, readRule(*part, kFirewallTable)) found.add(kj::mv(*rule));
      }
    });
  }
  EXPECT_TRUE(sameRules(found, table.listed()));
}

}  // namespace
}  // namespace talos::networkd
