// The table of the kernel's packet filter (nftables) that keeps pods from the metadata service of
// the platform, as messages of nf_tables. Pure.
//
// The table is networkd's own, so kube-proxy and network plugins, which flush theirs, leave it
// alone. Its chain sees forwarded packets, after services have been translated (DNAT): those of
// pods, and never those of the node itself or of pods in the node's network. Two kinds of packets
// to the addresses pass:
//   * queries of DNS and NTP: some platforms answer both at the address of the metadata service,
//     and CoreDNS is a pod;
//   * TCP of a connection that the other side began: Azure probes services from such an address. A
//     pod cannot begin a connection without a SYN, which is dropped.
//
// The table is replaced as a whole, in one batch that the kernel carries out whole or not at all:
// at no moment a packet passes, and no rule is there twice. Each rule has a comment, as nft(8)
// shows it, by which a later networkd sees that the kernel has the rules already.
#pragma once

#include "common/netlink/netlink-codec.h"

namespace talos::networkd {

constexpr kj::StringPtr kMetadataTable = "talos-metadata"_kj;

struct MetadataRule {
  kj::String chain, comment;
  uint64_t packets = 0;  // that matched; 0 if the rule does not count them
};

// The rules for these addresses, in the order in which the kernel lists them. No addresses: none.
kj::Vector<MetadataRule> metadataRules(kj::ArrayPtr<const Ip> addresses);
// One write for Socket::transact(), which puts them in the place of what is there. No addresses:
// the table is removed, if there is one.
kj::Vector<kj::Array<kj::byte>> encodeMetadataRules(kj::ArrayPtr<const Ip> addresses);

kj::Array<kj::byte> encodeRuleDump();
// Nullptr if the message is not a rule of the table.
kj::Maybe<MetadataRule> readRule(const netlink::Generic& message);

// True if both have the same rules; how many packets they counted does not matter.
bool sameRules(kj::ArrayPtr<const MetadataRule> some, kj::ArrayPtr<const MetadataRule> others);

}  // namespace talos::networkd
