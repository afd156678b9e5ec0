// Entries and documents of one link that set different values.
#include "machined/config/network/network-hidden-values.h"

#include <gtest/gtest.h>

#include <string>

#include "machined/config/network/test-network-config.h"

namespace talos::machined {
namespace {

constexpr auto kAlias =
    "kind: LinkAliasConfig, name: up0, selector: {match: 'link.driver == \"e1000e\"'}";

// Returns the problems of the plan for eth0 (driver e1000e) and eth1 (igb), one a line.
// `interfaces`: the items of machine.network.interfaces; `documents`: each without apiVersion.
std::string problemsOf(const std::string& interfaces,
                       std::initializer_list<const char*> documents = {}) {
  std::string text = "machine: {type: controlplane, network: {interfaces: [" + interfaces + "]}}\n";
  for (auto document : documents) {
    text += std::string("---\n{apiVersion: v1alpha1, ") + document + "}\n";
  }
  MachineText machine(config::parse(kj::arrayPtr(text.data(), text.size())));
  kj::Vector<KnownLink> known;
  for (auto driver : {"e1000e"_kj, "igb"_kj}) {
    auto number = known.size();
    known.add(KnownLink{.index = static_cast<unsigned>(number + 2),
                        .name = kj::str("eth", number),
                        .hardware = true,
                        .driver = kj::str(driver)});
  }
  auto plan = planNetwork(KernelArguments(""_kj.asArray()), machine.get(), known);
  return kj::strArray(plan.problems, "\n").cStr();
}

// Catches: an MTU of the same card under another name that is lost without a word; a problem of
// equal values, or of two cards.
TEST(HiddenNetworkValues, TheMtuOfASecondEntry) {
  auto lost = "eth0: mtu 9000 has no effect: another entry or document of this link has 1400";
  EXPECT_EQ(lost, problemsOf("{interface: eth0, mtu: 1400}, {interface: eth0, mtu: 9000}"));
  EXPECT_EQ(lost, problemsOf("{interface: eth0, mtu: 1400},"
                             " {deviceSelector: {driver: e1000e}, mtu: 9000}"));
  EXPECT_EQ(lost, problemsOf("{interface: eth0, mtu: 1400}",
                             {kAlias, "kind: LinkConfig, name: up0, mtu: 9000"}));
  EXPECT_EQ(lost, problemsOf("{deviceSelector: {driver: e1000e}, mtu: 1400}",
                             {"kind: LinkConfig, name: eth0, mtu: 9000"}));
  EXPECT_EQ("", problemsOf("{interface: eth0, mtu: 9000}",
                           {kAlias, "kind: LinkConfig, name: up0, mtu: 9000"}));
  EXPECT_EQ("", problemsOf("{interface: eth0, mtu: 1400}, {deviceSelector: {driver: igb}, mtu: "
                           "9000}, {deviceSelector: {driver: e1000e}}"));
}

// Catches: an option of DHCP that is lost; a problem of the other family, or of a link with the
// option in its first entry.
TEST(HiddenNetworkValues, OptionsOfDhcpOfASecondEntry) {
  auto selected = "{deviceSelector: {driver: e1000e}, dhcp: true}";
  EXPECT_EQ(
      "eth0: routeMetric 300 of dhcp4 has no effect: another entry or document of this link has "
      "1024\neth0: ignoreHostname of dhcp4 has no effect: another entry or document of this link "
      "has false",
      problemsOf(selected,
                 {"kind: DHCPv4Config, name: eth0, routeMetric: 300, ignoreHostname: true"}));
  EXPECT_EQ("", problemsOf(selected, {"kind: DHCPv6Config, name: eth0, routeMetric: 300"}));
  EXPECT_EQ("", problemsOf("{deviceSelector: {driver: e1000e}, dhcp: true, dhcpOptions: "
                           "{routeMetric: 7}}, {interface: eth0, dhcp: true}"));
  auto twice = [](const char* first, const char* second) {
    return problemsOf(kj::str("{interface: eth0, dhcp: true, dhcpOptions: {ipv6: true", first,
                              "}}, {interface: eth0, dhcp: true, dhcpOptions: {ipv6: true", second,
                              "}}")
                          .cStr());
  };
  EXPECT_EQ("eth0: duidv6 0002cd has no effect: another entry or document of this link has none",
            twice("", ", duidv6: 0002cd"));
  EXPECT_EQ("", twice(", duidv6: 0002cd", ", duidv6: '00:02:cd'"));
}

// Catches: a VLAN of the main document that loses its MTU or its tag to a document, or the document
// to it, without a word; a tag that two entries give alike.
TEST(HiddenNetworkValues, AVlanWithADocument) {
  auto below = "{deviceSelector: {driver: e1000e}, vlans: [{vlanId: 5, mtu: 1400}]}";
  EXPECT_EQ("eth0.5: mtu 1300 has no effect: another entry or document of this link has 1400",
            problemsOf(below, {"kind: LinkConfig, name: eth0.5, mtu: 1300"}));
  EXPECT_EQ("", problemsOf("{interface: eth0, vlans: [{vlanId: 5, mtu: 1400}]}",
                           {"kind: LinkConfig, name: eth0.5, mtu: 1300"}))
      << "the document replaces it";
  EXPECT_EQ(
      "eth0.5: VLAN 5 on eth0 has no effect: another entry or document of this link has VLAN 7 of "
      "802.1ad on eth1",
      problemsOf(below, {"kind: VLANConfig, name: eth0.5, vlanID: 7, parent: eth1, vlanMode: "
                         "802.1ad"}));
  EXPECT_EQ("",
            problemsOf(below, {kAlias, "kind: VLANConfig, name: eth0.5, vlanID: 5, parent: up0"}));
}

// Catches: documents for an alias that configure another link, without a word; a problem of an
// alias that names its link as it is named, or of a name that no link has.
TEST(HiddenNetworkValues, AnAliasWithTheNameOfALink) {
  auto problem =
      "LinkAliasConfig eth0: has no effect, because a link has this name; use another name";
  auto other = "kind: LinkAliasConfig, name: eth0, selector: {match: 'link.driver == \"igb\"'}";
  EXPECT_EQ(problem, problemsOf("", {other}));
  EXPECT_EQ(problem, problemsOf("", {other, "kind: LinkConfig, name: eth0, mtu: 1400"}));
  EXPECT_EQ(problem, problemsOf("", {"kind: LinkAliasConfig, name: eth0, selector: {match: "
                                     "'glob(\"*\", link.driver)'}"}))
      << "both links";
  EXPECT_EQ("", problemsOf("", {"kind: LinkAliasConfig, name: eth0, selector: {match: 'link.driver "
                                "== \"e1000e\"'}"}));
  EXPECT_EQ("", problemsOf("", {kAlias}));
}

}  // namespace
}  // namespace talos::machined
