#include "machined/config/network/network-hidden-values.h"

#include "common/net/text-values.h"
#include "common/netlink/netlink.h"
#include "common/text/texts.h"

namespace talos::machined {
namespace {

kj::String describeTag(kj::StringPtr parent, unsigned id, kj::StringPtr protocol) {
  auto kind = protocol == "802.1q" ? kj::String() : kj::str(" of ", protocol);
  return kj::str("VLAN ", id, kind, " on ", parent);
}

class HiddenValues {
 public:
  HiddenValues(config::Network::Reader network, kj::ArrayPtr<const KnownLink> known,
               const NetworkPlan& plan)
      : network(network), known(known), plan(plan) {}

  kj::Vector<kj::String> run() {
    for (auto entry : network.getInterfaces()) {
      if (entry.getIgnore() || entry.getSharedOnly()) continue;
      KJ_IF_MAYBE (name, linkOf(entry)) compare(*name, entry);
    }
    for (auto alias : network.getLinkAliases()) checkAlias(alias);
    return kj::mv(problems);
  }

 private:
  config::Network::Reader network;
  kj::ArrayPtr<const KnownLink> known;
  const NetworkPlan& plan;
  kj::Vector<kj::String> problems;

  // Returns the link of the entry; nullptr if no link or several match, as the planner reports.
  kj::Maybe<kj::String> linkOf(config::Interface::Reader entry) const {
    kj::String reason;
    if (!entry.hasDeviceSelector()) {
      return linkCalled(entry.getInterface(), network.getLinkAliases(), known, reason);
    }
    KJ_IF_MAYBE (name, choose(entry.getDeviceSelector(), known, reason)) return kj::str(*name);
    return nullptr;
  }

  template <typename Given, typename Used>
  void hide(kj::StringPtr link, const Given& given, const Used& used) {
    addOnce(problems, kj::str(link, ": ", given,
                              " has no effect: another entry or document of this link has ", used));
  }

  void compare(kj::StringPtr name, config::Interface::Reader entry) {
    compareValues(name, entry);
    if (entry.hasTaggedOn()) {
      auto tag = entry.getTaggedOn();
      kj::String reason;
      KJ_IF_MAYBE (parent, linkCalled(tag.getParent(), network.getLinkAliases(), known, reason)) {
        compareTag(name, describeTag(*parent, tag.getVlanId(), tag.getProtocol()));
      }
    }
    for (auto vlan : entry.getVlans()) {
      KJ_IF_MAYBE (link, vlanName(name, vlan.getVlanId())) {
        compareValues(*link, vlan);
        compareTag(*link, describeTag(name, vlan.getVlanId(), "802.1q"));
      }
    }
  }

  // Compares the MTU and the options of DHCP of a link or VLAN.
  template <typename Reader>
  void compareValues(kj::StringPtr name, Reader entry) {
    unsigned mtu = entry.getMtu();
    for (auto& link : plan.links) {
      bool hidden = link.name == name && mtu != 0 && link.mtu != 0 && link.mtu != mtu;
      if (hidden) hide(name, kj::str("mtu ", mtu), link.mtu);
    }
    if (!entry.getDhcp()) return;
    auto options = entry.getDhcpOptions();
    if (options.getIpv4()) compareDhcp(name, kDhcp4, options);
    if (options.getIpv6()) compareDhcp(name, kDhcp6, options);
  }

  void compareDhcp(kj::StringPtr name, kj::StringPtr kind, config::DhcpOptions::Reader options) {
    unsigned metric = options.getRouteMetric();
    for (auto& used : plan.operators) {
      if (used.link != name || used.kind != kind) continue;
      if (metric != 0 && metric != used.metric) {
        hide(name, kj::str("routeMetric ", metric, " of ", kind), used.metric);
      }
      if (options.getIgnoreHostname() && !used.ignoreHostname) {
        hide(name, kj::str("ignoreHostname of ", kind), "false"_kj);
      }
      auto duid = config::parseDuid(options.getDuidv6()).orDefault(nullptr);
      if (kind == kDhcp6 && duid.size() > 0 && duid != used.duid) {
        hide(name, kj::str("duidv6 ", options.getDuidv6()),
             used.duid.size() > 0 ? netlink::hardwareText(used.duid) : kj::str("none"));
      }
    }
  }

  void compareTag(kj::StringPtr name, const kj::String& given) {
    for (auto& link : plan.links) {
      if (link.name != name || link.kind() != "vlan") continue;
      auto vlan = link.spec.get().getVlan();
      auto used = describeTag(link.parent(), vlan.getVlanID(), vlan.getVlanProtocol());
      if (given != used) hide(name, given, used);
    }
  }

  // Reports an alias whose name a link has, unless the alias selects this link.
  void checkAlias(config::LinkAlias::Reader alias) {
    kj::StringPtr name = alias.getName();
    for (auto& link : known) {
      if (link.name != name) continue;
      auto selected = selectedBy(alias, known);
      if (selected.size() == 1 && selected[0] == name) return;
      problems.add(kj::str("LinkAliasConfig ", name,
                           ": has no effect, because a link has this name; use another name"));
    }
  }
};

}  // namespace

kj::Vector<kj::String> hiddenValues(config::Network::Reader network,
                                    kj::ArrayPtr<const KnownLink> known, const NetworkPlan& plan) {
  return HiddenValues(network, known, plan).run();
}

}  // namespace talos::machined
