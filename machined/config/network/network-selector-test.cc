// Links that are chosen by their properties.
#include "machined/config/network/network-selector.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include "machined/config/network/network-config-plan.h"
#include "machined/config/network/test-network-config.h"

namespace talos::machined {
namespace {

kj::Vector<KnownLink> machine() {
  kj::Vector<KnownLink> links;
  links.add(KnownLink{.index = 1,
                      .name = kj::str("lo"),
                      .loopback = true,
                      .hardwareAddress = kj::str("00:00:00:00:00:00")});
  auto card = [&](unsigned index, kj::StringPtr name, kj::StringPtr mac, kj::StringPtr driver,
                  kj::StringPtr bus, kj::StringPtr pci) {
    links.add(KnownLink{.index = index,
                        .name = kj::str(name),
                        .hardware = true,
                        .hardwareAddress = kj::str(mac),
                        .permanentAddress = kj::str(mac),
                        .driver = kj::str(driver),
                        .busPath = kj::str(bus),
                        .pciId = kj::str(pci)});
  };
  card(2, "eth0", "52:54:00:00:00:01", "virtio_net", "0000:00:03.0", "1af4:1000");
  card(3, "eth1", "52:54:00:00:00:02", "virtio_net", "0000:00:04.0", "1af4:1000");
  card(4, "eth2", "90:e2:ba:00:00:03", "ixgbe", "0000:01:00.0", "8086:10fb");
  // A VLAN has the address of its parent; another program made the veth.
  links.add(KnownLink{.index = 5,
                      .name = kj::str("eth0.5"),
                      .made = true,
                      .hardwareAddress = kj::str("52:54:00:00:00:01")});
  links.add(KnownLink{
      .index = 6, .name = kj::str("veth9"), .hardwareAddress = kj::str("f6:00:00:00:00:09")});
  return links;
}

// Catches: selectors that choose a link of another kind, no link where one matches, or one of many.
TEST(DeviceSelector, OneLinkOrAReason) {
  struct Row {
    const char *bus, *mac, *permanent, *pci, *driver;
    bool physical;
    const char* chosen;
  } rows[] = {
      {"0000:00:03.0", "", "", "", "", false, "eth0"},
      {"0000:01:*", "", "", "", "", false, "eth2"},
      {"", "52:54:00:00:00:01", "", "", "", false, "eth0"},
      {"", "90:E2:BA:*", "", "", "", false, "eth2"},
      {"", "", "*:02", "", "", false, "eth1"},
      {"", "", "", "8086:*", "", false, "eth2"},
      {"", "", "", "", "ix*e", false, "eth2"},
      {"0000:00:*4.*", "", "", "1af4:1000", "virtio_net", true, "eth1"},
      {"", "f6:*", "", "", "", false, "veth9"},
      {"*0:04.*", "", "", "", "", false, "eth1"},
      {"", "52:54:00:00:00:01*", "", "", "", false, "eth0"},
      {"", "00:*", "", "", "", false, "deviceSelector hardwareAddr=00:*: no such link"},
      {"", "f6:*", "", "", "", true, "deviceSelector hardwareAddr=f6:*,physical: no such link"},
      {"", "", "", "", "e1000", false, "deviceSelector driver=e1000: no such link"},
      {"", "", "", "", "virtio_net", false,
       "deviceSelector driver=virtio_net: eth0, eth1 match; add keys until only one matches"},
      {"", "", "", "", "", true,
       "deviceSelector physical: eth0, eth1, eth2 match; add keys until only one matches"},
      {"*", "", "", "", "", false,
       "deviceSelector busPath=*: eth0, eth1, eth2 match; add keys until only one matches"},
      {"0000:00:03.", "", "", "", "", false, "deviceSelector busPath=0000:00:03.: no such link"},
  };
  auto links = machine();
  for (auto& row : rows) {
    capnp::MallocMessageBuilder message;
    auto selector = message.initRoot<config::DeviceSelector>();
    selector.setBusPath(row.bus);
    selector.setHardwareAddr(row.mac);
    selector.setPermanentAddr(row.permanent);
    selector.setPciID(row.pci);
    selector.setDriver(row.driver);
    selector.setPhysical(row.physical);
    kj::String chosen;
    KJ_IF_MAYBE (name, choose(selector, links, chosen)) chosen = kj::str(*name);
    EXPECT_EQ(kj::StringPtr(row.chosen), chosen);
  }
}

// Returns a config with a driver's selector, in as many entries.
MachineText selected(kj::StringPtr driver, kj::StringPtr more = "", unsigned entries = 1) {
  kj::Vector<kj::String> texts;
  while (texts.size() < entries) {
    texts.add(kj::str("{deviceSelector: {driver: ", driver, "}, cidr: 10.0.0.2/24,",
                      " vlans: [{vlanId: 5, cidr: 10.5.0.2/24}]", more, "}"));
  }
  return MachineText(kj::str("interfaces: [", kj::strArray(texts, ", "), "]"));
}

std::string planned(const MachineText& config, kj::ArrayPtr<const KnownLink> known) {
  auto plan = planNetwork(KernelArguments(""_kj.asArray()), config.get(), known);
  kj::Vector<kj::String> parts;
  for (auto& l : plan.links) {
    auto master = l.master();
    parts.add(master.size() > 0 ? kj::str(l.name, " in ", master) : kj::str(l.name));
  }
  for (auto& a : plan.addresses) parts.add(kj::str(a.link, " ", a.prefix));
  for (auto& u : plan.unresolved) parts.add(kj::str("? ", u.selector));
  for (auto& o : plan.operators) parts.add(kj::str(o.kind, "/", o.link));
  return kj::strArray(parts, "; ").cStr();
}

// Catches: a problem before the links are known, a VLAN with an empty parent name, a choice that
// changes when the link that it made exists, a link that has no DHCP because of a wrong choice.
TEST(DeviceSelector, InAPlan) {
  EXPECT_EQ("", planned(selected("ixgbe"), nullptr));
  auto links = machine();
  EXPECT_EQ(
      "eth2; eth2.5; eth0; eth1; eth2 10.0.0.2/24; eth2.5 10.5.0.2/24; dhcp4/eth0; ra/eth0; "
      "dhcp4/eth1; ra/eth1",
      planned(selected("ixgbe"), links));
  EXPECT_EQ(
      "eth0; eth1; eth2; ? driver=e1000; dhcp4/eth0; ra/eth0; dhcp4/eth1; ra/eth1; "
      "dhcp4/eth2; ra/eth2",
      planned(selected("e1000"), links));
  EXPECT_EQ(planned(selected("e1000"), links), planned(selected("e1000", "", 2), links));
  EXPECT_EQ("eth0; eth1; dhcp4/eth0; ra/eth0; dhcp4/eth1; ra/eth1",
            planned(selected("ixgbe", ", ignore: true"), links));
}

// Catches: links that must be ignored and get DHCP, because two links match.
TEST(DeviceSelector, IgnoresWhateverItMayMean) {
  auto links = machine();
  EXPECT_EQ("eth2; dhcp4/eth2; ra/eth2", planned(selected("virtio_net", ", ignore: true"), links));
  EXPECT_EQ("eth0; eth1; eth2; dhcp4/eth0; ra/eth0; dhcp4/eth1; ra/eth1; dhcp4/eth2; ra/eth2",
            planned(selected("e1000", ", ignore: true"), links));
}

// Catches: a bond that becomes its own member, because it has the address of one; a problem before
// the links are known; members with DHCP; no problem when nothing matches.
TEST(DeviceSelector, MembersOfABond) {
  auto bonded = [](kj::StringPtr driver) {
    return MachineText(
        kj::str("interfaces: [{interface: bond0, dhcp: true, bond: {deviceSelectors: "
                "[{driver: ",
                driver, "}]}}]"));
  };
  EXPECT_EQ("bond0; dhcp4/bond0; ra/bond0", planned(bonded("virtio_net"), nullptr));
  auto links = machine();
  EXPECT_EQ("bond0; eth0 in bond0; eth1 in bond0; eth2; dhcp4/bond0; ra/bond0; dhcp4/eth2; ra/eth2",
            planned(bonded("virtio_net"), links));
  links.add(KnownLink{
      .index = 9, .name = kj::str("bond0"), .hardwareAddress = kj::str("52:54:00:00:00:01")});
  MachineText byAddress(
      "interfaces: [{interface: bond0, dhcp: true, bond: {deviceSelectors: [{hardwareAddr: "
      "'52:54:00:00:00:01'}]}}]");
  EXPECT_EQ(
      "bond0; eth0 in bond0; eth1; eth2; dhcp4/bond0; ra/bond0; dhcp4/eth1; ra/eth1; dhcp4/eth2; "
      "ra/eth2",
      planned(byAddress, links));
  auto none = planNetwork(KernelArguments(""_kj.asArray()), bonded("igb").get(), links);
  ASSERT_EQ(1u, none.unresolved.size());
  EXPECT_EQ(none.unresolved[0].problem, "bond0: no link matches the deviceSelector driver=igb"_kj);
}

}  // namespace
}  // namespace talos::machined
