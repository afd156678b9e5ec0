// The ingress firewall of a node, as a table of nf_tables. Pure.
//
// Chains:
// * ingress, at the hook input: packets for the node itself.
// * prerouting, at the hook of this name and before services are translated (DNAT): packets to an
//   address of the node, so that a rule decides over a NodePort or a host port of a pod too. It
//   decides over new connections; what is forwarded to other addresses passes.
// * pods: destinations of packets whose source is a pod or a service.
// * rule-0, rule-1 …: the sources of a rule of the config.
//
// With the default action "block", packets pass that a rule names; with "accept", a rule closes its
// ports to all others. Always accepted: what arrives by lo, siderolink or kubespan, replies, and
// neighbour discovery, without which IPv6 does not work. In block mode also: 5 packets of ICMP a
// second, as many of ICMPv6, packets between pods, pods' queries to the node's resolver, and DHCPv6
// of the link, which answers a multicast and so is no reply for the kernel.
#pragma once

#include "networkd/plan/nft-messages.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {

constexpr kj::StringPtr kFirewallTable = "talos"_kj;

struct PacketRule {
  enum class Verdict { kAccept, kDrop, kReturn, kJump };
  struct Range {
    uint16_t first, last;
  };
  kj::String chain;
  // Conditions; one that is absent holds for every packet.
  kj::StringPtr link = nullptr;  // of arrival
  bool passing = false;          // the destination is no address of the node
  uint32_t states = 0;           // of the connection: one of these NF_CT_STATE_*
  bool reply = false;            // to what the node sent
  kj::Maybe<Prefix> source, destination;
  uint8_t transport = 0;   // IPPROTO_*
  kj::Maybe<Range> types;  // of ICMP and ICMPv6
  kj::Maybe<Range> ports;  // of TCP and UDP: the destination's
  bool limited = false;    // the first packets of each second

  Verdict verdict = Verdict::kAccept;
  kj::String target;  // of a jump: a chain
  kj::String name;    // of the rule of the config; "" for a rule of the system

  // Returns the rule in the words of nft(8), and its name. Equal comments mean equal rules.
  kj::String comment() const;
};

struct FirewallTable {
  bool block = false;
  unsigned count = 0;             // rules of the config
  kj::Vector<kj::String> chains;  // in the order in which the kernel lists them
  kj::Vector<PacketRule> rules;   // chain by chain

  // Returns the rules as the kernel lists them, with no packets.
  kj::Vector<FilterRule> listed() const;
  // Returns the number of packets that the rules dropped; `found` is the kernel's list of the same
  // rules.
  uint64_t dropped(kj::ArrayPtr<const FilterRule> found) const;
};

// Throws InvalidArgument that names a network of the spec that is not valid.
FirewallTable firewallTable(rpc::FirewallSpecSpec::Reader spec);
// Encodes one write for Socket::transactAtOnce(), which replaces the table.
kj::Vector<kj::Array<kj::byte>> encodeFirewall(const FirewallTable& table);

}  // namespace talos::networkd
