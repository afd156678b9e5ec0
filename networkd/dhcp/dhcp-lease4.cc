#include "networkd/dhcp/dhcp-lease4.h"

#include "networkd/dhcp/dhcp-lease-file.h"

namespace talos::networkd::dhcp {
namespace {

constexpr kj::StringPtr kLeaseMagic4 = "talos lease 4.1\n"_kj;
constexpr uint32_t kHalfAnHour = 1800;

unsigned classLength(const Ip& address) {
  auto first = address.bytes()[0];
  return first < 128 ? 8 : first < 192 ? 16 : 24;
}

bool usable4(const Ip& address) {
  auto first = address.bytes()[0];
  return first != 0 && first < 224 && !address.isLoopback();  // 224 and up: multicast and reserved
}

bool reachable(const Lease4& lease, const Ip& gateway) {
  if (gateway.isAny() || lease.address.contains(gateway)) return true;
  for (auto& route : lease.routes) {
    if (route.gateway.isAny() && route.destination.contains(gateway)) return true;
  }
  return false;
}

void setRoutes(Lease4& lease, const Message4& message) {
  kj::Vector<Route4> given;
  KJ_IF_MAYBE (routes, message.classlessRoutes) {
    given.addAll(*routes);
  } else if (message.routers.size() > 0 && usable4(message.routers[0])) {
    given.add(Route4{Prefix::all(AF_INET), message.routers[0]});
  }
  for (auto& route : given) {
    if (route.gateway.isAny()) lease.routes.add(route);
  }
  for (auto& route : given) {
    if (route.gateway.isAny()) continue;
    if (!usable4(route.gateway) || route.gateway == lease.address.address) continue;
    if (!reachable(lease, route.gateway)) {
      lease.routes.add(Route4{Prefix::host(route.gateway), Ip::any(AF_INET)});
    }
    lease.routes.add(route);
  }
}

void setTimes(Lease4& lease, const Message4& message) {
  lease.seconds = message.lease.orDefault(kHalfAnHour);
  if (lease.seconds == kInfinite) return;
  constexpr auto kNone = 0 * kj::SECONDS;
  auto whole = uint64_t(lease.seconds) * kj::SECONDS;
  auto second = uint64_t(message.rebinding.orDefault(0)) * kj::SECONDS;
  if (second == kNone || second >= whole) second = whole / 8 * 7;
  auto first = uint64_t(message.renewal.orDefault(0)) * kj::SECONDS;
  if (first == kNone) first = whole / 2;
  if (first >= second) first = second / 7 * 4;
  lease.setTimes(first, second, whole);
}

}  // namespace

Lease4 Lease4::clone() const {
  auto parsed = parse4(message);
  auto copy = leaseOf(KJ_ASSERT_NONNULL(parsed.message), obtained);
  return kj::mv(KJ_ASSERT_NONNULL(copy));
}

kj::Maybe<Lease4> leaseOf(const Message4& message, kj::TimePoint obtained) {
  Lease4 lease;
  lease.server = message.server.orDefault(Ip::any(AF_INET));
  if (!usable4(lease.server)) return nullptr;
  if (!usable4(message.yours) || message.lease.orDefault(1) == 0) return nullptr;
  unsigned length = message.prefixLength.orDefault(classLength(message.yours));
  lease.address = {message.yours, length == 0 ? classLength(message.yours) : length};
  lease.prefix = lease.address;
  lease.serverName = lease.server.toString();
  lease.take(message, obtained);
  setRoutes(lease, message);
  setTimes(lease, message);
  lease.domain = kj::str(message.domain);
  lease.mtu = message.mtu;
  return kj::mv(lease);
}

kj::Array<kj::byte> encode(const Lease4& lease) {
  return encode(kLeaseMagic4, {lease.obtained, lease.message});
}

kj::Maybe<Lease4> decodeLease4(Bytes file, kj::TimePoint now) {
  KJ_IF_MAYBE (content, decodeLeaseFile(kLeaseMagic4, file, now)) {
    auto parsed = parse4(content->message);
    KJ_IF_MAYBE (message, parsed.message) return leaseOf(*message, content->obtained);
  }
  return nullptr;
}

}  // namespace talos::networkd::dhcp
