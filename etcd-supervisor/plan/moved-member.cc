#include "etcd-supervisor/plan/moved-member.h"

#include <algorithm>
#include <tuple>

#include "common/base/node-layout.h"
#include "common/text/foreign-text.h"
#include "common/text/texts.h"

namespace talos::supervisor {
namespace {

constexpr unsigned kLargestSubnet = 22;  // its prefix length: 1022 addresses

bool isOwn(const KnownMember& member, const Intent& intent) {
  return member.id == intent.member;
}

// Returns the IPv4 address after this one.
Ip next(Ip address) {
  kj::byte octets[4];
  for (size_t i = 0; i < 4; ++i) octets[i] = address.bytes()[i];
  for (size_t i = 4; i-- > 0;) {
    if (++octets[i] != 0) break;
  }
  return KJ_ASSERT_NONNULL(Ip::fromBytes(octets));
}

void addSubnet(kj::Vector<kj::String>& places, const Prefix& subnet) {
  if (subnet.address.family() != AF_INET) return;
  Prefix part{subnet.address, kj::max(subnet.length, kLargestSubnet)};
  auto first = part.masked().address;
  unsigned count = 1u << (32 - part.length);
  auto broadcast = part.broadcast();
  auto address = first;
  for (unsigned i = 0; i < count; ++i, address = next(address)) {
    bool network = part.length < 31 && address == first;
    KJ_IF_MAYBE (last, broadcast) {
      if (address == *last) continue;
    }
    if (!network) addOnce(places, address.toString());
  }
}

// Returns the address in a peer URL in its usual text: etcd may have another one
// (membership/peer-url.h).
kj::String addressIn(kj::StringPtr peerUrl) {
  auto host = hostOf(peerUrl);
  KJ_IF_MAYBE (ip, Ip::parse(host)) return ip->unmapped().toString();
  return host;
}

// Returns how well a certificate shows that a peer is this member: 0 for not at all.
int rank(const FoundMember& found, const KnownMember& member) {
  if (member.name.size() > 0 && contains(found.names, member.name)) return 2;
  return contains(found.addresses, addressIn(member.peerUrl)) ? 1 : 0;
}

}  // namespace

bool MemberRoute::operator==(const MemberRoute& other) const {
  return host == other.host && std::ranges::equal(addresses, other.addresses);
}

bool servesPeerUrl(kj::StringPtr url, const Config& config) {
  for (auto& address : config.addresses) {
    bool listens = config.listenAddresses.empty() || contains(config.listenAddresses, address);
    if (listens && url == urlOf(address, kEtcdPeerPort)) return true;
  }
  return url == urlOf(config.addresses[0], kEtcdPeerPort);
}

bool hasMoved(const Config& config, const Intent& intent) {
  bool known = false, others = false, serves = false;
  for (auto& member : intent.members) {
    if (isOwn(member, intent)) {
      known = true;
      serves = serves || servesPeerUrl(member.peerUrl, config);
    } else {
      others = true;
    }
  }
  return known && others && !serves;
}

kj::Vector<kj::String> formerAddressesOf(const Config& config, const Intent& intent) {
  kj::Vector<kj::String> result;
  auto add = [&](kj::StringPtr address) {
    if (!contains(config.addresses, address)) addOnce(result, kj::str(address));
  };
  for (auto& address : intent.formerAddresses) add(address);
  for (auto& member : intent.members) {
    if (isOwn(member, intent)) add(addressIn(member.peerUrl));
  }
  return result;
}

bool recordMembers(Intent& intent, kj::ArrayPtr<const etcd::Member> members) {
  kj::Vector<KnownMember> next;
  for (auto& member : members) {
    for (auto& url : member.peerUrls) {
      bool usual = Ip::parse(hostOf(url)) != nullptr && url.endsWith(kj::str(":", kEtcdPeerPort));
      if (!usual) continue;
      // The file has a line for each member.
      next.add(KnownMember{member.id, kj::str(url), fieldText(member.name)});
    }
  }
  std::ranges::sort(
      next, [](auto& a, auto& b) { return std::tie(a.id, a.peerUrl) < std::tie(b.id, b.peerUrl); });
  if (std::ranges::equal(next, intent.members)) return false;
  kj::Vector<kj::String> former;
  for (auto& address : intent.formerAddresses) former.add(kj::str(address));
  for (auto& before : intent.members) {
    if (isOwn(before, intent)) addOnce(former, addressIn(before.peerUrl));
  }
  kj::Vector<kj::String> kept;
  for (auto& address : former) {
    bool present = false;
    for (auto& now : next) present |= isOwn(now, intent) && addressIn(now.peerUrl) == address;
    if (!present) kept.add(kj::mv(address));
  }
  size_t over = kept.size() > kMostFormerAddresses ? kept.size() - kMostFormerAddresses : 0;
  intent.formerAddresses.clear();
  for (auto i : kj::range(over, kept.size())) intent.formerAddresses.add(kj::mv(kept[i]));
  intent.members = kj::mv(next);
  return true;
}

kj::Vector<kj::String> placesOfMembers(const Config& config, const Intent& intent,
                                       kj::ArrayPtr<const kj::String> named,
                                       kj::ArrayPtr<const Prefix> subnets) {
  kj::Vector<kj::String> places;
  for (auto& member : intent.members) {
    if (!isOwn(member, intent)) addOnce(places, addressIn(member.peerUrl));
  }
  for (auto& host : named) {
    if (Ip::parse(host) != nullptr) addOnce(places, kj::str(host));
  }
  for (auto& subnet : subnets) {
    if (contains(config.addresses, subnet.address.toString())) addSubnet(places, subnet);
  }
  kj::Vector<kj::String> others;
  for (auto& place : places) {
    bool own = contains(config.addresses, place) || contains(config.shared, place);
    if (!own) others.add(kj::mv(place));
  }
  return others;
}

kj::Vector<MemberRoute> routesTo(const Config& config, const Intent& intent,
                                 kj::ArrayPtr<const FoundMember> found) {
  kj::Vector<MemberRoute> routes;
  for (auto& member : intent.members) {
    if (isOwn(member, intent)) continue;
    MemberRoute route{addressIn(member.peerUrl), {}};
    for (int wanted : {2, 1}) {
      for (auto& one : found) {
        bool own = contains(config.addresses, one.address);
        if (!own && rank(one, member) == wanted) addOnce(route.addresses, kj::str(one.address));
      }
    }
    if (!route.addresses.empty()) routes.add(kj::mv(route));
  }
  return routes;
}

kj::String movedMessage(const Config& config, const Intent& intent,
                        kj::ArrayPtr<const MemberRoute> routes) {
  kj::Vector<kj::String> known, missing;
  for (auto& member : intent.members) {
    if (isOwn(member, intent)) continue;
    auto host = addressIn(member.peerUrl);
    kj::Maybe<const MemberRoute&> way;
    for (auto& route : routes) {
      if (route.host == host) way = route;
    }
    auto name = member.name.size() > 0 ? kj::str(member.name) : hex(member.id);
    KJ_IF_MAYBE (found, way) {
      known.add(
          kj::str(name, " at ", kj::strArray(found->addresses, " or "), " (before: ", host, ")"));
    } else {
      missing.add(kj::str(name, " (before: ", host, ")"));
    }
  }
  return kj::str("this node has another address (", config.addresses[0],
                 ") than the members of etcd know, and "
                 "there is no quorum; ",
                 known.empty() ? kj::String() : kj::str("found ", joined(known)),
                 known.empty() || missing.empty() ? "" : "; ",
                 missing.empty()
                     ? kj::String()
                     : kj::str("looking for ", joined(missing), " in the subnets of this node"));
}

}  // namespace talos::supervisor
