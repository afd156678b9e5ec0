#include "talosctl/views/link-tree.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

namespace talos::talosctl {
namespace {

struct Links {
  kj::Vector<kj::Own<capnp::MallocMessageBuilder>> messages;
  kj::Vector<DrawnLink> links;
  rpc::LinkStatusSpec::Builder add(kj::StringPtr name, kj::StringPtr kind, unsigned index,
                                   unsigned master = 0, unsigned parent = 0) {
    auto& message = *messages.add(kj::heap<capnp::MallocMessageBuilder>());
    auto spec = message.initRoot<rpc::LinkStatusSpec>();
    spec.setKind(kind);
    spec.setType("ether");
    spec.setIndex(index);
    spec.setMasterIndex(master);
    spec.setLinkIndex(parent);
    spec.setOperationalState("up");
    spec.setMtu(1500);
    links.add(DrawnLink{name, spec.asReader()});
    return spec;
  }
};

// Catches: members beside their bond, VLANs under the wrong link, a link that is drawn twice or not
// at all.
TEST(LinkTree, MembersAndVlansStandUnderTheirLinks) {
  Links l;
  l.add("eth1", "", 3, 4).initBondMember().setState("backup");
  l.add("eth0", "", 2, 4);
  l.add("bond0", "bond", 4).initBondMaster().setMode(config::BondMode::LACP);
  l.add("bond0.7", "vlan", 5, 6, 4).initVlan().setVlanID(7);  // in the bridge, on top of the bond
  l.add("br0", "bridge", 6);
  l.add("bond0.8", "vlan", 7, 0, 4).initVlan().setVlanID(8);
  l.add("left", "veth", 8, 0, 9);
  l.add("right", "veth", 9, 0, 8);
  EXPECT_STREQ(drawLinks(l.links).cStr(),
               "bond0        bond       up             mtu 1500                      802.3ad\n"
               "├─ eth0      ether      up             mtu 1500\n"
               "├─ eth1      ether      up             mtu 1500                      backup,\n"
               "└─ bond0.8   vlan       up             mtu 1500                      id 8\n"
               "br0          bridge     up             mtu 1500\n"
               "└─ bond0.7   vlan       up             mtu 1500                      id 7\n"
               "left         veth       up             mtu 1500\n"
               "right        veth       up             mtu 1500\n");
}

// Catches: an endless loop, or an empty drawing, for links of a faulty or hostile node.
TEST(LinkTree, LinksThatStandOnEachOtherAreDrawnOnce) {
  Links l;
  l.add("a", "vlan", 1, 2);
  l.add("b", "vlan", 2, 1);
  l.add("self", "vlan", 3, 3);
  auto text = drawLinks(l.links);
  size_t lines = 0;
  for (char c : text) lines += c == '\n';
  EXPECT_EQ(lines, 3u) << text.cStr();
}

// Catches: a hostile node that sends escape sequences to the terminal in other fields than the
// name.
TEST(LinkTree, NoFieldReachesTheTerminalAsItCame) {
  constexpr kj::StringPtr kHostile = "\033[2J\n"_kj;
  Links l;
  auto spec = l.add(kHostile, kHostile, 1);
  spec.setOperationalState(kHostile);
  spec.setHardwareAddress(kHostile);
  spec.initBondMaster().setPrimary(kHostile);
  spec.initBondMember().setState(kHostile);
  spec.getBondMember().setMiiStatus(kHostile);
  auto text = drawLinks(l.links);
  EXPECT_EQ(text.findFirst('\033'), nullptr) << text.cStr();
  EXPECT_EQ(KJ_ASSERT_NONNULL(text.findFirst('\n')), text.size() - 1) << text.cStr();
  auto typed = l.add("eth0", "", 2);
  typed.setType(kHostile);
  EXPECT_EQ(drawLinks(l.links).findFirst('\033'), nullptr);
}

}  // namespace
}  // namespace talos::talosctl
