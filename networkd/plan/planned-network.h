// The network as the steps of a plan leave it, for the next plan of a preview. Pure.
//
// It starts with an observed network and contains those reactions of Linux to a step that a later
// plan notices: links that go up, down and away with their parent or their bond; addresses that
// loopback and new links get by themselves; links that go down and up when they enter or leave a
// VRF; addresses and routes that are lost with a link, with another address or with their source;
// networks that peers of WireGuard take from each other. It
// refuses what a plan may try and Linux refuses, in the kernel's words, and leaves out what
// plan-links.h promises to keep to. ModelKernel (common/netlink/model) checks these promises in
// tests, and a test compares both over random networks.
//
// Not visible to an observer, so missing: the MTU that a member had before its bond's, a primary
// that is not a member, other programs, hardware.
#pragma once

#include <set>

#include "networkd/plan/network-plan.h"

namespace talos::networkd {

class PlannedNetwork {
 public:
  explicit PlannedNetwork(const Observed& before);

  // Returns a copy of the network after the changes so far.
  Observed state() const;

  // Makes a change of a plan for this state. Returns the failure if Linux would refuse the change,
  // which then changes nothing; of a SetLink, the parts before the refused one are made.
  kj::Maybe<netlink::Failure> apply(const netlink::Change& change);

 private:
  struct Answer {
    int code = 0;  // errno; 0: made
    kj::StringPtr explanation = {};
  };

  Observed network;
  std::set<unsigned> fixedMtus;  // bridges with an MTU of a step: it does not follow the ports
  unsigned nextIndex = 1;

  netlink::Link* find(unsigned index);
  Answer make(const netlink::Change& change);

  Answer set(const netlink::SetLink& set);
  int setMtu(netlink::Link& link, unsigned mtu);
  void followPorts(unsigned bridge);
  int setUp(netlink::Link& link, bool up);
  void goUp(netlink::Link& link);
  void goDown(netlink::Link& link);
  int setMaster(netlink::Link& link, unsigned master);
  void release(netlink::Link& member);
  void cycle(netlink::Link& link);
  int join(netlink::Link& member, unsigned master);
  Answer set(const netlink::SetBond& set);
  Answer set(const netlink::SetBridge& set);
  Answer set(const netlink::SetWireguard& set);
  Answer add(const netlink::AddLink& add);
  int addPeer(netlink::Link& link, const netlink::Veth& veth);
  int putOnParent(netlink::Link& link, const netlink::Vlan& vlan);
  void removeLink(unsigned index);

  Answer add(netlink::Address address);
  Answer remove(const netlink::Address& address);
  void addConnected(const netlink::Address& address);
  void dropConnected(const netlink::Address& address);

  Answer add(const netlink::Route& route, bool replace);
  Answer checkHop(const netlink::Route& route);
  Answer remove(const netlink::Route& route);
  void dropSources();
};

}  // namespace talos::networkd
