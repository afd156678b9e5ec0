#include <zlib.h>

#include "networkd/dhcp/dhcp-client6.h"

namespace talos::networkd::dhcp {
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
  lease.renew = lease.obtained + first;
  lease.rebind = lease.obtained + second;
  lease.expires = lease.obtained + time(address.valid);
}

}  // namespace

bool Lease6::expired(kj::TimePoint now) const {
  KJ_IF_MAYBE (end, expires) return now >= *end;
  return false;
}

Lease6 informationOf(const Message6& message, kj::TimePoint obtained) {
  Lease6 lease;
  lease.server = copyOf(message.server);
  lease.obtained = obtained;
  lease.resolvers.addAll(message.resolvers);
  lease.timeServers.addAll(message.timeServers);
  for (auto& name : message.search) lease.search.add(kj::str(name));
  lease.hostname = kj::str(message.hostname);
  auto refresh = message.refresh.orDefault(kRefresh);
  if (refresh != kInfinite) {
    lease.renew = obtained + uint64_t(kj::max(refresh, kLeastRefresh)) * kj::SECONDS;
  }
  lease.message = encode(message);
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
      setTimes(lease, candidate, address);
      return kj::mv(lease);
    }
  }
  return nullptr;
}

kj::Array<kj::byte> encode(const Lease6& lease) {
  uint64_t since = (lease.obtained - kj::origin<kj::TimePoint>()) / kj::NANOSECONDS;
  Writer out;
  out.bytes(kLeaseMagic6.asBytes()).u32(since >> 32).u32(static_cast<uint32_t>(since));
  out.u32(lease.message.size()).bytes(lease.message);
  auto sum = crc32(0, out.written().begin(), out.size());
  out.u32(static_cast<uint32_t>(sum));
  return out.finish();
}

kj::Maybe<Lease6> decodeLease6(Bytes file, uint32_t association, kj::TimePoint now) {
  Reader in(file);
  auto magic = in.take(kLeaseMagic6.size());
  uint64_t since = in.u32();
  since = since << 32 | in.u32();
  auto message = in.take(in.u32());
  auto covered = file.size() - in.left();
  auto sum = in.u32();
  bool whole = !in.bad() && in.left() == 0 && magic == kLeaseMagic6.asBytes() &&
               sum == crc32(0, file.begin(), covered);
  if (!whole || since > static_cast<uint64_t>(INT64_MAX)) return nullptr;
  auto obtained = kj::origin<kj::TimePoint>() + static_cast<int64_t>(since) * kj::NANOSECONDS;
  if (obtained > now) return nullptr;
  auto parsed = parse6(message);
  KJ_IF_MAYBE (m, parsed.message) return leaseOf(*m, association, obtained);
  return nullptr;
}

}  // namespace talos::networkd::dhcp
