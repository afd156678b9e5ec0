// The kernel's network configuration, typed, over rtnetlink: reads and changes links, addresses,
// routes and routing rules, and only reads neighbours.
//
// Programs use the interface Kernel: openKernel() returns the machine's. Tests use a kernel in
// memory (common/netlink/model). Messages are encoded and decoded by pure functions
// (netlink-codec.h) and carried by netlink-socket.h. A new kind of link is one more variant of
// LinkKind, and its attributes in netlink-encode.cc and netlink-link.cc; WireGuard, rules and
// neighbours have their own files.
//
// Keeps no state between calls: only the kernel has state, so a crash at any line loses nothing,
// and a change that was sent is made completely or not at all. Every call has a deadline (5 s by
// default) and fails with kUnavailable naming the answer that did not come. Errors carry the
// kernel's own explanation (NETLINK_EXT_ACK). Synchronous: rtnetlink answers within the send,
// typically in microseconds. The network namespace is the one of the thread that opened the kernel.
#pragma once

#include <kj/async-unix.h>
#include <kj/one-of.h>
#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>
#include <linux/rtnetlink.h>

#include <array>
#include <optional>

#include "common/bond/bond-options.h"
#include "common/net/ip.h"
#include "common/netlink/link-names.h"
#include "common/netlink/netlink-neighbour.h"
#include "common/netlink/netlink-rule.h"
#include "common/netlink/netlink-wireguard.h"

namespace talos::netlink {

// Tag of a VLAN on its parent.
struct VlanTag {
  uint16_t id = 0;
  uint16_t protocol = 0x8100;  // or 0x88a8: IEEE 802.1ad
  bool operator==(const VlanTag&) const = default;
};

struct BridgeOptions {
  std::optional<bool> stp, vlanFiltering;
  bool operator==(const BridgeOptions&) const = default;
};

// Partner of LACP; read only.
struct BondPartner {
  uint16_t aggregator = 0, ports = 0, actorKey = 0, partnerKey = 0;
  Mac partner = {};
  bool operator==(const BondPartner&) const = default;
};

// A link that belongs to a bond, as the bond sees it; read only.
struct BondMember {
  bool backup = false;     // false if it sends and receives
  uint8_t miiStatus = 0;   // 0 up, 1 going to fail, 2 down, 3 coming back
  uint32_t failures = 0;   // how often the link failed
  Mac permanentAddress{};  // the link's own address, which it gets back
  uint16_t queue = 0, aggregator = 0;
  bool operator==(const BondMember&) const = default;
};
// Returns "up", "going down" ... for BondMember::miiStatus.
kj::StringPtr miiStatusName(uint8_t status);

struct Link {
  unsigned index = 0;
  kj::String name;
  uint16_t type = 0;   // ARPHRD_*: 1 Ethernet, 772 loopback
  unsigned flags = 0;  // IFF_*
  unsigned mtu = 0;
  kj::Array<kj::byte> hardwareAddress;
  kj::String kind;        // "bridge", "veth" ...; empty for hardware
  unsigned master = 0;    // index of the bridge, bond or VRF that it belongs to
  unsigned parent = 0;    // index of the link below (VLAN) or of the peer (veth)
  uint8_t operState = 0;  // IF_OPER_*
  bool carrier = false;
  kj::Array<kj::byte> broadcastAddress = nullptr;
  kj::Array<kj::byte> permanentAddress = nullptr;  // address that the hardware was made with
  kj::String queueDiscipline = nullptr;
  kj::String memberKind = nullptr;  // kind of the link that it is a member of: "bond", "bridge"
  uint32_t group = 0;  // a mark without effect in the kernel, set when the link is made
  std::optional<VlanTag> vlan = {};
  std::optional<BondOptions> bond = {};
  std::optional<BondPartner> bondPartner = {};
  std::optional<BondMember> bondMember = {};
  std::optional<BridgeOptions> bridge = {};
  std::optional<uint32_t> vrfTable = {};

  bool up() const;
  bool loopback() const;
  Link clone() const;
};

struct Address {
  unsigned link = 0;  // index
  Prefix prefix;
  uint8_t scope = RT_SCOPE_UNIVERSE;
  uint32_t flags = 0;    // IFA_F_*
  uint8_t protocol = 0;  // IFA_PROTO: creator of the address
  bool operator==(const Address&) const = default;
};

// IFA_PROTO of an address that moves between nodes: vipd's. It is not an address of the node
// itself.
constexpr uint8_t kSharedAddress = 118;

struct Route {
  Prefix destination;               // host bits zero
  kj::Maybe<Ip> gateway = nullptr;  // may be of the other family
  unsigned link = 0;                // index; 0 if there is no link or several
  unsigned metric = 0;
  uint32_t table = RT_TABLE_MAIN;
  uint8_t protocol = RTPROT_UNSPEC;
  uint8_t scope = RT_SCOPE_UNIVERSE;
  uint8_t type = RTN_UNICAST;
  uint32_t flags = 0;              // RTM_F_*, RTNH_F_*
  kj::Maybe<Ip> source = nullptr;  // preferred source address
  unsigned mtu = 0;                // 0 for the link's MTU

  // Returns true if the route drops matching packets: no link, no gateway.
  bool nowhere() const;
};
// Returns "unicast", "blackhole" ... for an RTN_*.
kj::StringPtr routeTypeName(uint8_t type);

// --- changes
struct Bridge {
  BridgeOptions options = {};
};
struct Dummy {};
struct Vlan {
  unsigned parent;
  uint16_t id;
  uint16_t protocol = 0x8100;
};
struct Bond {
  BondOptions options = {};
};
// SetWireguard sets its keys and peers.
struct Wireguard {};
struct Vrf {
  uint32_t table;
};
// Makes both ends: the peer gets the group of the AddLink, and the MTU of its kind.
struct Veth {
  kj::String peer;  // name
};
using LinkKind = kj::OneOf<Bridge, Dummy, Vlan, Bond, Wireguard, Vrf, Veth>;

// Changes only what is given, in the order address, mtu, master, up.
struct SetLink {
  unsigned index;
  kj::Maybe<bool> up = nullptr;
  kj::Maybe<unsigned> mtu = nullptr;
  kj::Maybe<unsigned> master = nullptr;  // 0 releases
  // Address of Ethernet. A bridge with a given address does not follow its ports any more.
  std::optional<std::array<kj::byte, 6>> hardwareAddress = {};
};
struct AddLink {
  kj::String name;
  LinkKind kind;
  uint32_t group = 0;
  unsigned mtu = 0;  // 0 for the kind's default
};
// Sets the given options; the kernel applies them one by one and stops at the first that it
// refuses.
struct SetBond {
  unsigned index;
  BondOptions options;
};
struct SetBridge {
  unsigned index;
  BridgeOptions options;
};
struct DeleteLink {
  unsigned index;
};
// Fails with EEXIST if another link has the name.
struct RenameLink {
  unsigned index;
  kj::String name;
};
// Fails with EEXIST if the address exists, unless `replace` is set.
struct AddAddress {
  Address address;
  bool replace = false;  // renews the lifetime of an existing address
  // Seconds after which the kernel removes the address; nullopt if it stays. With a lifetime, the
  // address is deprecated from the beginning: the node does not use it as a source of its own
  // connections if it has another.
  std::optional<uint32_t> lifetime = {};
};
struct DeleteAddress {
  Address address;
};
struct AddRoute {
  Route route;
  bool replace = false;  // replaces the route with this destination and metric
};
struct DeleteRoute {
  Route route;
};
// Fails with EEXIST if there is an equal rule; one of another protocol is another rule.
struct AddRule {
  Rule rule;
};
// Deletes the first rule that has all that is given: what the rule leaves open may be anything.
struct DeleteRule {
  Rule rule;
};
using Change = kj::OneOf<SetLink, AddLink, SetBond, SetBridge, SetWireguard, DeleteLink, RenameLink,
                         AddAddress, DeleteAddress, AddRoute, DeleteRoute, AddRule, DeleteRule>;
// Returns the index of the change's link; 0 for a link that does not exist yet, and for a rule.
unsigned linkOf(const Change& change);

// Returns "52:54:00:00:00:02"; empty if there is no address.
kj::String hardwareText(kj::ArrayPtr<const kj::byte> address);
// Returns "mode 802.3ad, miimon 100", for logs and problems.
kj::String describe(const BondOptions& options, const NameOfLink& nameOf = indexText);
// Returns "add address 10.5.0.2/24 to link 2", for logs and problems. Without names, links are
// named by their index.
kj::String describe(const Change& change, const NameOfLink& nameOf = indexText);

struct Failure {
  int code = 0;        // errno, positive
  kj::String reason;   // the kernel's explanation, or the errno's text
  kj::String message;  // "add address ...: " and the reason
};
// Returns nullptr for code 0. `explanation`: the kernel's, may be empty.
kj::Maybe<Failure> failureOf(const Change& change, int code, kj::StringPtr explanation);

class Kernel {
 public:
  virtual ~Kernel() noexcept(false) = default;

  // Return consistent snapshots: a dump that a change interrupted is started again.
  virtual kj::Vector<Link> links() = 0;
  virtual kj::Vector<Address> addresses() = 0;
  virtual kj::Vector<Route> routes() = 0;                  // of the main table
  virtual kj::Vector<Route> routesOf(uint32_t table) = 0;  // none if the table does not exist
  virtual kj::Vector<Route> allRoutes() = 0;  // of every table: each address adds up to four
  // Returns the rules in the order in which they are tried, those of IPv4 first.
  virtual kj::Vector<Rule> rules() = 0;
  // Returns the neighbours of all links and states.
  virtual kj::Vector<Neighbour> neighbours() = 0;
  // Returns the device of a link of kind "wireguard", never its private key. Throws
  // kFailedPrecondition in the kernel's words for another link.
  virtual WireguardDevice wireguard(unsigned index) = 0;

  // Makes the changes in order, sent together; they are in effect when this returns. A failure does
  // not stop the later changes. Element i of the result is the failure of change i, which then has
  // changed nothing, except SetLink, SetBond and SetBridge: the kernel may have made a part of
  // them.
  virtual kj::Vector<kj::Maybe<Failure>> apply(kj::ArrayPtr<const Change> changes) = 0;
};

// Opens the kernel of this thread's network namespace.
kj::Own<Kernel> openKernel(kj::Duration deadline = 5 * kj::SECONDS);

// Kinds of objects that changed since the last notice. After `overrun` (the socket's buffer was
// full) everything has to be read again.
struct Notice {
  bool links = false, addresses = false, routes = false, rules = false, neighbours = false,
       overrun = false;

  bool any() const { return links || addresses || routes || rules || neighbours || overrun; }
  Notice& operator|=(const Notice& more);
};

// Subjects of a monitor. Neighbours change all the time: they get their own monitor, so that they
// do not overrun the others.
struct Subjects {
  bool links = true, addresses = true, routes = true, rules = false, neighbours = false;
};

class Monitor {
 public:
  virtual ~Monitor() noexcept(false) = default;
  // Resolves at the first change after the last notice; many changes make one notice.
  virtual kj::Promise<Notice> next() = 0;
  // Returns the changes up to now, at once, for a caller that is about to read everything anyway.
  virtual Notice take() = 0;
  // With false, changes are not reported until the next true. For a caller that makes many changes
  // itself and reads everything after that.
  virtual void listen(bool on) = 0;
};

// `buffer`: size of the receive buffer in bytes; notifications that do not fit are an overrun.
kj::Own<Monitor> openMonitor(kj::UnixEventPort& port, unsigned buffer = 8 << 20,
                             Subjects subjects = {});

// --- functions for programs that make a few changes in order
// All throw: kNotFound, or kFailedPrecondition with the kernel's error, as Kernel::apply() says.
void change(Kernel& kernel, Change change);
kj::Maybe<Link> findLink(Kernel& kernel, kj::StringPtr name);
unsigned indexOf(Kernel& kernel, kj::StringPtr name);
// Makes the link and returns its index.
unsigned addLink(Kernel& kernel, kj::StringPtr name, LinkKind kind);
void setUp(Kernel& kernel, unsigned index, bool up = true);
void addAddress(Kernel& kernel, unsigned index, Prefix prefix);

}  // namespace talos::netlink
