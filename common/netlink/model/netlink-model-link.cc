// The links of the model kernel.
#include <errno.h>
#include <kj/debug.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <net/if_arp.h>

#include <algorithm>

#include <linux/if.h>  // after net/if.h, which it then completes

#include "common/netlink/model/netlink-model-bond.h"
#include "common/netlink/model/netlink-model-lists.h"
#include "common/netlink/model/netlink-model.h"

namespace talos::netlink {

namespace {

constexpr unsigned kEtherMtu = 1500, kWireguardMtu = 1420, kSmallestMtu = 68, kLargestMtu = 65536;
constexpr unsigned kLargestVlan = 4094, kVrfMtu = 65575;
constexpr kj::byte kGroupBit = 1;  // in the first octet of a hardware address
constexpr uint16_t k8021q = 0x8100, k8021ad = 0x88a8;

bool isBond(const Link& link) {
  return link.kind == "bond";
}

}  // namespace

// --- hardware

unsigned ModelKernel::make(kj::StringPtr name, kj::StringPtr kind) {
  Device added;
  added.link.index = nextIndex++;
  added.link.name = kj::str(name);
  added.link.type = ARPHRD_ETHER;
  added.link.flags = IFF_BROADCAST | IFF_MULTICAST;
  added.link.mtu = kEtherMtu;
  added.link.hardwareAddress = kj::heapArray<kj::byte>({0x52, 0x54, 0, 0, 0, 0});
  added.link.hardwareAddress[4] = added.link.index >> 8;
  added.link.hardwareAddress[5] = added.link.index;
  added.link.operState = IF_OPER_DOWN;
  added.link.carrier = true;
  added.link.kind = kj::str(kind);
  unsigned index = added.link.index;
  devices.add(kj::mv(added));
  notify({.links = true});
  return index;
}

// Removes the link, and the links that are above it or depend on it.
void ModelKernel::unplug(unsigned index) {
  kj::Vector<unsigned> upper, members;
  unsigned peer = 0;
  if (auto end = device(index); end != nullptr && end->link.kind == "veth") {
    std::swap(peer, end->link.parent);
  }
  KJ_DEFER({
    if (peer != 0 && device(peer) != nullptr && device(peer)->link.parent == index) {
      unplug(peer);
    }
  });
  for (auto& other : devices) {
    if (other.link.kind == "vlan" && other.link.parent == index) upper.add(other.link.index);
    if (other.link.master == index) members.add(other.link.index);
  }
  for (auto vlan : upper) unplug(vlan);
  for (auto member : members) release(member);
  KJ_IF_MAYBE (there, kj::Maybe<Device&>(device(index))) {
    if (there->link.master != 0) release(index);
  }
  removeIf(addressList, [&](auto& a) { return a.link == index; });
  removeIf(routeList, [&](auto& r) { return r.link == index; });
  removeIf(devices, [&](auto& d) { return d.link.index == index; });
  dropSources();
  notify({.links = true, .addresses = true, .routes = true});
}

void ModelKernel::setCarrier(unsigned index, bool carrier) {
  auto& link = KJ_ASSERT_NONNULL(kj::Maybe<Device&>(device(index))).link;
  link.carrier = carrier;
  link.operState = carrier && link.up() ? IF_OPER_UP : IF_OPER_DOWN;
  if (link.master != 0) refreshCarrier(link.master);
  for (auto& other : devices) {  // a VLAN has that of its parent
    if (other.link.kind == "vlan" && other.link.parent == index) {
      setCarrier(other.link.index, carrier);
    }
  }
  notify({.links = true});
}

// --- changes of one link

int ModelKernel::set(const SetLink& set, kj::String& message) {
  auto found = device(set.index);
  if (found == nullptr) return ENODEV;
  if (set.hardwareAddress) {
    auto& address = *set.hardwareAddress;
    if (int code = setAddress(*found, kj::arrayPtr(address.data(), address.size()))) return code;
  }
  KJ_IF_MAYBE (mtu, set.mtu) {
    if (int code = setMtu(*found, *mtu)) return code;
  }
  KJ_IF_MAYBE (master, set.master) {
    if (int code = setMaster(set.index, *master, message)) return code;
  }
  KJ_IF_MAYBE (up, set.up) {
    if (int code = setUp(*found, *up)) return code;
  }
  notify({.links = true});
  return 0;
}

int ModelKernel::setMtu(Device& found, unsigned mtu) {
  if (mtu < kSmallestMtu || mtu > kLargestMtu) return EINVAL;
  auto& link = found.link;
  if (link.kind == "vlan") {
    auto parent = device(link.parent);
    if (parent != nullptr && mtu > parent->link.mtu) return ERANGE;
  }
  link.mtu = mtu;
  if (link.kind == "bridge") found.mtuChosen = true;
  if (link.master != 0) adjustBridge(link.master);
  for (auto& other : devices) {
    if (isBond(link) && other.link.master == link.index) setMtu(other, mtu);
    // A VLAN cannot have more than its parent, and shrinks with it.
    if (other.link.kind == "vlan" && other.link.parent == link.index && other.link.mtu > mtu) {
      setMtu(other, mtu);
    }
  }
  return 0;
}

int ModelKernel::setAddress(Device& found, kj::ArrayPtr<const kj::byte> address) {
  auto& link = found.link;
  if (link.type != ARPHRD_ETHER) return EOPNOTSUPP;
  bool none = std::all_of(address.begin(), address.end(), [](auto octet) { return octet == 0; });
  if (none || (address[0] & kGroupBit) != 0) return EADDRNOTAVAIL;
  link.hardwareAddress = kj::heapArray(address);
  if (link.kind == "bridge") found.addressChosen = true;
  if (link.master != 0) adjustBridge(link.master);
  return 0;
}

// Gives a bridge the smallest MTU and the lowest hardware address of its ports until a change sets
// others; without ports it then has no address.
void ModelKernel::adjustBridge(unsigned index) {
  auto bridge = device(index);
  if (bridge == nullptr || bridge->link.kind != "bridge") return;
  unsigned least = 0;
  auto lowest = kj::heapArray<kj::byte>(6);
  std::ranges::fill(lowest, 0);
  for (auto& port : devices) {
    if (port.link.master != index) continue;
    auto& address = port.link.hardwareAddress;
    bool first = least == 0;
    if (first || port.link.mtu < least) least = port.link.mtu;
    if (first || std::ranges::lexicographical_compare(address, lowest)) {
      lowest = kj::heapArray<kj::byte>(address);
    }
  }
  if (!bridge->mtuChosen) bridge->link.mtu = least == 0 ? kEtherMtu : least;
  if (!bridge->addressChosen) bridge->link.hardwareAddress = kj::mv(lowest);
}

int ModelKernel::setUp(Device& found, bool up) {
  if (up == found.link.up()) return 0;
  if (up) {
    if (found.link.kind == "vlan") {
      auto parent = device(found.link.parent);
      if (parent == nullptr || !parent->link.up()) return ENETDOWN;
    }
    goUp(found);
  } else {
    goDown(found);
  }
  // VLANs go with their parent, also one that was down for itself.
  for (auto& other : devices) {
    if (other.link.kind == "vlan" && other.link.parent == found.link.index) setUp(other, up);
  }
  return 0;
}

void ModelKernel::goUp(Device& device) {
  auto& link = device.link;
  link.flags |= IFF_UP | IFF_RUNNING;
  if (!link.loopback()) link.operState = link.carrier ? IF_OPER_UP : IF_OPER_DOWN;
  bool any4 = false;
  for (auto& address : addressList) {
    if (address.link != link.index || !is4(address.prefix)) continue;
    any4 = true;
    addConnected(address);
  }
  auto automatic = [&](kj::StringPtr prefix, uint8_t scope, uint8_t protocol) {
    Address address{.link = link.index,
                    .prefix = KJ_ASSERT_NONNULL(Prefix::parse(prefix)),
                    .scope = scope,
                    .flags = IFA_F_PERMANENT,
                    .protocol = protocol};
    addressList.add(address);
    addConnected(address);
  };
  bool member = (link.flags & IFF_SLAVE) != 0;
  if (link.loopback()) {
    if (!any4) automatic("127.0.0.1/8", RT_SCOPE_HOST, IFAPROT_KERNEL_LO);
    if (ipv6) automatic("::1/128", RT_SCOPE_HOST, IFAPROT_KERNEL_LO);
  } else if (ipv6 && !member && link.type == ARPHRD_ETHER && link.kind != "vrf") {
    automatic(kj::str("fe80::5054:ff:fe00:", kj::hex(link.index), "/64"), RT_SCOPE_LINK,
              IFAPROT_KERNEL_LL);
  }
  if (link.master != 0) refreshCarrier(link.master);
  if (link.kind == "veth") refreshPair(link.index);
  notify({.links = true, .addresses = true, .routes = true});
}

void ModelKernel::goDown(Device& device) {
  unsigned index = device.link.index;
  device.link.flags &= ~(IFF_UP | IFF_RUNNING);
  device.link.operState = IF_OPER_DOWN;
  removeIf(addressList, [&](auto& a) { return a.link == index && !is4(a.prefix); });
  removeIf(routeList, [&](auto& r) { return r.link == index; });
  dropSources();
  if (device.link.master != 0) refreshCarrier(device.link.master);
  if (device.link.kind == "veth") refreshPair(index);
  notify({.links = true, .addresses = true, .routes = true});
}

// Gives the ends of a pair a carrier while both are up.
void ModelKernel::refreshPair(unsigned index) {
  auto end = device(index);
  auto peer = end == nullptr ? nullptr : device(end->link.parent);
  if (peer == nullptr) return;
  bool both = end->link.up() && peer->link.up();
  for (auto one : {end, peer}) {
    if (one->link.carrier != both) setCarrier(one->link.index, both);
  }
}

// Takes a link that is up down, and up again, as it does when it enters or leaves a VRF.
void ModelKernel::cycle(Device& device) {
  if (!device.link.up()) return;
  setUp(device, false);
  setUp(device, true);
}

// --- bonds and bridges

void ModelKernel::refreshCarrier(unsigned index) {
  auto master = device(index);
  if (master == nullptr || !isBond(master->link)) return;
  bool any = false;
  for (auto& other : devices) {
    any = any || (other.link.master == index && other.link.up() && other.link.carrier);
  }
  if (master->link.carrier != any) setCarrier(index, any);
  if (master->link.up()) master->link.operState = any ? IF_OPER_UP : IF_OPER_DOWN;
}

int ModelKernel::setMaster(unsigned index, unsigned master, kj::String& message) {
  auto& link = device(index)->link;
  if (link.master == master) return 0;
  if (link.master != 0) release(index);
  return master == 0 ? 0 : join(index, master, message);
}

void ModelKernel::release(unsigned index) {
  auto& member = *device(index);
  unsigned from = member.link.master;
  auto bond = device(from);
  member.link.master = 0;
  member.link.memberKind = kj::String();
  member.link.bondMember = {};
  adjustBridge(from);
  if (bond != nullptr && bond->link.kind == "vrf") cycle(member);
  if (bond == nullptr || !isBond(bond->link)) return;
  member.link.flags &= ~IFF_SLAVE;
  if (member.link.up()) setUp(member, false);  // the bond closes it
  if (member.ownMtu != 0) setMtu(member, member.ownMtu);
  auto& options = *bond->link.bond;
  if (options[BondOption::kPrimary] == index) options[BondOption::kPrimary].reset();
  refreshCarrier(from);
}

int ModelKernel::join(unsigned index, unsigned master, kj::String& message) {
  auto upper = device(master);
  if (upper == nullptr) return EINVAL;
  auto& member = *device(index);
  if (upper->link.kind == "bridge") {
    if (member.link.loopback()) return EINVAL;
    if (member.link.kind == "bridge") return ELOOP;
    member.link.master = master;
    member.link.memberKind = kj::str("bridge");
    adjustBridge(master);
    return 0;
  }
  if (upper->link.kind == "vrf") {
    if (member.link.loopback() || member.link.kind == "vrf") return EINVAL;
    member.link.master = master;
    member.link.memberKind = kj::str("vrf");
    cycle(member);
    return 0;
  }
  if (!isBond(upper->link)) return EOPNOTSUPP;
  if (member.link.loopback() || member.link.type != ARPHRD_ETHER) return EINVAL;
  if (member.link.up()) {
    message = kj::str("Device can not be enslaved while up");
    return EPERM;
  }
  member.ownMtu = member.link.mtu;
  setMtu(member, upper->link.mtu);
  member.link.master = master;
  member.link.memberKind = kj::str("bond");
  member.link.bondMember = BondMember{};
  member.link.flags |= IFF_SLAVE;
  setUp(member, true);  // the bond opens it
  auto& options = *upper->link.bond;
  if (upper->preferred == index && ruleOf(BondOption::kPrimary).fits(options.mode())) {
    options[BondOption::kPrimary] = index;
  }
  refreshCarrier(master);
  return 0;
}

int ModelKernel::set(const SetBond& set, kj::String& message) {
  auto found = device(set.index);
  if (found == nullptr) return ENODEV;
  if (!isBond(found->link)) return EOPNOTSUPP;
  auto& options = *found->link.bond;
  // Options before the failing one stay set.
  KJ_DEFER(notify({.links = true}));
  auto targets = [&]() -> int {
    if (!set.options.arpTargets) return 0;
    if (set.options.arpTargets->size() > kMostBondTargets) return EINVAL;
    options.arpTargets = set.options.arpTargets;
    return 0;
  };
  for (auto& rule : bondRules()) {
    // The kernel applies the targets here: before arp_validate and arp_all_targets.
    if (rule.option == BondOption::kArpValidate) {
      if (int code = targets()) return code;
    }
    auto& value = set.options[rule.option];
    if (!value) continue;
    auto named = device(*value);
    bool member = named != nullptr && named->link.master == set.index;
    ModelBond bond{found->link, found->preferred, memberCount(devices, set.index),
                   member ? &named->link : nullptr};
    if (int code = setBondNumber(bond, rule, *value, set.options, message)) return code;
  }
  if (set.options.actorSystem) {
    if (options.mode() != BondMode::kLacp) return EACCES;
    if (((*set.options.actorSystem)[0] & 1) != 0) return EINVAL;
    options.actorSystem = set.options.actorSystem;
  }
  return 0;
}

int ModelKernel::set(const SetBridge& set) {
  auto found = device(set.index);
  if (found == nullptr) return ENODEV;
  if (found->link.kind != "bridge") return EOPNOTSUPP;
  auto& options = *found->link.bridge;
  if (set.options.stp) options.stp = set.options.stp;
  if (set.options.vlanFiltering) options.vlanFiltering = set.options.vlanFiltering;
  notify({.links = true});
  return 0;
}

// --- WireGuard

WireguardDevice ModelKernel::wireguard(unsigned index) {
  auto found = device(index);
  KJ_REQUIRE(found != nullptr && found->link.kind == "wireguard", index, "is no WireGuard link");
  return found->wireguard;
}

int ModelKernel::set(const SetWireguard& set) {
  auto found = device(set.index);
  if (found == nullptr) return ENODEV;
  if (found->link.kind != "wireguard") return EOPNOTSUPP;
  auto& state = found->wireguard;
  if (set.listenPort) state.listenPort = *set.listenPort;
  if (set.firewallMark) state.firewallMark = *set.firewallMark;
  KJ_IF_MAYBE (secret, set.privateKey) state.publicKey = secret->publicKey();
  auto& peers = state.peers;
  std::erase_if(peers, [&](auto& p) { return p.publicKey == state.publicKey; });
  for (auto& change : set.peers) {
    auto same = [&](auto& p) { return p.publicKey == change.publicKey; };
    if (change.remove) {
      std::erase_if(peers, same);
      continue;
    }
    if (change.publicKey == state.publicKey) continue;  // the kernel passes over itself
    auto place = std::find_if(peers.begin(), peers.end(), same);
    if (place == peers.end()) {
      peers.push_back({.publicKey = change.publicKey});
      place = peers.end() - 1;
    }
    if (change.endpoint) place->endpoint = change.endpoint;
    if (change.keepalive) place->keepalive = *change.keepalive;
    if (change.replaceAllowed) place->allowed.clear();
    for (auto& network : change.allowed) {
      // Only one peer can have a network: the last that claims it.
      for (auto& peer : peers) std::erase(peer.allowed, network.masked());
      place->allowed.push_back(network.masked());
    }
  }
  notify({.links = true});
  return 0;
}

// --- names

int ModelKernel::rename(const RenameLink& rename) {
  auto found = device(rename.index);
  if (found == nullptr) return ENODEV;
  if (rename.name.size() == 0 || rename.name.size() >= IFNAMSIZ) return EINVAL;
  for (auto& other : devices) {
    if (other.link.name == rename.name && other.link.index != rename.index) return EEXIST;
  }
  found->link.name = kj::str(rename.name);
  notify({.links = true});
  return 0;
}

// --- new links

int ModelKernel::add(const AddLink& add, kj::String& message) {
  for (auto& device : devices) {
    if (device.link.name == add.name) return EEXIST;
  }
  int code = 0;
  unsigned index = 0;
  KJ_SWITCH_ONEOF(add.kind) {
    KJ_CASE_ONEOF(k, Bridge) {
      index = make(add.name, "bridge");
      device(index)->link.bridge =
          BridgeOptions{k.options.stp.value_or(false), k.options.vlanFiltering.value_or(false)};
    }
    KJ_CASE_ONEOF(k, Dummy) {
      index = make(add.name, "dummy");
    }
    KJ_CASE_ONEOF(k, Vlan) {
      index = make(add.name, "vlan");
      code = addVlan(k, add.mtu, index);
    }
    KJ_CASE_ONEOF(k, Bond) {
      index = make(add.name, "bond");
      auto& link = device(index)->link;
      link.flags |= IFF_MASTER;
      link.carrier = false;
      link.bond = standardBond();
      code = set(SetBond{index, k.options}, message);
    }
    KJ_CASE_ONEOF(k, Wireguard) {
      index = make(add.name, "wireguard");
      auto& link = device(index)->link;
      link.type = ARPHRD_NONE;
      link.flags = IFF_POINTOPOINT | IFF_NOARP;
      link.mtu = kWireguardMtu;
      link.hardwareAddress = nullptr;
    }
    KJ_CASE_ONEOF(k, Vrf) {
      index = make(add.name, "vrf");
      auto& link = device(index)->link;
      link.flags |= IFF_MASTER | IFF_NOARP;
      link.mtu = kVrfMtu;
      link.vrfTable = k.table;
    }
    KJ_CASE_ONEOF(k, Veth) {
      code = addVeth(add, k, index);
      if (index == 0) return code;
    }
  }
  if (code == 0 && add.mtu != 0) code = setMtu(*device(index), add.mtu);
  if (code != 0) {
    unplug(index);
    return code;
  }
  device(index)->link.group = add.group;
  return 0;
}

// Makes both ends; `index` is that of the first, or 0 if none is made.
int ModelKernel::addVeth(const AddLink& add, const Veth& veth, unsigned& index) {
  for (auto& device : devices) {
    if (device.link.name == veth.peer) return EEXIST;
  }
  if (veth.peer == add.name) return EEXIST;
  unsigned peer = make(veth.peer, "veth");
  index = make(add.name, "veth");
  for (auto [end, other] : {std::pair(index, peer), std::pair(peer, index)}) {
    auto& link = device(end)->link;
    link.parent = other;
    link.carrier = false;
    link.group = add.group;
  }
  return 0;
}

int ModelKernel::addVlan(const Vlan& vlan, unsigned mtu, unsigned index) {
  auto parent = device(vlan.parent);
  if (parent == nullptr) return ENODEV;
  if (vlan.id > kLargestVlan) return ERANGE;
  if (vlan.protocol != k8021q && vlan.protocol != k8021ad) return EPROTONOSUPPORT;
  if (parent->link.loopback()) return EOPNOTSUPP;
  VlanTag tag{vlan.id, vlan.protocol};
  for (auto& other : devices) {
    if (other.link.parent == vlan.parent && other.link.vlan == tag) return EEXIST;
  }
  auto& link = device(index)->link;
  link.parent = vlan.parent;
  link.vlan = tag;
  link.mtu = parent->link.mtu;
  link.carrier = parent->link.carrier;
  return mtu > parent->link.mtu ? ERANGE : 0;
}

}  // namespace talos::netlink
