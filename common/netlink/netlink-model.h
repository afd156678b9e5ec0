// A kernel in memory, for tests and for looking ahead: refuses and does by itself what Linux does.
//
// Links: bonds whose options want them down, empty or in a mode, that open and close their members
// and give them their MTU; VLANs that go up, down and away with their parent; peers of WireGuard
// that take networks from each other. What belongs to links is in netlink-model-link.cc.
//
// Rules and neighbours are in files of their own; of neighbours there are only those that somebody
// made, on links with addresses of Ethernet's kind.
//
// Modelled because planners get it wrong: addresses that loopback gets by itself, connected routes
// that come and go with addresses, secondary addresses that go with their primary, routes that
// vanish with their link or with its last address, gateways that must be reachable, EEXIST, ENODEV,
// ENETDOWN. Figures and errno values were compared with Linux by common/netlink/netlink-kernel-test.cc and,
// for bonds, VLANs and WireGuard, in a guest (tests/kernel).
#pragma once

#include "common/netlink/netlink.h"

namespace talos::netlink {

class ModelKernel : public Kernel {
 public:
  // With a loopback link, down, as in a new network namespace.
  explicit ModelKernel(bool ipv6 = true);
  // As another kernel was seen.
  ModelKernel(const kj::Vector<Link>& links, const kj::Vector<Address>& addresses,
              const kj::Vector<Route>& routes, bool ipv6);
  ~ModelKernel() noexcept(false);

  kj::Vector<Link> links() override;
  kj::Vector<Address> addresses() override;
  kj::Vector<Route> routes() override;
  kj::Vector<Rule> rules() override;
  kj::Vector<Neighbour> neighbours() override;
  WireguardDevice wireguard(unsigned index) override;
  kj::Vector<kj::Maybe<Failure>> apply(kj::ArrayPtr<const Change> changes) override;

  // Hardware appears (down, with carrier), goes, or loses its cable.
  unsigned plug(kj::StringPtr name);
  void unplug(unsigned index);
  void setCarrier(unsigned index, bool carrier);
  // The next monitors' notice says that events were lost.
  void overrun();
  // Changes that this link does not accept (errno), or 0 again.
  void refuse(unsigned index, int code);
  // What a link of kind "wireguard" has.
  void have(unsigned index, const WireguardDevice& device);

  // How many changes were asked for since the last call.
  size_t takeChangeCount();
  // Of what changes in this kernel. It must not outlive the kernel.
  kj::Own<Monitor> monitor(Subjects subjects = {});

 private:
  class ModelMonitor;
  struct Device {
    Link link;
    int refused = 0;
    unsigned ownMtu = 0;     // of a bond's member: what it gets back
    bool mtuChosen = false;  // of a bridge: it does not follow its ports any more
    unsigned preferred = 0;  // of a bond: the primary, also while that is no member
    WireguardDevice wireguard;
  };
  bool ipv6;
  unsigned nextIndex = 1;
  size_t changeCount = 0;
  kj::Vector<Device> devices;
  kj::Vector<Address> addressList;
  kj::Vector<Route> routeList;
  kj::Vector<Rule> ruleList;  // by family and priority, then as they came
  kj::Vector<Neighbour> neighbourList;
  kj::Vector<ModelMonitor*> monitors;

  Device* device(unsigned index);
  void notify(Notice notice);
  int applyOne(const Change& change, kj::String& message);
  int set(const SetLink& set, kj::String& message);
  int setMtu(Device& device, unsigned mtu);
  int setMaster(unsigned index, unsigned master, kj::String& message);
  void release(unsigned index);
  int join(unsigned index, unsigned master, kj::String& message);
  void adjustBridge(unsigned index);
  int setUp(Device& device, bool up);
  void refreshCarrier(unsigned index);
  size_t memberCount(unsigned master) const;
  int set(const SetBond& set, kj::String& message);
  int setBondNumber(Device& bond, const BondRule& rule, uint32_t value, const BondOptions& request,
                    kj::String& message);
  int set(const SetBridge& set);
  int set(const SetWireguard& set);
  int add(const AddLink& add, kj::String& message);
  int addVlan(const Vlan& vlan, unsigned mtu, unsigned index);
  unsigned make(kj::StringPtr name, kj::StringPtr kind);
  int add(Address address);
  int remove(const Address& address);
  int add(const Route& route, bool replace, kj::String& message);
  int remove(const Route& route);
  void goUp(Device& device);
  void goDown(Device& device);
  void addConnected(const Address& address);
  void dropConnected(const Address& address);
  bool reachable(unsigned link, const Ip& gateway) const;
  static int nowhereFits(const Route& wanted, kj::String& message);
  int hopFits(const Route& wanted, kj::String& message);
  void makeFirstRules();
  int add(const Rule& wanted, kj::String& message);
  int remove(const Rule& wanted, kj::String& message);
  int add(const Neighbour& wanted, bool replace, kj::String& message);
  int remove(const Neighbour& neighbour);
  void dropNeighbours(unsigned link, bool permanentToo);
  bool has(const Ip& address, unsigned link) const;  // on any link: 0
  void dropSources();
};

}  // namespace talos::netlink
