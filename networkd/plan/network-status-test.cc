#include "networkd/plan/network-status.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <linux/if_addr.h>

#include "common/netlink/model/test-kernel.h"
#include "common/netlink/test-netlink.h"
#include "common/testing/test-ip.h"

namespace talos::networkd {
namespace {

using netlink::TestKernel;

Observed observeStatus(TestKernel& kernel) {
  return {kernel.links(), kernel.addresses(), kernel.routes(), true};
}
kj::String ids(const Records& records) {
  kj::Vector<kj::String> result;
  for (auto& entry : records) result.add(kj::str(entry.key));
  return kj::strArray(result, " ");
}
kj::String text(const kj::Vector<Ip>& list) {
  return kj::strArray(KJ_MAP(each, list) { return each.toString(); }, " ");
}
template <typename Spec>
typename Spec::Reader at(Records& records, kj::StringPtr id) {
  return KJ_ASSERT_NONNULL(records.find(id), id)->template getRoot<Spec>().asReader();
}

// Catches: ids or fields other than `get links`, `get addresses` and `get routes` document.
TEST(Status, ViewsOfAnOrdinaryMachine) {
  TestKernel kernel;
  unsigned eth0 = kernel.plug("eth0");
  netlink::setUp(kernel, 1);
  netlink::setUp(kernel, eth0);
  netlink::addAddress(kernel, eth0, prefix("10.5.0.2/24"));
  netlink::change(kernel, netlink::AddRoute{{.destination = Prefix::all(AF_INET),
                                             .gateway = ip("10.5.0.1"),
                                             .link = eth0,
                                             .metric = 10,
                                             .protocol = kMark}});
  auto observed = observeStatus(kernel);

  auto links = linkStatuses(observed);
  EXPECT_STREQ(ids(links).cStr(), "eth0 lo");
  auto link = at<rpc::LinkStatusSpec>(links, "eth0");
  EXPECT_STREQ(link.getType().cStr(), "ether");
  EXPECT_STREQ(link.getHardwareAddress().cStr(), "52:54:00:00:00:02");
  EXPECT_STREQ(link.getOperationalState().cStr(), "up");
  EXPECT_TRUE(link.getLinkState());

  auto addresses = addressStatuses(observed);
  EXPECT_STREQ(ids(addresses).cStr(),
               "eth0/10.5.0.2/24 eth0/fe80::5054:ff:fe00:2/64 lo/127.0.0.1/8 lo/::1/128");

  auto routes = routeStatuses(observed);
  EXPECT_TRUE(routes.find("10.5.0.1/"_kj) != nullptr) << ids(routes).cStr();
  EXPECT_TRUE(routes.find("/10.5.0.0/24"_kj) != nullptr) << ids(routes).cStr();
  EXPECT_STREQ(at<rpc::RouteStatusSpec>(routes, "10.5.0.1/").getProtocol().cStr(), "talos");
  EXPECT_TRUE(hasDefaultRoute(observed));
}

// Catches: properties of a bond, its members, a VLAN or a tunnel that are wrong, or of another
// link.
TEST(Status, LinksAreShownWithWhatTheyAre) {
  using O = netlink::BondOption;
  TestKernel kernel;
  unsigned eth0 = kernel.plug("eth0");
  netlink::BondOptions options;
  options[O::kMode] = 1;
  options[O::kMiimon] = 100;
  unsigned bond = netlink::addLink(kernel, "bond0", netlink::Bond{options});
  netlink::setMaster(kernel, eth0, bond);
  options = {};
  options[O::kPrimary] = eth0;
  netlink::change(kernel, netlink::SetBond{bond, options});
  netlink::addLink(kernel, "bond0.7", netlink::Vlan{bond, 7, 0x88a8});
  unsigned wg = netlink::addLink(kernel, "wg0", netlink::Wireguard{});
  netlink::change(kernel, netlink::SetWireguard{.index = wg, .listenPort = 51820});

  auto links = linkStatuses(networkd::observe(kernel, true, 0));
  auto shown = at<rpc::LinkStatusSpec>(links, "bond0");
  EXPECT_TRUE(shown.getBondMaster().getMode() == config::BondMode::ACTIVE_BACKUP);
  EXPECT_EQ(shown.getBondMaster().getMiimon(), 100u);
  EXPECT_STREQ(shown.getBondMaster().getPrimary().cStr(), "eth0");
  EXPECT_STREQ(shown.getBondMaster().getInterfaces()[0].cStr(), "eth0");
  EXPECT_FALSE(shown.hasVlan() || shown.hasWireguard() || shown.hasBondMember());
  auto member = at<rpc::LinkStatusSpec>(links, "eth0");
  EXPECT_EQ(member.getMasterIndex(), bond);
  EXPECT_STREQ(member.getMemberKind().cStr(), "bond");
  EXPECT_STREQ(member.getBondMember().getState().cStr(), "active");
  EXPECT_FALSE(member.hasBondMaster());
  auto vlan = at<rpc::LinkStatusSpec>(links, "bond0.7");
  EXPECT_EQ(vlan.getLinkIndex(), bond);
  EXPECT_EQ(vlan.getVlan().getVlanID(), 7);
  EXPECT_STREQ(vlan.getVlan().getVlanProtocol().cStr(), "802.1ad");
  EXPECT_EQ(at<rpc::LinkStatusSpec>(links, "wg0").getWireguard().getListenPort(), 51820);
}

// Catches: a table that is not shown, or a route of a VRF in the place of the main table's; a peer
// that is not the other end.
TEST(Status, TablesAndPeersAreShown) {
  TestKernel kernel;
  unsigned eth0 = kernel.plug("eth0"), eth1 = kernel.plug("eth1");
  unsigned red = netlink::addLink(kernel, "red", netlink::Vrf{77});
  netlink::setMaster(kernel, eth1, red);
  for (unsigned index : {eth0, eth1, red}) netlink::setUp(kernel, index);
  netlink::addAddress(kernel, eth0, prefix("10.5.0.2/24"));
  netlink::addAddress(kernel, eth1, prefix("10.5.0.3/24"));
  netlink::change(kernel, netlink::AddRoute{{.destination = Prefix::all(AF_INET),
                                             .gateway = ip("10.5.0.1"),
                                             .link = eth1,
                                             .table = 77}});
  unsigned va = netlink::addVeth(kernel, "va", "vb");
  auto observed = networkd::observe(kernel, true, 0);
  auto routes = routeStatuses(observed);
  EXPECT_STREQ(at<rpc::RouteStatusSpec>(routes, "/10.5.0.0/24").getTable().cStr(), "main");
  EXPECT_STREQ(at<rpc::RouteStatusSpec>(routes, "/10.5.0.0/24").getLinkName().cStr(), "eth0");
  EXPECT_STREQ(at<rpc::RouteStatusSpec>(routes, "77//10.5.0.0/24").getTable().cStr(), "77");
  EXPECT_STREQ(at<rpc::RouteStatusSpec>(routes, "77/10.5.0.1/").getLinkName().cStr(), "eth1");
  EXPECT_FALSE(hasDefaultRoute(observed));  // of the node itself
  auto links = linkStatuses(observed);
  EXPECT_STREQ(at<rpc::LinkStatusSpec>(links, "red").getVrfMaster().getTable().cStr(), "77");
  EXPECT_STREQ(at<rpc::LinkStatusSpec>(links, "eth1").getMemberKind().cStr(), "vrf");
  EXPECT_STREQ(at<rpc::LinkStatusSpec>(links, "vb").getVeth().getPeerName().cStr(), "va");
  EXPECT_EQ(at<rpc::LinkStatusSpec>(links, "vb").getLinkIndex(), va);
  EXPECT_FALSE(at<rpc::LinkStatusSpec>(links, "eth0").hasVeth());
}

// Catches: an empty plan that looks like remaining work, and a retry that is not reported.
TEST(Status, WhatIsUndoneIsShownAndNothingElse) {
  EXPECT_STREQ(ids(records(Undone())).cStr(), "");
  Undone undone;
  undone.steps.add(kj::str("set link 2 up"));
  undone.retry = 1500 * kj::MILLISECONDS;
  auto plans = records(undone);
  auto next = at<rpc::LinkPlanSpec>(plans, "next");
  EXPECT_STREQ(next.getSteps()[0].cStr(), "set link 2 up");
  EXPECT_STREQ(next.getRetry().cStr(), "1500ms");
}

// Catches: two routes with one id, of which the store would keep only one.
TEST(Status, RoutesThatShareAnIdAreBothThere) {
  TestKernel kernel;
  for (auto name : {"eth0", "eth1"}) netlink::setUp(kernel, kernel.plug(name));
  auto observed = observeStatus(kernel);
  auto routes = routeStatuses(observed);
  EXPECT_STREQ(ids(routes).cStr(), "/fe80::/64/eth0/256 /fe80::/64/eth1/256");
}

// Catches: offering addresses that no other node can reach.
TEST(Status, NodeAddressesAreThoseThatOthersCanUse) {
  TestKernel kernel;
  netlink::setUp(kernel, 1);
  unsigned eth1 = kernel.plug("eth1"), eth0 = kernel.plug("eth0"), down = kernel.plug("eth9");
  for (unsigned index : {eth0, eth1}) netlink::setUp(kernel, index);
  netlink::addAddress(kernel, eth1, prefix("10.0.0.9/24"));
  netlink::addAddress(kernel, eth0, prefix("10.5.0.20/24"));
  netlink::addAddress(kernel, eth0, prefix("10.5.0.3/24"));
  netlink::addAddress(kernel, down, prefix("10.7.0.1/24"));
  netlink::change(kernel,
                  netlink::AddAddress{
                      {.link = eth0, .prefix = prefix("fd00::1/64"), .flags = IFA_F_TENTATIVE}});
  // Every node has the address of its resolver.
  netlink::addAddress(kernel, 1, prefix("fd54:616c:6f73::204f:5320:444e:531/128"));
  // A shared address would identify another node tomorrow.
  netlink::change(kernel, netlink::AddAddress{.address = {.link = eth0,
                                                          .prefix = prefix("10.5.0.1/32"),
                                                          .protocol = netlink::kSharedAddress},
                                              .lifetime = 2});
  auto first = nodeAddresses(observeStatus(kernel), {});
  EXPECT_STREQ(text(first.chosen).cStr(), "10.5.0.3");  // the smallest of the first link by name
  EXPECT_STREQ(text(first.current).cStr(), "10.0.0.9 10.5.0.3 10.5.0.20");
  EXPECT_STREQ(text(first.known).cStr(), "10.0.0.9 10.5.0.3 10.5.0.20");

  // An unplugged cable: the address is no longer current but still known, and the default stays.
  kernel.setCarrier(eth0, false);
  auto second = nodeAddresses(observeStatus(kernel), kj::mv(first));
  EXPECT_STREQ(text(second.chosen).cStr(), "10.5.0.3");
  EXPECT_STREQ(text(second.current).cStr(), "10.0.0.9");
  EXPECT_STREQ(text(second.known).cStr(), "10.0.0.9 10.5.0.3 10.5.0.20");
}

// Catches: an empty default that a reader takes for the answer.
TEST(Status, NoDefaultBeforeThereIsAnAddress) {
  TestKernel kernel;
  auto none = records(nodeAddresses(observeStatus(kernel), {}));
  EXPECT_STREQ(ids(none).cStr(), "accumulative current");
}

// Catches: API texts that differ from the tables printed from them; routes of other tables that are
// left out, or that precede those of the main table.
TEST(Status, TheApiShowsGatewaysAsHostsAndAbsentOnesAsZero) {
  TestKernel kernel;
  unsigned eth0 = kernel.plug("eth0");
  netlink::setUp(kernel, eth0);
  netlink::addAddress(kernel, eth0, prefix("10.5.0.2/24"));
  netlink::change(kernel, netlink::AddRoute{{.destination = Prefix::all(AF_INET),
                                             .gateway = ip("10.5.0.1"),
                                             .link = eth0,
                                             .metric = 10,
                                             .protocol = kMark}});
  capnp::MallocMessageBuilder message;
  auto routes = message.initRoot<rpc::Network::RoutesResults>();
  fillRoutes(observeStatus(kernel), kernel.allRoutes(), routes);
  auto first = routes.asReader().getRoutes()[0], second = routes.asReader().getRoutes()[1];
  EXPECT_STREQ(kj::str(first.getInterface(), " ", first.getDestination(), " ", first.getGateway(),
                       " ", first.getMetric(), " ", first.getFamily())
                   .cStr(),
               "eth0 0.0.0.0/0 10.5.0.1/32 10 inet4");
  EXPECT_STREQ(kj::str(second.getInterface(), " ", second.getDestination(), " ",
                       second.getGateway(), " ", second.getSource())
                   .cStr(),
               "eth0 10.5.0.0/24 0.0.0.0/0 10.5.0.2/32");
  EXPECT_STREQ(
      kj::strArray(
          KJ_MAP(route, routes.asReader().getRoutes()) {
            return kj::str(route.getTable(), " ", route.getType(), " ", route.getInterface(), " ",
                           route.getDestination());
          },
          ", ")
          .cStr(),
      "main unicast eth0 0.0.0.0/0, main unicast eth0 10.5.0.0/24, main unicast eth0 fe80::/64, "
      "local local eth0 10.5.0.2/32, local local eth0 fe80::5054:ff:fe00:2/128");

  capnp::MallocMessageBuilder other;
  auto interfaces = other.initRoot<rpc::Network::InterfacesResults>();
  fillInterfaces(observeStatus(kernel), interfaces);
  auto entry = interfaces.asReader().getInterfaces()[1];
  auto join = [](capnp::List<capnp::Text>::Reader list) { return kj::strArray(list, " "); };
  EXPECT_STREQ(entry.getName().cStr(), "eth0");
  EXPECT_STREQ(join(entry.getFlags()).cStr(), "UP BROADCAST MULTICAST");
  EXPECT_STREQ(join(entry.getAddresses()).cStr(), "fe80::5054:ff:fe00:2/64 10.5.0.2/24");
}

}  // namespace
}  // namespace talos::networkd
