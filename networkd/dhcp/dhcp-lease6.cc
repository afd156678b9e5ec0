#include "networkd/dhcp/dhcp-lease6.h"

#include <kj/encoding.h>

#include "networkd/dhcp/dhcp-lease-file.h"

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

kj::Maybe<Lease6> decodeLease6(Bytes file, uint32_t association, kj::TimePoint now) {
  KJ_IF_MAYBE (content, decodeLeaseFile(kLeaseMagic6, file, now)) {
    auto parsed = parse6(content->message);
    KJ_IF_MAYBE (message, parsed.message) {
      return leaseOf(*message, association, content->obtained);
    }
  }
  return nullptr;
}

}  // namespace talos::networkd::dhcp
