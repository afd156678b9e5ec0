#include "networkd/plan/plan-links.h"

#include <kj/debug.h>

#include <algorithm>

#include "common/bond/bond-options.h"

namespace talos::networkd {

using netlink::BondOption;
using netlink::Link;
using netlink::SetLink;

namespace {

constexpr unsigned kEtherMtu = 1500, kWireguardMtu = 1420;
constexpr size_t kEtherAddress = 6;

// Returns the MTU of a networkd link without a spec's MTU; 0: unchanged.
unsigned standardMtu(kj::StringPtr kind) {
  if (kind == "bond" || kind == "dummy" || kind == "veth") return kEtherMtu;
  return kind == "wireguard" ? kWireguardMtu : 0;
}

bool ours(const Link& link) {
  return link.group == kMark;
}

// A bridge that lost its last port has no hardware address any more, and a VLAN created on it
// then can never go up.
bool lostAddress(const Link& link) {
  for (auto byte : link.hardwareAddress) {
    if (byte != 0) return false;
  }
  return link.hardwareAddress.size() > 0;
}

}  // namespace

// A comparison. `now` is the state of each link after the steps so far.
class LinkPlanner::Impl {
 public:
  Impl(const Wanted& wanted, const Observed& observed, Plan& result)
      : wanted(wanted), observed(observed), result(result) {
    wants.take(wanted.links, [](const WantedLink& want) { return keyOf(want.name); });
    byName.take(observed.links, [](const Link& link) { return keyOf(link.name); });
    byIndex.take(observed.links, [](const Link& link) { return link.index; });
    byParent.take(observed.links, [](const Link& link) { return link.parent; });
    byMaster.take(observed.links, [](const Link& link) { return link.master; });
    for (auto& link : observed.links) {
      now.add(Now{&link, wantedFor(link.name), link.up(), false, link.mtu, link.master});
    }
  }

  kj::Vector<Step> run() {
    for (auto& link : now) {
      if (link.link->loopback() && !link.up) {
        link.up = true;  // The kernel adds its addresses by itself.
        step(SetLink{.index = link.link->index, .up = true}, kj::str("link ", link.link->name));
      }
    }
    for (auto& link : now) checkKind(link);
    removeLinks();
    for (auto& want : wanted.links) makeLink(want);
    for (auto& link : now) releaseMember(link);
    for (auto& link : now) setKind(link);
    for (auto& link : now) restoreMtu(link);
    for (auto kind : {Stage::kOthers, Stage::kVlans}) {
      for (auto& link : now) setMtu(link, kind);
    }
    for (auto& link : now) setAddress(link);
    for (auto& link : now) enslave(link);
    for (auto& link : now) setPrimary(link);
    for (auto& link : now) setMtu(link, Stage::kBridges);
    for (bool vlans : {false, true}) {
      for (auto& link : now) setUp(link, vlans);
    }
    for (auto& link : now) {
      if (link.want != nullptr && !link.gone && !link.changed) result.applied += link.want->version;
    }
    return kj::mv(steps);
  }

  bool willBeUp(unsigned index) {
    auto link = find(index);
    return link != nullptr && link->up && !link->gone;
  }
  bool goesAway(unsigned index) {
    auto link = find(index);
    return link != nullptr && link->gone;
  }
  bool isNew(kj::StringPtr name) const { return newNames.contains(name); }

 private:
  struct Now {
    const Link* link;
    const WantedLink* want;
    bool up, gone;
    unsigned mtu, master;
    bool changed = false;
    bool foreign = false;  // another program's, with an unwanted kind: left alone
  };

  const Wanted& wanted;
  const Observed& observed;
  Plan& result;
  kj::Vector<Step> steps;
  kj::Vector<Now> now;
  kj::HashSet<kj::StringPtr> newNames;
  Positions wants;                                // wanted.links
  Positions byName, byIndex, byParent, byMaster;  // `now`, as the links were observed

  const WantedLink* wantedFor(kj::StringPtr name) const {
    for (auto& entry : wants.of(keyOf(name))) {
      auto& want = wanted.links[entry.position];
      if (want.name == name) return &want;
    }
    return nullptr;
  }
  Now* find(unsigned index) {
    for (auto& entry : byIndex.of(index)) return &now[entry.position];
    return nullptr;
  }
  Now* find(kj::StringPtr name) {
    for (auto& entry : byName.of(keyOf(name))) {
      auto& link = now[entry.position];
      if (link.link->name == name && !link.gone) return &link;
    }
    return nullptr;
  }

  template <typename... Parts>
  void problem(Parts&&... parts) {
    result.problems.add(kj::str(kj::fwd<Parts>(parts)...));
  }
  void step(netlink::Change change, kj::String what) {
    steps.add(Step{kj::mv(change), kj::mv(what)});
  }
  void step(Now& link, netlink::Change change) {
    link.changed = true;
    step(kj::mv(change), kj::str("link ", link.link->name));
  }
  static bool configured(const Now& link) {
    return link.want != nullptr && !link.gone && !link.foreign;
  }

  // --- comparison of existing links
  //
  // Returns true if the link need not be recreated: all that can be set only at its creation is as
  // wanted.
  bool fits(const Now& link) {
    auto& want = *link.want;
    if (ours(*link.link) && lostAddress(*link.link)) return false;
    if (want.kind.size() == 0) return !ours(*link.link);
    if (link.link->kind != want.kind) return false;
    if (want.kind == "vrf") return link.link->vrfTable == want.vrfTable;
    if (want.kind == "veth") {
      auto peer = peerOf(link);
      return peer != nullptr && peer->link->name == want.peer;
    }
    if (want.kind != "vlan") return true;
    auto parent = find(want.parent);
    bool onParent = parent != nullptr && parent->link->index == link.link->parent;
    return onParent && link.link->vlan == want.vlan;
  }

  // Returns the other end of a pair; nullptr if it is in another network namespace.
  Now* peerOf(const Now& link) {
    if (link.link->kind != "veth") return nullptr;
    auto peer = find(link.link->parent);
    bool pair =
        peer != nullptr && peer->link->kind == "veth" && peer->link->parent == link.link->index;
    return pair ? peer : nullptr;
  }

  void checkKind(Now& link) {
    if (link.want == nullptr || fits(link)) return;
    if (ours(*link.link)) return;  // removeLinks() removes it
    link.foreign = true;
    bool same = link.link->kind == link.want->kind;
    problem("link ", link.want->name, ": the link exists already and is ",
            link.link->kind.size() == 0 ? "hardware"_kj : kj::StringPtr(link.link->kind), ", not ",
            same ? "this "_kj : "a "_kj, link.want->kind,
            "; networkd did not create it and leaves it as it is");
  }

  bool isUnwanted(const Now& link) {
    return ours(*link.link) && (link.want == nullptr || !fits(link));
  }

  // Returns false for a networkd link that is not wanted, for the other end of its pair, and for
  // every VLAN on them.
  bool stays(const Now& link) {
    if (isUnwanted(link)) return false;
    if (auto peer = peerOf(link); peer != nullptr && isUnwanted(*peer)) return false;
    if (link.link->kind != "vlan") return true;
    auto parent = find(link.link->parent);
    return parent == nullptr || stays(*parent);
  }

  void removeLinks() {
    // VLANs first: otherwise they vanish with their parent, and their removal fails.
    for (bool vlans : {true, false}) {
      for (auto& link : now) {
        if ((link.link->kind == "vlan") != vlans || link.gone || stays(link)) continue;
        link.gone = true;
        if (!ours(*link.link))
          continue;  // The kernel removes another program's VLAN with its
                     // parent.
        step(netlink::DeleteLink{link.link->index}, kj::str("link ", link.link->name));
        if (auto peer = peerOf(link)) peer->gone = true;  // with this end
        for (auto& member : now) {
          if (member.master != link.link->index) continue;
          member.master = 0;
          if (link.link->kind == "bond") takeDown(member);  // the bond sets it down
        }
      }
    }
  }

  // The kernel sets the VLANs of a link down with the link, and up again.
  void follow(Now& parent, bool up) {
    for (auto& entry : byParent.of(parent.link->index)) {
      auto& vlan = now[entry.position];
      if (vlan.link->kind == "vlan") {
        vlan.up = up;
        follow(vlan, up);
      }
    }
  }
  void takeDown(Now& link) {
    link.up = false;
    follow(link, false);
  }
  void bringUp(Now& link) {
    link.up = true;
    follow(link, true);
  }

  // --- new links
  void makeLink(const WantedLink& want) {
    if (find(want.name) != nullptr || isNew(want.name)) return;
    auto what = kj::str("link ", want.name);
    KJ_IF_MAYBE (kind, kindOf(want)) {
      newNames.upsert(want.name, [](auto&, auto&&) {});
      if (want.kind == "veth") newNames.upsert(want.peer, [](auto&, auto&&) {});
      unsigned mtu = want.kind == "vlan" ? 0 : want.mtu;  // The MTU of its parent may have to grow
                                                          // first.
      step(netlink::AddLink{kj::str(want.name), kj::mv(*kind), kMark, mtu}, kj::mv(what));
    }
  }

  // Returns nullptr if the link cannot be created, or not yet; adds a problem if it cannot.
  kj::Maybe<netlink::LinkKind> kindOf(const WantedLink& want) {
    if (want.kind == "dummy") return netlink::LinkKind(netlink::Dummy{});
    if (want.kind == "wireguard") return netlink::LinkKind(netlink::Wireguard{});
    if (want.kind == "bridge") return netlink::LinkKind(netlink::Bridge{want.bridge});
    if (want.kind == "bond") {
      auto options = effective(want);
      // A new bond starts with the standard options, so only others are sent.
      netlink::BondOptions standard;
      for (auto& rule : netlink::bondRules()) standard[rule.option] = rule.standard;
      return netlink::LinkKind(netlink::Bond{bondDifference(options, standard)});
    }
    if (want.kind == "vlan") return vlanOf(want);
    if (want.kind == "vrf") return netlink::LinkKind(netlink::Vrf{want.vrfTable});
    if (want.kind == "veth") {
      if (find(want.peer) == nullptr) return netlink::LinkKind(netlink::Veth{kj::str(want.peer)});
      problem("link ", want.name, ": its peer ", want.peer,
              " exists already and is not the other end of this pair");
      return nullptr;
    }
    problem("link ", want.name, ": unknown link \"", want.name,
            "\"; known links: ", linkNames(observed));
    return nullptr;
  }

  kj::Maybe<netlink::LinkKind> vlanOf(const WantedLink& want) {
    auto parent = find(want.parent);
    if (parent != nullptr) {
      return netlink::LinkKind(
          netlink::Vlan{parent->link->index, want.vlan.id, want.vlan.protocol});
    }
    bool comes = isNew(want.parent);
    for (auto& other : wanted.links)
      comes = comes || (other.name == want.parent && other.kind.size() > 0);
    if (!comes) {
      problem("link ", want.name, ": unknown link \"", want.parent, "\", its parent");
    }
    return nullptr;
  }

  netlink::BondOptions effective(const WantedLink& want) {
    return netlink::effectiveBond(want.bond, [&](kj::StringPtr option, kj::StringPtr cause) {
      problem("link ", want.name, ": ", option, " ", cause);
    });
  }

  // --- bonds and bridges
  //
  // Returns the link that `member` is to join; nullptr if it is to join no link or the link does
  // not exist yet.
  Now* wantedMaster(const Now& member) {
    if (!configured(member) || member.want->master.size() == 0) return nullptr;
    auto master = find(member.want->master);
    return master != nullptr && !master->foreign ? master : nullptr;
  }

  void release(Now& member) {
    auto master = find(member.master);
    bool bond = master != nullptr && master->link->kind == "bond";
    step(member, SetLink{.index = member.link->index, .master = 0u});
    member.master = 0;
    if (bond) takeDown(member);
  }

  // Releases a link that is in a configured bond or bridge and does not belong there. Ports that
  // another program added to a bridge stay.
  void releaseMember(Now& member) {
    if (member.master == 0 || member.gone) return;
    auto master = find(member.master);
    if (master == nullptr || !configured(*master) || master->want->kind.size() == 0) return;
    auto target = wantedMaster(member);
    if (target == master) return;
    bool known = member.want != nullptr || member.link->kind.size() == 0 || ours(*member.link);
    if (master->link->kind == "bond" || known) release(member);
  }

  void setKind(Now& link) {
    if (!configured(link)) return;
    if (link.want->kind == "bond") setBond(link);
    if (link.want->kind == "wireguard") setWireguard(link);
    if (link.want->kind == "bridge") setBridge(link);
  }

  void setBridge(Now& bridge) {
    auto& want = bridge.want->bridge;
    auto current = bridge.link->bridge.value_or(netlink::BridgeOptions{});
    netlink::BridgeOptions set;
    auto differs = [](auto& want, auto& have) { return want && want != have; };
    if (differs(want.stp, current.stp)) set.stp = want.stp;
    if (differs(want.vlanFiltering, current.vlanFiltering)) set.vlanFiltering = want.vlanFiltering;
    if (set != netlink::BridgeOptions{}) step(bridge, netlink::SetBridge{bridge.link->index, set});
  }

  void setBond(Now& bond) {
    auto there = bond.link->bond.value_or(netlink::BondOptions{});
    auto set = bondDifference(effective(*bond.want), there);
    if (set.empty()) return;
    bool down = false, empty = false;
    for (auto& rule : netlink::bondRules()) {
      if (!set[rule.option]) continue;
      down = down || rule.down;
      empty = empty || rule.empty;
    }
    if (empty) {
      for (auto& member : now) {
        if (member.master == bond.link->index) release(member);
      }
    }
    if (down && bond.up) {
      step(bond, SetLink{.index = bond.link->index, .up = false});
      takeDown(bond);
    }
    step(bond, netlink::SetBond{bond.link->index, set});
  }

  // Sets the lowest hardware address of a configured port, which the kernel would choose too; but
  // an address that was set stays when other programs add ports. The current address also stays
  // while a configured port has it.
  void setAddress(Now& bridge) {
    if (!configured(bridge) || bridge.want->kind != "bridge" || !ours(*bridge.link)) return;
    const Link* lowest = nullptr;
    for (auto& port : now) {
      auto& address = port.link->hardwareAddress;
      bool fits = wantedMaster(port) == &bridge && address.size() == kEtherAddress;
      if (!fits || lostAddress(*port.link)) continue;
      if (address == bridge.link->hardwareAddress) return;
      if (lowest == nullptr ||
          std::ranges::lexicographical_compare(address, lowest->hardwareAddress)) {
        lowest = port.link;
      }
    }
    if (lowest == nullptr) return;
    SetLink set{.index = bridge.link->index};
    std::ranges::copy(lowest->hardwareAddress, set.hardwareAddress.emplace().begin());
    step(bridge, kj::mv(set));
  }

  void enslave(Now& member) {
    auto master = wantedMaster(member);
    if (master == nullptr) {
      bool lost =
          configured(member) && member.want->master.size() > 0 && !isNew(member.want->master);
      if (lost)
        problem("link ", member.want->name, ": its master ", member.want->master,
                " does not exist");
      return;
    }
    if (member.master == master->link->index) return;
    if (member.master != 0) release(member);
    bool bond = master->link->kind == "bond";
    if (bond && member.up) {
      step(member, SetLink{.index = member.link->index, .up = false});
      takeDown(member);
    }
    step(member, SetLink{.index = member.link->index, .master = master->link->index});
    member.master = master->link->index;
    if (bond) bringUp(member);
  }

  void setPrimary(Now& bond) {
    if (!configured(bond) || bond.want->kind != "bond") return;
    auto& options = bond.want->bond;
    auto& rule = netlink::ruleOf(BondOption::kPrimary);
    bool given = bond.want->primary.size() > 0;
    if (!rule.fits(options.mode())) {
      if (given) {
        problem("link ", bond.want->name, ": primary ", netlink::usedOnlyIn(rule, options.mode()));
      }
      return;
    }
    if (!given && options[BondOption::kPrimaryReselect].value_or(0) != 0) {
      problem("link ", bond.want->name, ": primaryReselect has no effect without primary");
    }
    auto there = bond.link->bond ? (*bond.link->bond)[BondOption::kPrimary].value_or(0) : 0;
    unsigned want = 0;
    if (given) {
      auto link = find(bond.want->primary);
      if (link == nullptr || link->master != bond.link->index) {
        problem("link ", bond.want->name, ": its primary ", bond.want->primary,
                " is not one of its members");
        return;
      }
      want = link->link->index;
    }
    if (want == there) return;
    netlink::BondOptions set;
    set[BondOption::kPrimary] = want;
    step(bond, netlink::SetBond{bond.link->index, set});
  }

  // --- WireGuard
  void setWireguard(Now& link) {
    for (auto& tunnel : observed.tunnels) {
      if (tunnel.link != link.link->index) continue;
      auto set = wireguardDifference(
          tunnel.link, link.want->wireguard, tunnel.device, observed.tunnelPorts, observed.now,
          [&](kj::StringPtr cause) { problem("link ", link.want->name, ": ", cause); });
      KJ_IF_MAYBE (s, set) step(link, kj::mv(*s));
      return;
    }
  }

  // --- MTU, up and down
  unsigned wantedMtu(const Now& link) {
    auto& want = *link.want;
    // The bond passes its MTU on to its members.
    if (want.master.size() > 0) {
      auto master = wantedMaster(link);
      if (master == nullptr || master->link->kind == "bond") return 0;
    }
    if (want.mtu != 0) return want.mtu;
    if (!ours(*link.link)) return firstMtu(link);
    if (want.kind == "bridge") return mtuOfPorts(link);
    if (want.kind != "vlan") return standardMtu(want.kind);
    auto parent = find(link.link->parent);
    return parent == nullptr ? 0 : parent->mtu;
  }

  // Returns the MTU of hardware before a config changed it; 0: never changed.
  unsigned firstMtu(const Now& link) const {
    for (auto& first : observed.firstMtus) {
      if (first.link == link.link->index) return first.mtu;
    }
    return 0;
  }

  // Restores the MTU of hardware that no config names any more. In a bond, hardware has the bond's
  // MTU.
  void restoreMtu(Now& link) {
    if (link.want != nullptr || link.gone || link.master != 0) return;
    unsigned mtu = firstMtu(link);
    if (mtu == 0 || mtu == link.mtu) return;
    step(link, SetLink{.index = link.link->index, .mtu = mtu});
    changeMtu(link, mtu);
  }

  // Returns the smallest MTU of the bridge's ports, which the kernel uses until a program sets
  // another; 0 while the ports change, because the bridge may follow by itself.
  unsigned mtuOfPorts(const Now& bridge) {
    if (steps.size() > 0) return 0;
    unsigned least = 0;
    for (auto& entry : byMaster.of(bridge.link->index)) {  // No port has moved yet.
      auto& port = now[entry.position];
      if (least == 0 || port.mtu < least) least = port.mtu;
    }
    return least == 0 ? kEtherMtu : least;
  }

  enum class Stage { kOthers, kVlans, kBridges };
  static Stage stageOf(const Now& link) {
    if (link.want->kind == "bridge") return Stage::kBridges;  // bridges follow their ports
    return link.want->kind == "vlan" ? Stage::kVlans : Stage::kOthers;
  }

  void setMtu(Now& link, Stage stage) {
    if (!configured(link) || stageOf(link) != stage) return;
    unsigned mtu = wantedMtu(link);
    auto parent = stage == Stage::kVlans ? find(link.link->parent) : nullptr;
    if (parent != nullptr && mtu > parent->mtu) {
      auto& name = parent->link->name;
      problem("link ", link.link->name, ": the MTU ", mtu, " is more than that of its parent ",
              name, ", so it has ", parent->mtu, "; set the MTU of ", name, ", too");
      mtu = parent->mtu;
    }
    if (mtu == 0 || mtu == link.mtu) return;
    step(link, SetLink{.index = link.link->index, .mtu = mtu});
    changeMtu(link, mtu);
  }

  // Changes the MTU as the kernel does: members of a bond get its MTU, VLANs at most their
  // parent's.
  void changeMtu(Now& link, unsigned mtu) {
    link.mtu = mtu;
    for (auto& other : now) {
      if (link.link->kind == "bond" && other.master == link.link->index) changeMtu(other, mtu);
      bool above = other.link->kind == "vlan" && other.link->parent == link.link->index;
      if (above && other.mtu > mtu) changeMtu(other, mtu);
    }
  }

  void setUp(Now& link, bool vlans) {
    if (!configured(link) || (link.want->kind == "vlan") != vlans) return;
    auto& want = *link.want;
    if (link.link->loopback()) {
      if (!want.up) problem("link ", want.name, ": loopback stays up");
      return;
    }
    auto master = find(link.master);
    bool inBond = master != nullptr && master->link->kind == "bond";
    bool up = want.up || inBond;  // the bond keeps it open
    // The link waits for its bond, which it can only join while down; not for a VRF.
    bool waits = want.master.size() > 0 && link.master == 0 && isNew(want.master);
    auto joined = wantedFor(want.master);
    if (waits && (joined == nullptr || joined->kind != "vrf")) return;
    if (up == link.up) return;
    if (up && vlans) {
      auto parent = find(link.link->parent);
      if (parent != nullptr && !parent->up) {
        problem("link ", want.name, ": the link ", parent->link->name, " below it is down");
        return;
      }
    }
    step(link, SetLink{.index = link.link->index, .up = up});
    if (up) {
      bringUp(link);
    } else {
      takeDown(link);
    }
  }
};

LinkPlanner::LinkPlanner(const Wanted& wanted, const Observed& observed, Plan& result)
    : impl(kj::heap<Impl>(wanted, observed, result)) {}
LinkPlanner::~LinkPlanner() noexcept(false) = default;

kj::Vector<Step> LinkPlanner::run() {
  return impl->run();
}
bool LinkPlanner::willBeUp(const Link& link) {
  return impl->willBeUp(link.index);
}
bool LinkPlanner::goesAway(unsigned index) {
  return impl->goesAway(index);
}
bool LinkPlanner::isNew(kj::StringPtr name) const {
  return impl->isNew(name);
}

}  // namespace talos::networkd
