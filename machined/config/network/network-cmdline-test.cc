// Bonds and VLANs of the kernel's command line, alone and together with the config.
#include "machined/config/network/network-cmdline.h"

#include <capnp/message.h>
#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/yaml/yaml-codec.h"
#include "machined/config/network/network-config-plan.h"
#include "machined/config/network/test-network-config.h"

namespace talos::machined {
namespace {

// Returns "bond0 mtu 9000 {...}; problem" for one parameter.
std::string bondOf(kj::StringPtr text) {
  kj::Vector<kj::String> problems;
  kj::String shown = kj::str("none");
  KJ_IF_MAYBE (bond, parseBondParameter(text, problems)) {
    shown = kj::str(bond->name, bond->mtu == 0 ? kj::str() : kj::str(" mtu ", bond->mtu), " ",
                    codec::writeJson(capnp::DynamicStruct::Reader(bond->bond.get()),
                                     {.indent = 0, .empties = codec::Empties::kOmit}));
  }
  for (auto& problem : problems) shown = kj::str(shown, "\n", problem);
  while (shown.endsWith("\n")) shown = kj::heapString(shown.slice(0, shown.size() - 1));
  return shown.cStr();
}

// Catches: options that are read as others, unknown numbers of the driver, a bond that is lost
// because of one wrong option.
TEST(Cmdline, BondsAsDracutHasThem) {
  struct {
    const char *text, *shown;
  } rows[] = {
      {"", R"(bond0 {"interfaces":["eth0","eth1"],"mode":"balance-rr"})"},
      {"bond1", R"(bond1 {"interfaces":["eth0","eth1"],"mode":"balance-rr"})"},
      {"bond0:eth2,eth3", R"(bond0 {"interfaces":["eth2","eth3"],"mode":"balance-rr"})"},
      {"bond0:eth0:mode=802.3ad,miimon=100,lacp_rate=1,xmit_hash_policy=layer3+4",
       R"(bond0 {"interfaces":["eth0"],"mode":"802.3ad","miimon":100,)"
       R"("xmitHashPolicy":"layer3+4","lacpRate":"fast"})"},
      {"bond0:eth0,eth1:mode=1,primary=eth1,use_carrier=0,num_grat_arp=3,peer_notif_delay=100:1400",
       R"(bond0 mtu 1400 {"interfaces":["eth0","eth1"],"mode":"active-backup","useCarrier":false,)"
       R"("primary":"eth1","numPeerNotif":3,"peerNotifyDelay":100})"},
      {"bond0:eth0:arp_interval=100,arp_ip_target=10.0.0.1;10.0.0.2",
       R"(bond0 {"interfaces":["eth0"],"mode":"balance-rr","arpInterval":100,)"
       R"("arpIPTarget":["10.0.0.1","10.0.0.2"]})"},
      {"bond0:eth0::9000", R"(bond0 mtu 9000 {"interfaces":["eth0"],"mode":"balance-rr"})"},
      {"bond0:eth0:mode=fast,miimon=100",
       "bond0 {\"interfaces\":[\"eth0\"],\"mode\":\"balance-rr\",\"miimon\":100}\n"
       "bond=bond0:eth0:mode=fast,miimon=100: mode=fast: \"fast\" is not a valid bonding mode; use "
       "one "
       "of balance-rr, active-backup, balance-xor, broadcast, 802.3ad, balance-tlb, balance-alb"},
      {"bond0:eth0:mode=9",
       "bond0 {\"interfaces\":[\"eth0\"],\"mode\":\"balance-rr\"}\n"
       "bond=bond0:eth0:mode=9: mode=9: \"9\" is not a valid bonding mode; use one of balance-rr, "
       "active-backup, balance-xor, broadcast, 802.3ad, balance-tlb, balance-alb"},
      {"bond0:eth0:use_carrier=2",
       "bond0 {\"interfaces\":[\"eth0\"],\"mode\":\"balance-rr\"}\n"
       "bond=bond0:eth0:use_carrier=2: use_carrier=2: \"2\" is neither true nor false"},
      {"bond0:eth0:color=blue",
       "bond0 {\"interfaces\":[\"eth0\"],\"mode\":\"balance-rr\"}\n"
       "bond=bond0:eth0:color=blue: color=blue: not a valid option of bonds"},
      {"bond0:eth0:interfaces=eth7,miimon",
       "bond0 {\"interfaces\":[\"eth0\"],\"mode\":\"balance-rr\"}\n"
       "bond=bond0:eth0:interfaces=eth7,miimon: interfaces=eth7: not a valid option of bonds\n"
       "bond=bond0:eth0:interfaces=eth7,miimon: miimon: use name=value, for example mode=802.3ad"},
      {"bond0:eth0:primary=}",
       "bond0 {\"interfaces\":[\"eth0\"],\"mode\":\"balance-rr\"}\n"
       "bond=bond0:eth0:primary=}: primary=}: \"}\" is not a valid value"},
      {"bond0:eth0,bond0,a/b:",
       "bond0 {\"interfaces\":[\"eth0\"],\"mode\":\"balance-rr\"}\n"
       "bond=bond0:eth0,bond0,a/b:: \"bond0\" is not a valid member of bond0\n"
       "bond=bond0:eth0,bond0,a/b:: \"a/b\" is not a valid member of bond0"},
      {"bond0:eth0::40",
       "bond0 {\"interfaces\":[\"eth0\"],\"mode\":\"balance-rr\"}\n"
       "bond=bond0:eth0::40: \"40\" is not a valid MTU; must be 68 to 65536"},
      {"bond0:eth0:::x",
       "bond0 {\"interfaces\":[\"eth0\"],\"mode\":\"balance-rr\"}\n"
       "bond=bond0:eth0:::x: too many fields; use name:links:options:MTU"},
      {"a/b", "none\nbond=a/b: \"a/b\" is not a valid link name"},
  };
  for (auto& row : rows) EXPECT_EQ(row.shown, bondOf(row.text)) << row.text;
}

TEST(Cmdline, VlansAsDracutHasThem) {
  struct {
    const char *text, *shown;
  } rows[] = {
      {"eth0.5:eth0", "eth0.5 on eth0 is 5"},
      {"eth0.0005:eth0", "eth0.0005 on eth0 is 5"},
      {"vlan7:bond0", "vlan7 on bond0 is 7"},
      {"vlan4094:eth0", "vlan4094 on eth0 is 4094"},
      {"eth0.5", "vlan=eth0.5: use name:link, for example vlan=eth0.5:eth0"},
      {"eth0.5:eth0:x", "vlan=eth0.5:eth0:x: use name:link, for example vlan=eth0.5:eth0"},
      {"eth1.5:eth0",
       "vlan=eth1.5:eth0: \"eth1.5\" has no VLAN ID; use for example eth0.5 or vlan5"},
      {"storage:eth0",
       "vlan=storage:eth0: \"storage\" has no VLAN ID; use for example eth0.5 or vlan5"},
      {"vlan:eth0", "vlan=vlan:eth0: \"vlan\" has no VLAN ID; use for example eth0.5 or vlan5"},
      {"vlan00005:eth0",
       "vlan=vlan00005:eth0: \"vlan00005\" has no VLAN ID; use for example eth0.5 or vlan5"},
      {"vlan99999999999:eth0",
       "vlan=vlan99999999999:eth0: \"vlan99999999999\" has no VLAN ID; use for example eth0.5 "
       "or "
       "vlan5"},
      {"vlan4095:eth0", "vlan=vlan4095:eth0: 4095 is not a valid VLAN ID; must be 0 to 4094"},
      {"eth0.5:", "vlan=eth0.5:: \"\" is not a valid link name"},
  };
  for (auto& row : rows) {
    kj::Vector<kj::String> problems;
    auto shown = kj::str();
    KJ_IF_MAYBE (vlan, parseVlanParameter(row.text, problems)) {
      shown = kj::str(vlan->name, " on ", vlan->parent, " is ", vlan->id);
    }
    EXPECT_EQ(row.shown, std::string(kj::str(shown, kj::strArray(problems, "\n")).cStr()));
  }
}

// Returns links with their kind and layer, addresses and operators.
std::string planned(kj::StringPtr cmdline, kj::Maybe<const MachineText&> machine = nullptr) {
  kj::Vector<KnownLink> known;
  unsigned index = 0;
  for (auto name : {"lo"_kj, "eth0"_kj, "eth1"_kj, "eth2"_kj}) {
    ++index;
    known.add(KnownLink{index, kj::str(name), index == 1, index > 1});
  }
  auto plan = planNetwork(KernelArguments(cmdline.asArray()),
                          machine.map([](auto& text) { return text.get(); }), known);
  kj::Vector<kj::String> parts;
  for (auto& l : plan.links) {
    parts.add(kj::str(l.name, l.kind().size() > 0 ? ":" : "", l.kind(),
                      l.master().size() > 0 ? ">" : "", l.master(),
                      l.parent().size() > 0 ? "^" : "", l.parent(), " ", l.layer));
  }
  for (auto& a : plan.addresses) parts.add(kj::str(a.link, " ", a.prefix));
  for (auto& o : plan.operators) parts.add(kj::str(o.kind, "/", o.link));
  for (auto& p : plan.problems) parts.add(kj::str("! ", p));
  return kj::strArray(parts, "; ").cStr();
}

// Catches: DHCP on the links of a bond, an address on the wrong link, a machine without DHCP
// because all its links are in a bond.
TEST(Cmdline, WhatStandsOnABond) {
  EXPECT_EQ(
      "bond0:bond cmdline; eth0>bond0 cmdline; eth1>bond0 cmdline; eth2 default; "
      "dhcp4/bond0; ra/bond0; dhcp4/eth2; ra/eth2",
      planned("bond"));
  EXPECT_EQ(
      "bond0:bond cmdline; eth0>bond0 cmdline; eth1>bond0 cmdline; "
      "bond0.5:vlan^bond0 cmdline; eth2 default; bond0.5 10.0.0.2/24; dhcp4/eth2; ra/eth2",
      planned("bond=bond0:eth0,eth1:mode=802.3ad vlan=bond0.5:bond0 "
              "ip=10.0.0.2:::255.255.255.0::bond0.5"));
  EXPECT_EQ(
      "bond0:bond cmdline; eth0>bond0 cmdline; eth1 cmdline; eth2 default; eth1 10.0.0.2/24; "
      "dhcp4/bond0; ra/bond0; dhcp4/eth2; ra/eth2",
      planned("bond=bond0:eth0 ip=10.0.0.2:::255.255.255.0"));
  EXPECT_EQ(
      "bond0:bond cmdline; eth0>bond0 cmdline; eth1 default; eth2 default; "
      "dhcp4/bond0; ra/bond0; dhcp4/eth1; ra/eth1; dhcp4/eth2; ra/eth2; "
      "! bond0: its link eth9 is set to be ignored and is left out",
      planned("bond=bond0:eth0,eth9 talos.network.interface.ignore=eth9"));
}

// Catches: a command line that takes precedence over the config.
TEST(Cmdline, ConfigHasPrecedenceOverTheCommandLine) {
  auto with = [](kj::StringPtr bond0) {
    return MachineText(kj::str("interfaces: [{interface: bond0, cidr: 10.0.0.9/24", bond0,
                               "}, {interface: eth1, cidr: 10.1.0.9/24}]"));
  };
  EXPECT_EQ(
      "bond0:dummy configuration; eth1 configuration; eth0 default; eth2 default; "
      "bond0 10.0.0.9/24; eth1 10.1.0.9/24; dhcp4/eth0; ra/eth0; dhcp4/eth2; ra/eth2",
      planned("bond=bond0:eth0,eth1", with(", dummy: true")));
  EXPECT_EQ(
      "bond0:bond configuration; eth1 configuration; eth0>bond0 cmdline; eth2 default; "
      "bond0 10.0.0.9/24; eth1 10.1.0.9/24; dhcp4/eth2; ra/eth2; "
      "! bond0: its link eth1 has its own config and is left out",
      planned("bond=bond0:eth0,eth1", with("")));
  auto ignored = with(", ignore: true");
  EXPECT_EQ(
      "eth1 configuration; eth0 default; eth2 default; eth1 10.1.0.9/24; dhcp4/eth0; "
      "ra/eth0; dhcp4/eth2; ra/eth2",
      planned("bond=bond0:eth0,eth1", ignored));
  EXPECT_EQ(planned("", ignored), planned("vlan=bond0.5:bond0", ignored));
}

}  // namespace
}  // namespace talos::machined
