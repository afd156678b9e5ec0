// A kernel in memory, for tests: it starts with a given state, and then refuses changes and makes
// changes by itself as Linux does. TestKernel (test-kernel.h) extends it to a whole machine, on
// which planners are tested.
//
// Links: bonds whose options require them down, empty or in a mode, that open and close their
// members and set their MTU; VLANs that go up, down and away with their parent; links that enter or
// leave a VRF, which go down and up again; pairs of veth that are made and go away together; peers
// of WireGuard that take networks from each other. netlink-model-link.cc has what belongs to links.
//
// Modelled because planners get it wrong: addresses that loopback gets by itself, connected routes
// that come and go with addresses, secondary addresses that go with their primary, routes that
// vanish with their link or with its last address, gateways that must be reachable, EEXIST, ENODEV,
// ENETDOWN. Time does not pass in it: an address with a lifetime stays. Figures and errno values
// were compared with Linux by netlink-kernel-test.cc and, for bonds, VLANs and WireGuard, in a
// guest (tests/kernel). It has no neighbours, because no planner plans them, and no routing rules
// before a change adds one.
#pragma once

#include "common/bond/bond-options.h"
#include "common/netlink/model/netlink-model-lists.h"
#include "common/netlink/netlink.h"

namespace talos::netlink {

class ModelKernel : public Kernel {
 public:
  ModelKernel(const kj::Vector<Link>& links, const kj::Vector<Address>& addresses,
              const kj::Vector<Route>& routes, bool ipv6);
  // Sets the device of a link of kind "wireguard".
  void have(unsigned index, const WireguardDevice& device);

  kj::Vector<Link> links() override;
  kj::Vector<Address> addresses() override;
  kj::Vector<Route> routes() override;
  kj::Vector<Route> routesOf(uint32_t table) override;
  kj::Vector<Route> allRoutes() override;
  kj::Vector<Rule> rules() override;
  kj::Vector<Neighbour> neighbours() override { return {}; }
  WireguardDevice wireguard(unsigned index) override;
  kj::Vector<kj::Maybe<Failure>> apply(kj::ArrayPtr<const Change> changes) override;

 protected:
  struct Device {
    Link link;
    unsigned ownMtu = 0;         // of a bond's member: the MTU that it gets back
    bool mtuChosen = false;      // of a bridge: its MTU does not follow its ports any more
    bool addressChosen = false;  // the same for its hardware address
    unsigned preferred = 0;      // of a bond: the primary, also while it is not a member
    WireguardDevice wireguard;
  };

  // Called when something has changed.
  virtual void notify(Notice notice) {}

  Device* device(unsigned index);
  unsigned make(kj::StringPtr name, kj::StringPtr kind);
  void unplug(unsigned index);
  void setCarrier(unsigned index, bool carrier);
  ModelRules ruleList;

 private:
  bool ipv6;
  unsigned nextIndex = 1;
  kj::Vector<Device> devices;
  kj::Vector<Address> addressList;
  kj::Vector<Route> routeList;  // of all tables but the local one

  int applyOne(const Change& change, kj::String& message);
  int set(const SetLink& set, kj::String& message);
  int setMtu(Device& device, unsigned mtu);
  int setAddress(Device& device, kj::ArrayPtr<const kj::byte> address);
  int setMaster(unsigned index, unsigned master, kj::String& message);
  void release(unsigned index);
  int join(unsigned index, unsigned master, kj::String& message);
  void adjustBridge(unsigned index);
  int setUp(Device& device, bool up);
  void refreshCarrier(unsigned index);
  int set(const SetBond& set, kj::String& message);
  int set(const SetBridge& set);
  int set(const SetWireguard& set);
  int rename(const RenameLink& rename);
  int add(const AddLink& add, kj::String& message);
  int addVeth(const AddLink& add, const Veth& veth, unsigned& index);
  void refreshPair(unsigned index);
  void cycle(Device& device);
  int addVlan(const Vlan& vlan, unsigned mtu, unsigned index);
  int add(Address address, bool replace, bool ends);
  int remove(const Address& address);
  int add(const Route& route, bool replace, kj::String& message);
  int remove(const Route& route);
  void goUp(Device& device);
  void goDown(Device& device);
  void addConnected(const Address& address);
  void dropConnected(const Address& address);
  bool reachable(unsigned link, const Ip& gateway) const;
  int hopFits(const Route& wanted, kj::String& message);
  // `link`: 0 for any link; `table`: of a route that needs the address, 0 for none.
  bool has(const Ip& address, unsigned link, uint32_t table = RT_TABLE_UNSPEC) const;
  void dropSources();
};

}  // namespace talos::netlink
