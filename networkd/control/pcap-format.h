// The file format pcap (draft-ietf-opsawg-pcap): a header and a record for each packet, in this
// machine's byte order, with times in nanoseconds. Pure.
#pragma once

#include <kj/common.h>
#include <kj/string.h>
#include <kj/vector.h>
#include <time.h>

namespace talos::networkd {

// Returns the link-layer header type for packets of a link whose hardware is of this type
// (ARPHRD_*); nullptr if pcap readers know no form for them.
kj::Maybe<uint32_t> pcapLinkType(unsigned hardwareType);

void addPcapHeader(kj::Vector<kj::byte>& out, uint32_t snapLength, uint32_t linkType);

struct CapturedPacket {
  struct timespec time;
  kj::ArrayPtr<const kj::byte> bytes;  // bytes that were read
  uint32_t length;                     // on the wire
  // A VLAN tag that the kernel removed from an Ethernet frame: TPID and TCI.
  struct Tag {
    uint16_t protocol, control;
  };
  kj::Maybe<Tag> tag = nullptr;
};
// Restores the tag, and cuts the packet at snapLength.
void addPcapRecord(kj::Vector<kj::byte>& out, const CapturedPacket& packet, uint32_t snapLength);

}  // namespace talos::networkd
