// DHCP and router advertisements.
//
// link: networkd-dhcp
#include <ctype.h>
#include <kj/debug.h>

#include "networkd/dhcp/dhcp-message4.h"
#include "networkd/dhcp/dhcp-message6.h"
#include "networkd/dhcp/dhcp-packet4.h"
#include "networkd/dhcp/router-advertisement.h"
#include "tests/fuzz/fuzz-target.h"

using namespace talos::networkd::dhcp;

namespace {

void checkName(kj::StringPtr name) {
  KJ_ASSERT(name.size() <= 253);
  for (char c : name) KJ_ASSERT(isalnum(c) || c == '-' || c == '_' || c == '.');
}

void message(Bytes bytes) {
  auto parsed = parse4(bytes);
  KJ_ASSERT((parsed.message == nullptr) == (parsed.problem.size() > 0));
  KJ_IF_MAYBE (m, parsed.message) {
    checkName(m->hostname);
    checkName(m->domain);
    for (auto& name : m->search) checkName(name);
    KJ_IF_MAYBE (routes, m->classlessRoutes) {
      for (auto& r : *routes) KJ_ASSERT(r.destination == r.destination.masked());
    }
    auto again = parse4(encode(*m));
    KJ_ASSERT(KJ_ASSERT_NONNULL(again.message) == *m, "what was understood can be said again");
  }
}

}  // namespace

// DHCPv4 as any host on the network can send it: as a message, as a packet with one, and as ARP.
// The first octet chooses.
FUZZ_TARGET(dhcp4) {
  if (size == 0) return 0;
  auto bytes = kj::arrayPtr(data + 1, size - 1);
  switch (data[0] & 3) {
    case 0:
      KJ_IF_MAYBE (datagram, unwrap4(bytes, kClientPort4, false)) {
        KJ_ASSERT(datagram->payload.begin() >= bytes.begin() &&
                  datagram->payload.end() <= bytes.end());
        message(datagram->payload);
      }
      break;
    case 1:
      KJ_IF_MAYBE (arp, parseArp(bytes)) {
        KJ_ASSERT(encode(*arp).asPtr() == bytes.slice(0, 28));
      }
      break;
    default:
      message(bytes);
  }
  return 0;
}

// DHCPv6 as anybody on the network can send it.
FUZZ_TARGET(dhcp6) {
  auto parsed = parse6(kj::arrayPtr(data, size));
  KJ_ASSERT((parsed.message == nullptr) == (parsed.problem.size() > 0));
  KJ_IF_MAYBE (m, parsed.message) {
    for (auto& association : m->associations) {
      for (auto& a : association.addresses) KJ_ASSERT(a.preferred <= a.valid);
    }
    for (auto& name : m->search) {
      for (char c : name) KJ_ASSERT(isalnum(c) || c == '-' || c == '_' || c == '.');
    }
    // A parsed message can be encoded, and is parsed as the same again.
    auto bytes = encode(*m);
    auto again = parse6(bytes);
    KJ_ASSERT(encode(KJ_ASSERT_NONNULL(again.message)).asPtr() == bytes.asPtr());
  }
  return 0;
}

// Router advertisements as anybody on the network can send them.
FUZZ_TARGET(advertisement) {
  KJ_IF_MAYBE (a, parseAdvertisement(kj::arrayPtr(data, size))) {
    for (auto& resolvers : a->resolvers) KJ_ASSERT(resolvers.servers.size() > 0);
    for (auto& search : a->search) {
      for (auto& name : search.names) {
        for (char c : name) KJ_ASSERT(isalnum(c) || c == '-' || c == '_' || c == '.');
      }
    }
  }
  return 0;
}
