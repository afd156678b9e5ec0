// Parts of network-config-plan.h: what members of bonds and bridges lose, metrics of routes, and
// routing rules.

#include "common/net/ip.h"
#include "common/netlink/netlink-rule.h"
#include "machined/config/network/network-config-plan.h"

namespace talos::machined {
namespace {

// Returns the bond or bridge of the link; empty without one. A VRF leaves its members their
// addresses.
kj::StringPtr ownerOf(const NetworkPlan& plan, kj::StringPtr name) {
  kj::StringPtr master;
  KJ_IF_MAYBE (link, plan.find(name)) master = link->master();
  KJ_IF_MAYBE (owner, plan.find(master)) {
    if (owner->kind() == "vrf") return "";
  }
  return master;
}

}  // namespace

kj::Maybe<const NetworkPlan::Link&> NetworkPlan::find(kj::StringPtr link) const {
  for (auto& planned : links) {
    if (planned.name == link) return planned;
  }
  return nullptr;
}

void dropAddressesOfMembers(NetworkPlan& plan) {
  auto problem = [&](auto&&... parts) { plan.problems.add(kj::str(parts...)); };
  kj::Vector<NetworkPlan::Address> addresses;
  for (auto& address : plan.addresses) {
    auto master = ownerOf(plan, address.link);
    if (master.size() == 0) {
      addresses.add(kj::mv(address));
    } else {
      problem(address.link, ": is part of ", master, " and cannot have the address ",
              address.prefix);
    }
  }
  plan.addresses = kj::mv(addresses);
  kj::Vector<NetworkPlan::Operator> operators;
  for (auto& requested : plan.operators) {
    auto master = ownerOf(plan, requested.link);
    if (master.size() == 0) {
      operators.add(kj::mv(requested));
    } else if (requested.kind != kRouters) {
      problem(requested.link, ": is part of ", master, " and cannot use DHCP");
    }
  }
  plan.operators = kj::mv(operators);
  kj::Vector<NetworkPlan::Vip> vips;
  for (auto& vip : plan.vips) {
    auto master = ownerOf(plan, vip.link);
    if (master.size() == 0) {
      vips.add(kj::mv(vip));
    } else {
      problem(vip.link, ": is part of ", master, " and cannot have the shared address ",
              vip.address);
    }
  }
  plan.vips = kj::mv(vips);
}

bool isTaken(const NetworkPlan& plan, const Prefix& destination, unsigned metric,
             kj::StringPtr link) {
  for (auto& route : plan.routes) {
    bool same = route.table == 0 && route.destination == destination && route.metric == metric;
    if (same && route.link != link) return true;
  }
  return false;
}

namespace {

void fillRule(rpc::RoutingRuleSpecSpec::Builder out, config::RoutingRule::Reader rule, int family) {
  out.setFamily(family == AF_INET ? "inet4"_kj : "inet6"_kj);
  out.setPriority(rule.getPriority());
  out.setSource(rule.getSource());
  out.setDestination(rule.getDestination());
  out.setAction(rule.getAction());
  if (rule.getAction() == config::RuleAction::UNICAST) {
    out.setTable(netlink::tableName(rule.getTable()));
  }
  out.setInLinkName(rule.getInLinkName());
  out.setOutLinkName(rule.getOutLinkName());
  out.setFwMark(rule.getFwMark());
  out.setFwMask(rule.getFwMask());
  out.setLayer(kLayerConfiguration);
}

}  // namespace

void planRules(NetworkPlan& plan, config::Network::Reader network) {
  for (auto rule : network.getRoutingRules()) {
    bool any = rule.getSource().size() == 0 && rule.getDestination().size() == 0;
    bool six = false;
    for (kj::StringPtr text : {rule.getSource(), rule.getDestination()}) {
      KJ_IF_MAYBE (prefix, Prefix::parse(text)) six = six || prefix->address.family() == AF_INET6;
    }
    for (int family : {AF_INET, AF_INET6}) {
      if (!any && six != (family == AF_INET6)) continue;
      plan.rules.add();
      fillRule(plan.rules.back().edit(), rule, family);
    }
  }
}

}  // namespace talos::machined
