#include "common/netlink/netlink-neighbour.h"

#include <linux/rtnetlink.h>

#include "common/base/error.h"
#include "common/base/named-bits.h"
#include "common/netlink/netlink-attributes.h"
#include "common/netlink/netlink-codec.h"

namespace talos::netlink {

namespace {

constexpr size_t kLongestHardwareAddress = 32;  // MAX_ADDR_LEN of the kernel

constexpr NamedBit kStates[] = {
    {NUD_INCOMPLETE, "incomplete"_kj}, {NUD_REACHABLE, "reachable"_kj}, {NUD_STALE, "stale"_kj},
    {NUD_DELAY, "delay"_kj},           {NUD_PROBE, "probe"_kj},         {NUD_FAILED, "failed"_kj},
    {NUD_NOARP, "noarp"_kj},           {NUD_PERMANENT, "permanent"_kj}, {NUD_NONE, "none"_kj}};
constexpr NamedBit kFlags[] = {{NTF_ROUTER, "router"_kj},
                               {NTF_EXT_LEARNED, "externallyLearned"_kj},
                               {NTF_OFFLOADED, "offloaded"_kj},
                               {NTF_PROXY, "proxy"_kj}};
constexpr NamedBit kMoreFlags[] = {{NTF_EXT_MANAGED, "managed"_kj}, {NTF_EXT_LOCKED, "locked"_kj}};

}  // namespace

kj::StringPtr neighbourStateName(uint16_t state) {
  for (auto& known : kStates) {
    if (known.bit == state) return known.name;
  }
  return "other";
}

kj::Vector<kj::StringPtr> neighbourFlagNames(const Neighbour& neighbour) {
  auto result = namesOf(neighbour.flags, kFlags);
  result.addAll(namesOf(neighbour.moreFlags, kMoreFlags));
  return result;
}

kj::String describe(const Neighbour& neighbour) {
  auto hardware = hardwareText(neighbour.hardware());
  return kj::str(neighbour.address, " (", hardware, hardware.size() > 0 ? ", " : "",
                 neighbourStateName(neighbour.state), ")");
}

kj::Maybe<kj::String> mistakeOf(const Neighbour& neighbour) {
  if (neighbour.hardwareAddress.size() > kLongestHardwareAddress) {
    return kj::str("a hardware address has at most ", kLongestHardwareAddress, " octets");
  }
  if ((neighbour.flags & (NTF_PROXY | NTF_USE)) != 0) {
    return kj::str("proxied addresses and requests to resolve are not made here");
  }
  return nullptr;
}

kj::Array<kj::byte> encodeNeighbour(uint16_t type, uint16_t flags, const Neighbour& neighbour) {
  KJ_IF_MAYBE (mistake, mistakeOf(neighbour)) {
    fail(ErrorKind::kInvalidArgument, kj::str("neighbour: ", *mistake));
  }
  MessageBuilder out(type, flags);
  auto& header = out.header<ndmsg>();
  header.ndm_family = neighbour.address.family();
  header.ndm_ifindex = neighbour.link;
  out.put(NDA_DST, neighbour.address.bytes());
  if (type == RTM_DELNEIGH) return out.finish();
  header.ndm_state = neighbour.state;
  header.ndm_flags = neighbour.flags;
  if (!neighbour.hardwareAddress.empty()) {
    out.put(NDA_LLADDR, neighbour.hardware());
  }
  if (neighbour.protocol != 0) out.putU8(NDA_PROTOCOL, neighbour.protocol);
  if (neighbour.moreFlags != 0) out.putU32(NDA_FLAGS_EXT, neighbour.moreFlags);
  return out.finish();
}

kj::Array<kj::byte> encodeNeighbourDump() {
  MessageBuilder out(RTM_GETNEIGH, NLM_F_REQUEST | NLM_F_DUMP);
  out.header<ndmsg>();
  return out.finish();
}

kj::Maybe<Neighbour> decodeNeighbour(const nlmsghdr* message) {
  KJ_IF_MAYBE (header, fixedHeader<ndmsg>(message)) {
    if (header->ndm_family != AF_INET && header->ndm_family != AF_INET6) return nullptr;
    Neighbour result;
    result.link = header->ndm_ifindex;
    result.state = header->ndm_state;
    result.flags = header->ndm_flags;
    bool known = false;
    eachAttribute(message, sizeof(ndmsg), [&](unsigned type, const nlattr* attribute) {
      switch (type) {
        case NDA_DST:
          KJ_IF_MAYBE (ip, Ip::fromBytes(payload(attribute))) {
            known = ip->family() == header->ndm_family;
            result.address = *ip;
          }
          break;
        case NDA_LLADDR: {
          auto bytes = payload(attribute);
          if (bytes.size() > kLongestHardwareAddress) break;
          result.hardwareAddress.assign(bytes.begin(), bytes.end());
          break;
        }
        case NDA_PROTOCOL:
          read(attribute, result.protocol);
          break;
        case NDA_FLAGS_EXT:
          read(attribute, result.moreFlags);
          break;
        default:
          break;
      }
    });
    if (known) return kj::mv(result);
  }
  return nullptr;
}

}  // namespace talos::netlink
