// Helpers for the records of network-status.h, and names of flags and protocols.
#pragma once

#include "common/base/fill-list.h"
#include "common/netlink/named-bits.h"
#include "networkd/plan/network-status.h"

namespace talos::networkd {

// Usual sizes of a record: there may be ten thousand records, and the default first segment has 8
// KiB.
constexpr unsigned kRecordWords = 64, kAddressWords = 24, kRouteWords = 36;

template <typename Spec, typename Fill>
void insert(Records& records, kj::String id, Fill&& fill, unsigned words = kRecordWords) {
  auto message = kj::heap<capnp::MallocMessageBuilder>(words);
  fill(message->initRoot<Spec>());
  records.upsert(kj::mv(id), kj::mv(message), [](auto&, auto&&) {});
}

// Returns the origin of a route or a rule, an RTPROT_*.
kj::String protocolName(uint8_t protocol);
kj::StringPtr familyName(int family);
// Returns IFF_UP and so on, in capitals.
kj::Vector<kj::StringPtr> flagNames(unsigned flags);

}  // namespace talos::networkd
