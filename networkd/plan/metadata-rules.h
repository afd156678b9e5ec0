// The table of the kernel's packet filter (nftables) that keeps pods from the metadata service of
// the platform, as messages of nf_tables. Pure.
//
// The table belongs to networkd, so kube-proxy and network plugins, which flush their tables, leave
// it alone. Its chain sees forwarded packets, after services have been translated (DNAT): packets
// of pods, never those of the node itself or of pods in the node's network. Two kinds of packets to
// the addresses pass:
// * queries of DNS and NTP: some platforms answer both at the address of the metadata service,
//   and CoreDNS is a pod;
// * TCP of a connection that the other side opened: Azure probes services from such an address. A
//   pod cannot open a connection without a SYN, which is dropped.
//
// The table is replaced as a whole, in one batch that the kernel applies completely or not at all:
// no packet passes in between, and no rule exists twice. Each rule has a comment, as nft(8) shows
// it, by which a later networkd recognizes that the kernel already has the rules.
#pragma once

#include "common/netlink/netlink-codec.h"

namespace talos::networkd {

constexpr kj::StringPtr kMetadataTable = "talos-metadata"_kj;

struct MetadataRule {
  kj::String chain, comment;
  uint64_t packets = 0;  // number of matched packets; 0 if the rule does not count them
};

// Returns the rules for these addresses, in the order in which the kernel lists them; empty without
// addresses.
kj::Vector<MetadataRule> metadataRules(kj::ArrayPtr<const Ip> addresses);
// Encodes one write for Socket::transact(), which replaces the existing rules. Without addresses,
// the write removes the table if it exists.
kj::Vector<kj::Array<kj::byte>> encodeMetadataRules(kj::ArrayPtr<const Ip> addresses);

kj::Array<kj::byte> encodeRuleDump();
// Returns nullptr if the message is not a rule of the table.
kj::Maybe<MetadataRule> readRule(const netlink::Generic& message);

// Returns true if both have the same rules, with any packet counts.
bool sameRules(kj::ArrayPtr<const MetadataRule> some, kj::ArrayPtr<const MetadataRule> others);

}  // namespace talos::networkd
