#include "talosctl/configure/moved-node.h"

#include "common/config/config.h"
#include "common/net/dns-resolver.h"

namespace talos::talosctl {
namespace {

constexpr size_t kMostNames = 8;

kj::String sameName(kj::StringPtr host) {
  return asAddress(host).orDefault(kj::str(host));
}

// Adds the address of "10.0.0.2/24" unless it is listed.
void addAddress(kj::Vector<kj::String>& names, kj::StringPtr cidr) {
  auto host = kj::heapString(cidr.slice(0, cidr.findFirst('/').orDefault(cidr.size())));
  if (names.size() == kMostNames || asAddress(host) == nullptr) return;
  for (auto& name : names) {
    if (sameName(name) == sameName(host)) return;
  }
  names.add(kj::mv(host));
}

template <typename Link>
void addAddressesOf(kj::Vector<kj::String>& names, Link link) {
  addAddress(names, link.getCidr());
  for (auto address : link.getAddresses()) addAddress(names, address);
}

}  // namespace

MovedNode::MovedNode(Invocation& call, kj::StringPtr node, kj::StringPtr document) : call(call) {
  names.add(kj::str(node));
  auto parsed = config::parse(document);
  if (!parsed.good()) return;
  for (auto link : parsed.get().getMachine().getNetwork().getInterfaces()) {
    addAddressesOf(names, link);
    for (auto vlan : link.getVlans()) addAddressesOf(names, vlan);
  }
}

Target MovedNode::target() const {
  auto target = resolveTarget(call);
  if (at == 0 || target.local) return target;
  for (auto& endpoint : target.endpoints) {
    if (sameName(endpoint) == sameName(names[0])) endpoint = kj::str(names[at]);
  }
  return target;
}

}  // namespace talos::talosctl
