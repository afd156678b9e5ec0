#include "networkd/dhcp/dhcp-lease.h"

#include <kj/encoding.h>
#include <zlib.h>

namespace talos::networkd::dhcp {

kj::Array<kj::byte> encode(kj::StringPtr magic, const LeaseFile& content) {
  uint64_t since = (content.obtained - kj::origin<kj::TimePoint>()) / kj::NANOSECONDS;
  Writer out;
  out.bytes(magic.asBytes()).u32(since >> 32).u32(static_cast<uint32_t>(since));
  out.u32(content.message.size()).bytes(content.message);
  auto sum = crc32(0, out.written().begin(), out.size());
  out.u32(static_cast<uint32_t>(sum));
  return out.finish();
}

kj::Maybe<LeaseFile> decodeLeaseFile(kj::StringPtr magic, Bytes file, kj::TimePoint now) {
  Reader in(file);
  auto begin = in.take(magic.size());
  uint64_t since = in.u32();
  since = since << 32 | in.u32();
  auto message = in.take(in.u32());
  auto covered = file.size() - in.left();
  auto sum = in.u32();
  bool whole = !in.bad() && in.left() == 0 && begin == magic.asBytes() &&
               sum == crc32(0, file.begin(), covered);
  if (!whole || since > static_cast<uint64_t>(INT64_MAX)) return nullptr;
  auto obtained = kj::origin<kj::TimePoint>() + static_cast<int64_t>(since) * kj::NANOSECONDS;
  if (obtained > now) return nullptr;
  return LeaseFile{obtained, message};
}

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

namespace {

constexpr kj::StringPtr kLeaseMagic6 = "talos lease 6.1\n"_kj;
// RFC 8415 §21.23, 7.6
constexpr uint32_t kRefresh = 86400, kLeastRefresh = 600;

bool usable6(const Ip& address) {
  return !address.isAny() && !address.isLoopback() && !address.isMulticast() &&
         !address.isLinkLocal();
}

bool failed(const kj::Maybe<Status6>& status) {
  KJ_IF_MAYBE (s, status) return s->code != Status6::kSuccess;
  return false;
}

void setTimes(Lease6& lease, const Association6& association, const Address6& address) {
  lease.seconds = address.valid;
  if (address.valid == kInfinite) return;
  // §21.4: 0 leaves the times to the client, which takes 0.5 and 0.8 of the preferred lifetime.
  auto time = [](uint32_t seconds) { return uint64_t(seconds) * kj::SECONDS; };
  auto base = time(address.preferred == 0 ? address.valid : address.preferred);
  auto first = association.renewal == 0 ? base / 2 : time(association.renewal);
  auto second = association.rebinding == 0 ? base / 5 * 4 : time(association.rebinding);
  second = kj::min(second, time(address.valid));
  first = kj::min(first, second);
  lease.setTimes(first, second, time(address.valid));
}

}  // namespace

Lease6 informationOf(const Message6& message, kj::TimePoint obtained) {
  Lease6 lease;
  lease.server = copyOf(message.server);
  lease.serverName = kj::encodeHex(message.server);
  lease.take(message, obtained);
  auto refresh = message.refresh.orDefault(kRefresh);
  if (refresh != kInfinite) {
    lease.renew = obtained + uint64_t(kj::max(refresh, kLeastRefresh)) * kj::SECONDS;
  }
  return lease;
}

kj::Maybe<Lease6> leaseOf(const Message6& message, uint32_t association, kj::TimePoint obtained) {
  if (failed(message.status)) return nullptr;
  for (auto& candidate : message.associations) {
    if (candidate.id != association || failed(candidate.status)) continue;
    for (auto& address : candidate.addresses) {
      if (address.valid == 0 || failed(address.status) || !usable6(address.address)) continue;
      auto lease = informationOf(message, obtained);
      lease.renew = nullptr;
      lease.address = address.address;
      lease.prefix = Prefix::host(address.address);
      setTimes(lease, candidate, address);
      return kj::mv(lease);
    }
  }
  return nullptr;
}

kj::Array<kj::byte> encode(const Lease6& lease) {
  return encode(kLeaseMagic6, {lease.obtained, lease.message});
}

kj::Maybe<Lease6> decodeLease6(Bytes file, uint32_t association, Bytes client, kj::TimePoint now) {
  KJ_IF_MAYBE (content, decodeLeaseFile(kLeaseMagic6, file, now)) {
    auto parsed = parse6(content->message);
    KJ_IF_MAYBE (message, parsed.message) {
      if (message->client.asPtr() != client) return nullptr;
      return leaseOf(*message, association, content->obtained);
    }
  }
  return nullptr;
}

}  // namespace talos::networkd::dhcp
