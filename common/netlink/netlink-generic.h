// Generic netlink: the kernel's families by name (genetlink(7), linux/genetlink.h). The unit of
// each family reads the family's messages.
#pragma once

#include "common/netlink/netlink-attributes.h"
#include "common/netlink/netlink-codec.h"

namespace talos::netlink {

// --- pure

// Encodes the request for the numbers of a family and of its multicast groups, and decodes its
// answer. For an unknown family the kernel answers with an error.
kj::Array<kj::byte> encodeFamilyRequest(kj::StringPtr name);
kj::Maybe<uint16_t> readFamily(const Generic& message);
kj::Maybe<uint32_t> readGroup(const Generic& message, kj::StringPtr group);

// Appends the fixed header of a message of a family, for its unit.
void putGenericHeader(MessageBuilder& out, uint8_t command, uint8_t version);
template <typename F>
void eachAttribute(const Generic& message, F&& handle) {
  auto start = reinterpret_cast<const char*>(message.attributes.begin());
  eachIn(start, start + message.size, handle);
}

// --- edge

// Returns a socket that receives the messages that the kernel sends to this group, and nothing
// else; nullptr if the kernel has no such family or group.
kj::Maybe<kj::AutoCloseFd> listenToGroup(kj::StringPtr family, kj::StringPtr group);

}  // namespace talos::netlink
