#include "networkd/dhcp/dhcp-packet4.h"

#include <kj/debug.h>

namespace talos::networkd::dhcp {
namespace {

constexpr size_t kIpHeader = 20, kUdpHeader = 8, kEthernet = 6;
constexpr uint8_t kUdp = 17, kTtl = 64;
constexpr uint16_t kDontFragment = 0x4000, kFragmentBits = 0x3fff;  // more fragments, or an offset
constexpr uint16_t kArpEthernet = 1, kArpIp = 0x0800;
const kj::byte kNoHardware[kEthernet] = {};

// The checksum covers these fields besides the datagram (RFC 768).
kj::Array<kj::byte> pseudoHeader(const Ip& from, const Ip& to, size_t size) {
  Writer out;
  out.ip(from).ip(to).u8(0).u8(kUdp).u16(size);
  return out.finish();
}

}  // namespace

kj::Array<kj::byte> wrap4(Ip from, uint16_t fromPort, Ip to, uint16_t toPort, Bytes payload) {
  auto header = [&](uint16_t sum) {
    Writer out;
    out.u8(0x45).u8(0).u16(kIpHeader + kUdpHeader + payload.size()).u16(0).u16(kDontFragment);
    out.u8(kTtl).u8(kUdp).u16(sum).ip(from).ip(to);
    return out.finish();
  };
  size_t size = kUdpHeader + payload.size();
  auto udp = [&](uint16_t sum) {
    Writer out;
    out.u16(fromPort).u16(toPort).u16(size).u16(sum);
    return out.finish();
  };
  auto sum = internetChecksum({pseudoHeader(from, to, size), udp(0), payload});
  Writer out;
  out.bytes(header(internetChecksum({header(0)})));
  out.bytes(udp(sum == 0 ? 0xffff : sum)).bytes(payload);  // 0 would mean no checksum
  return out.finish();
}

kj::Maybe<Datagram4> unwrap4(Bytes packet, uint16_t port, bool checked) {
  if (packet.size() < kIpHeader || packet[0] >> 4 != 4) return nullptr;
  size_t headerSize = (packet[0] & 0xf) * 4;
  if (headerSize < kIpHeader || headerSize > packet.size()) return nullptr;
  Reader in(packet.slice(0, headerSize));
  in.u16();
  size_t total = in.u16();
  in.u16();
  bool fragment = (in.u16() & kFragmentBits) != 0;
  in.u8();
  auto protocol = in.u8();
  in.u16();
  auto from = in.ip(AF_INET), to = in.ip(AF_INET);
  if (fragment || protocol != kUdp || total > packet.size() || total < headerSize + kUdpHeader ||
      internetChecksum({packet.slice(0, headerSize)}) != 0) {
    return nullptr;
  }
  auto datagram = packet.slice(headerSize, total);
  Reader udp(datagram);
  udp.u16();
  auto toPort = udp.u16();
  size_t size = udp.u16();
  auto sum = udp.u16();
  if (toPort != port || size < kUdpHeader || size > datagram.size()) return nullptr;
  datagram = datagram.slice(0, size);
  if (checked && sum != 0 && internetChecksum({pseudoHeader(from, to, size), datagram}) != 0) {
    return nullptr;
  }
  return Datagram4{from, to, datagram.slice(kUdpHeader, size)};
}

kj::Array<kj::byte> encode(const Arp& arp) {
  KJ_REQUIRE(arp.sender.size() == kEthernet && arp.target.size() == kEthernet);
  Writer out;
  out.u16(kArpEthernet).u16(kArpIp).u8(kEthernet).u8(4).u16(static_cast<uint16_t>(arp.operation));
  out.bytes(arp.sender).ip(arp.senderAddress).bytes(arp.target).ip(arp.targetAddress);
  return out.finish();
}

kj::Maybe<Arp> parseArp(Bytes packet) {
  Reader in(packet);
  auto hardware = in.u16(), protocol = in.u16();
  auto hardwareSize = in.u8(), protocolSize = in.u8();
  auto operation = in.u16();
  auto sender = in.take(kEthernet);
  auto senderAddress = in.ip(AF_INET);
  auto target = in.take(kEthernet);
  auto targetAddress = in.ip(AF_INET);
  if (in.bad() || hardware != kArpEthernet || protocol != kArpIp || hardwareSize != kEthernet ||
      protocolSize != 4 || (operation != 1 && operation != 2)) {
    return nullptr;
  }
  return Arp{.operation = static_cast<Arp::Operation>(operation),
             .sender = copyOf(sender),
             .senderAddress = senderAddress,
             .target = copyOf(target),
             .targetAddress = targetAddress};
}

Arp probe(Bytes own, Ip address) {
  return {.operation = Arp::Operation::kRequest,
          .sender = copyOf(own),
          .senderAddress = Ip::any(AF_INET),
          .target = copyOf(kNoHardware),
          .targetAddress = address};
}

Arp announcement(Bytes own, Ip address) {
  return {.operation = Arp::Operation::kRequest,
          .sender = copyOf(own),
          .senderAddress = address,
          .target = copyOf(kNoHardware),
          .targetAddress = address};
}

bool conflicts(const Arp& arp, Bytes own, Ip address) {
  if (arp.sender.asPtr() == own) return false;  // our own packet, reflected
  if (arp.senderAddress == address) return true;
  bool probes = arp.operation == Arp::Operation::kRequest && arp.senderAddress.isAny();
  return probes && arp.targetAddress == address;
}

}  // namespace talos::networkd::dhcp
