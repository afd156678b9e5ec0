#include "networkd/control/pcap-format.h"

#include <net/if_arp.h>

namespace talos::networkd {
namespace {

constexpr uint32_t kMagic = 0xa1b23c4d;  // times in nanoseconds
constexpr uint16_t kMajor = 2, kMinor = 4;
constexpr uint32_t kEthernet = 1, kRawIp = 101;
constexpr size_t kAddresses = 12;  // of an Ethernet frame; a tag follows them
constexpr size_t kTag = 4;

template <typename T>
void addNumber(kj::Vector<kj::byte>& out, T value) {
  out.addAll(kj::arrayPtr(reinterpret_cast<const kj::byte*>(&value), sizeof(value)));
}

void addBigEndian(kj::Vector<kj::byte>& out, uint16_t value) {
  out.add(static_cast<kj::byte>(value >> 8));
  out.add(static_cast<kj::byte>(value));
}

}  // namespace

kj::Maybe<uint32_t> pcapLinkType(unsigned hardwareType) {
  switch (hardwareType) {
    case ARPHRD_ETHER:
    case ARPHRD_LOOPBACK:
      return kEthernet;
    case ARPHRD_NONE:  // WireGuard, tun
    case ARPHRD_RAWIP:
    case ARPHRD_TUNNEL:
    case ARPHRD_TUNNEL6:
    case ARPHRD_SIT:
    case ARPHRD_PPP:
      return kRawIp;
  }
  return nullptr;
}

void addPcapHeader(kj::Vector<kj::byte>& out, uint32_t snapLength, uint32_t linkType) {
  addNumber(out, kMagic);
  addNumber(out, kMajor);
  addNumber(out, kMinor);
  addNumber(out, uint32_t{0});
  addNumber(out, uint32_t{0});
  addNumber(out, snapLength);
  addNumber(out, linkType);
}

void addPcapRecord(kj::Vector<kj::byte>& out, const CapturedPacket& packet, uint32_t snapLength) {
  auto bytes = packet.bytes;
  bool tagged = packet.tag != nullptr && bytes.size() >= kAddresses;
  size_t more = tagged ? kTag : 0;
  auto captured = kj::min(bytes.size() + more, snapLength);
  addNumber(out, static_cast<uint32_t>(packet.time.tv_sec));
  addNumber(out, static_cast<uint32_t>(packet.time.tv_nsec));
  addNumber(out, static_cast<uint32_t>(captured));
  addNumber(out,
            kj::max(static_cast<uint32_t>(packet.length + more), static_cast<uint32_t>(captured)));
  auto end = out.size() + captured;
  if (tagged) {
    out.addAll(bytes.slice(0, kAddresses));
    auto& tag = KJ_ASSERT_NONNULL(packet.tag);
    addBigEndian(out, tag.protocol);
    addBigEndian(out, tag.control);
    out.addAll(bytes.slice(kAddresses, bytes.size()));
  } else {
    out.addAll(bytes);
  }
  out.truncate(end);
}

}  // namespace talos::networkd
