#include "common/netlink/netlink-neighbour.h"

#include <linux/rtnetlink.h>

#include "common/netlink/named-bits.h"
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
