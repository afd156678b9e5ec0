#include "networkd/dhcp/router-advertisement.h"

namespace talos::networkd::dhcp {
namespace {

constexpr uint8_t kSolicitation = 133, kAdvertisementType = 134;
constexpr uint8_t kManaged = 0x80, kOther = 0x40;  // bits of the flags
constexpr size_t kUnit = 8, kMostOfAKind = 16;

struct RouterOption {
  enum Type : uint8_t {
    kSourceHardware = 1,
    kResolvers = 25,
    kSearch = 31,
  };
};

void readOption(uint8_t type, Bytes body, Advertisement& result) {
  Reader in(body);
  switch (type) {
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
      search.names = namesIn(in.take(in.left()), false);  // zeros pad the option
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
  in.take(3);  // checksum, hop limit
  result.other = (in.u8() & (kManaged | kOther)) != 0;
  in.take(10);  // lifetime of the router, times of neighbour discovery
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

namespace {

constexpr size_t kMost = 16;

template <typename List>
void removeAt(List& list, size_t index) {
  for (size_t i = index + 1; i < list.size(); ++i) list[i - 1] = kj::mv(list[i]);
  list.removeLast();
}

}  // namespace

template <typename T>
bool Advertised::put(kj::Vector<Held<T>>& list, T value, uint32_t lifetime, kj::TimePoint now) {
  kj::Maybe<kj::TimePoint> until;
  if (lifetime != kInfinite) until = now + uint64_t(lifetime) * kj::SECONDS;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!(list[i].value == value)) continue;
    if (lifetime == 0) {
      removeAt(list, i);
      return true;
    }
    list[i].until = until;
    return false;
  }
  if (lifetime == 0) return false;
  if (list.size() == kMost) removeAt(list, 0);
  list.add(Held<T>{kj::mv(value), until});
  return true;
}

template <typename T>
bool Advertised::drop(kj::Vector<Held<T>>& list, kj::TimePoint now) {
  bool changed = false;
  for (size_t i = list.size(); i-- > 0;) {
    KJ_IF_MAYBE (until, list[i].until) {
      if (now < *until) continue;
      removeAt(list, i);
      changed = true;
    }
  }
  return changed;
}

bool Advertised::handle(const Advertisement& message, kj::TimePoint now) {
  bool changed = !advertised || (message.other && !information);
  advertised = true;
  information = information || message.other;
  for (auto& option : message.resolvers) {
    for (auto& server : option.servers) changed |= put(servers, server, option.lifetime, now);
  }
  for (auto& option : message.search) {
    for (auto& name : option.names) changed |= put(domains, kj::str(name), option.lifetime, now);
  }
  return changed;
}

bool Advertised::expire(kj::TimePoint now) {
  bool changed = drop(servers, now);
  return drop(domains, now) || changed;
}

kj::Maybe<kj::TimePoint> Advertised::deadline() const {
  kj::Maybe<kj::TimePoint> first;
  auto consider = [&](const kj::Maybe<kj::TimePoint>& until) {
    KJ_IF_MAYBE (moment, until) first = kj::min(*moment, first.orDefault(*moment));
  };
  for (auto& held : servers) consider(held.until);
  for (auto& held : domains) consider(held.until);
  return first;
}

kj::Vector<Ip> Advertised::resolvers() const {
  kj::Vector<Ip> result;
  for (auto& held : servers) result.add(held.value);
  return result;
}

kj::Vector<kj::String> Advertised::search() const {
  kj::Vector<kj::String> result;
  for (auto& held : domains) result.add(kj::str(held.value));
  return result;
}

}  // namespace talos::networkd::dhcp
