// The table of the kernel's packet filter (nftables) that keeps pods from the metadata service of
// the platform, as messages of nf_tables. Pure.
//
// Its chain sees forwarded packets, after services have been translated (DNAT): packets of pods,
// never those of the node itself or of pods in the node's network. Two kinds of packets to the
// addresses pass:
// * queries of DNS and NTP: some platforms answer both at the address of the metadata service,
//   and CoreDNS is a pod;
// * TCP of a connection that the other side opened: Azure probes services from such an address. A
//   pod cannot open a connection without a SYN, which is dropped.
#pragma once

#include "networkd/plan/nft-messages.h"

namespace talos::networkd {

constexpr kj::StringPtr kMetadataTable = "talos-metadata"_kj;

// Returns the rules for these addresses, in the order in which the kernel lists them.
kj::Vector<FilterRule> metadataRules(kj::ArrayPtr<const Ip> addresses);
// Encodes one write for Socket::transactAtOnce(), which replaces the table.
kj::Vector<kj::Array<kj::byte>> encodeMetadataRules(kj::ArrayPtr<const Ip> addresses);

}  // namespace talos::networkd
