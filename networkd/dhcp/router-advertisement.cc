#include "networkd/dhcp/router-advertisement.h"

namespace talos::networkd::dhcp {
namespace {

constexpr uint8_t kSolicitation = 133, kAdvertisementType = 134;
constexpr uint8_t kManaged = 0x80, kOther = 0x40;      // of the message
constexpr uint8_t kOnLink = 0x80, kAutonomous = 0x40;  // of a prefix
constexpr uint32_t kLeastMtu6 = 1280;                  // RFC 8200 §5
constexpr size_t kUnit = 8, kMostOfAKind = 16;

struct RouterOption {
  enum Type : uint8_t {
    kSourceHardware = 1,
    kPrefix = 3,
    kMtu = 5,
    kResolvers = 25,
    kSearch = 31,
  };
};

// `in` stands behind an option's type and length.
void readPrefix(Reader in, Advertisement& result) {
  Advertisement::OnPrefix prefix;
  prefix.prefix.length = in.u8();
  auto flags = in.u8();
  prefix.onLink = (flags & kOnLink) != 0;
  prefix.autonomous = (flags & kAutonomous) != 0;
  prefix.valid = in.u32();
  prefix.preferred = in.u32();
  in.u32();
  prefix.prefix.address = in.ip(AF_INET6);
  bool sensible = !in.bad() && prefix.prefix.length <= 128 &&
                  !prefix.prefix.address.isLinkLocal() && prefix.preferred <= prefix.valid;
  if (!sensible || result.prefixes.size() == kMostOfAKind) return;
  prefix.prefix = prefix.prefix.masked();
  result.prefixes.add(kj::mv(prefix));
}

void readOption(uint8_t type, Bytes body, Advertisement& result) {
  Reader in(body);
  switch (type) {
    case RouterOption::kPrefix:
      readPrefix(in, result);
      break;
    case RouterOption::kMtu: {
      in.u16();
      auto mtu = in.u32();
      if (!in.bad() && mtu >= kLeastMtu6) result.mtu = mtu;
      break;
    }
    case RouterOption::kResolvers: {
      in.u16();
      Advertisement::Resolvers resolvers;
      resolvers.lifetime = in.u32();
      if (in.bad()) break;
      resolvers.servers = serversIn(in.take(in.left()), AF_INET6);
      if (resolvers.servers.size() > 0 && result.resolvers.size() < kMostOfAKind) {
        result.resolvers.add(kj::mv(resolvers));
      }
      break;
    }
    case RouterOption::kSearch: {
      in.u16();
      Advertisement::Search search;
      search.lifetime = in.u32();
      if (in.bad()) break;
      search.names = namesIn(in.take(in.left()), false);  // zeros fill it up to its end
      if (search.names.size() > 0 && result.search.size() < kMostOfAKind) {
        result.search.add(kj::mv(search));
      }
      break;
    }
    default:
      break;
  }
}

}  // namespace

kj::Maybe<Advertisement> parseAdvertisement(Bytes message) {
  Reader in(message);
  Advertisement result;
  auto type = in.u8();
  auto code = in.u8();
  in.u16();
  result.hopLimit = in.u8();
  auto flags = in.u8();
  result.managed = (flags & kManaged) != 0;
  result.other = (flags & kOther) != 0;
  result.lifetime = in.u16();
  result.reachable = in.u32();
  result.retransmit = in.u32();
  if (in.bad() || type != kAdvertisementType || code != 0) return nullptr;
  while (in.left() > 0) {
    auto option = in.u8();
    size_t size = in.u8() * kUnit;
    if (size == 0) return nullptr;  // §6.1.2
    auto body = in.take(size - 2);
    if (in.bad()) return nullptr;
    readOption(option, body, result);
  }
  return kj::mv(result);
}

kj::Array<kj::byte> routerSolicitation(Bytes hardwareAddress) {
  Writer out;
  out.u8(kSolicitation).u8(0).u16(0).u32(0);
  if (hardwareAddress.size() == 6)
    out.u8(RouterOption::kSourceHardware).u8(1).bytes(hardwareAddress);
  return out.finish();
}

}  // namespace talos::networkd::dhcp
