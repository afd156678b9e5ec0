#include "common/netlink/netlink.h"

#include <errno.h>
#include <kj/debug.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/netlink/netlink-generic.h"
#include "common/netlink/netlink-socket.h"

namespace talos::netlink {

bool Link::up() const {
  return (flags & IFF_UP) != 0;
}
bool Link::loopback() const {
  return (flags & IFF_LOOPBACK) != 0;
}

Link Link::clone() const {
  Link copy;
  copy.index = index;
  copy.name = kj::str(name);
  copy.type = type;
  copy.flags = flags;
  copy.mtu = mtu;
  copy.hardwareAddress = kj::heapArray<kj::byte>(hardwareAddress);
  copy.kind = kj::str(kind);
  copy.master = master;
  copy.parent = parent;
  copy.operState = operState;
  copy.carrier = carrier;
  copy.broadcastAddress = kj::heapArray<kj::byte>(broadcastAddress);
  copy.permanentAddress = kj::heapArray<kj::byte>(permanentAddress);
  copy.queueDiscipline = kj::str(queueDiscipline);
  copy.memberKind = kj::str(memberKind);
  copy.group = group;
  copy.vlan = vlan;
  copy.bond = bond;
  copy.bondPartner = bondPartner;
  copy.bondMember = bondMember;
  copy.bridge = bridge;
  copy.vrfTable = vrfTable;
  return copy;
}

bool Route::nowhere() const {
  return type == RTN_BLACKHOLE || type == RTN_UNREACHABLE || type == RTN_PROHIBIT;
}

kj::StringPtr routeTypeName(uint8_t type) {
  constexpr kj::StringPtr kNames[] = {
      "unspec"_kj,    "unicast"_kj,     "local"_kj,    "broadcast"_kj, "anycast"_kj, "multicast"_kj,
      "blackhole"_kj, "unreachable"_kj, "prohibit"_kj, "throw"_kj,     "nat"_kj};
  return type < kj::size(kNames) ? kNames[type] : "other"_kj;
}

kj::StringPtr miiStatusName(uint8_t status) {
  constexpr kj::StringPtr kNames[] = {"up"_kj, "going down"_kj, "down"_kj, "going up"_kj};
  return status < kj::size(kNames) ? kNames[status] : "unknown"_kj;
}

// --- describing
namespace {

kj::String listed(const std::vector<Ip>& targets) {
  kj::Vector<kj::String> texts;
  for (auto& target : targets) texts.add(target.toString());
  return kj::strArray(texts, " ");
}

kj::String kindName(const LinkKind& kind, const NameOfLink& nameOf) {
  KJ_SWITCH_ONEOF(kind) {
    KJ_CASE_ONEOF(k, Bridge) {
      return kj::str("bridge");
    }
    KJ_CASE_ONEOF(k, Dummy) {
      return kj::str("dummy");
    }
    KJ_CASE_ONEOF(k, Vlan) {
      return kj::str(k.protocol == 0x88a8 ? "802.1ad vlan " : "vlan ", k.id, " on link ",
                     nameOf(k.parent));
    }
    KJ_CASE_ONEOF(k, Bond) {
      return k.options.empty() ? kj::str("bond")
                               : kj::str("bond with ", describe(k.options, nameOf));
    }
    KJ_CASE_ONEOF(k, Wireguard) {
      return kj::str("wireguard");
    }
    KJ_CASE_ONEOF(k, Vrf) {
      return kj::str("vrf of table ", tableName(k.table));
    }
    KJ_CASE_ONEOF(k, Veth) {
      return kj::str("veth with the peer ", k.peer);
    }
  }
  KJ_UNREACHABLE;
}

kj::String describeSet(const SetLink& set, const NameOfLink& nameOf) {
  auto text = kj::str("set link ", nameOf(set.index));
  if (set.hardwareAddress) {
    auto& address = *set.hardwareAddress;
    text = kj::str(text, " address ", hardwareText(kj::arrayPtr(address.data(), address.size())));
  }
  KJ_IF_MAYBE (mtu, set.mtu) text = kj::str(text, " mtu ", *mtu);
  KJ_IF_MAYBE (master, set.master) text = kj::str(text, " master ", nameOf(*master));
  KJ_IF_MAYBE (up, set.up) text = kj::str(text, *up ? " up" : " down");
  return text;
}

kj::String describeSet(const SetBridge& set, const NameOfLink& nameOf) {
  auto text = kj::str("set bridge ", nameOf(set.index));
  auto option = [&](const std::optional<bool>& value, kj::StringPtr name) {
    if (value) text = kj::str(text, *value ? " with " : " without ", name);
  };
  option(set.options.stp, "STP");
  option(set.options.vlanFiltering, "VLAN filtering");
  return text;
}

kj::String describeRoute(const Route& route, const NameOfLink& nameOf) {
  bool main = route.table == RT_TABLE_MAIN;
  auto table = main ? kj::String() : kj::str(" table ", tableName(route.table));
  if (route.nowhere()) {
    return kj::str(routeTypeName(route.type), " route ", route.destination, " metric ",
                   route.metric, table);
  }
  auto text = kj::str("route ", route.destination);
  KJ_IF_MAYBE (gateway, route.gateway) text = kj::str(text, " via ", *gateway);
  text = kj::str(text, " link ", nameOf(route.link), " metric ", route.metric, table);
  if ((route.flags & RTNH_F_ONLINK) != 0) text = kj::str(text, " onlink");
  KJ_IF_MAYBE (source, route.source) text = kj::str(text, " source ", *source);
  if (route.mtu != 0) text = kj::str(text, " mtu ", route.mtu);
  return text;
}

}  // namespace

kj::String hardwareText(kj::ArrayPtr<const kj::byte> address) {
  constexpr char kDigits[] = "0123456789abcdef";
  if (address.size() == 0) return kj::String();
  auto result = kj::heapString(address.size() * 3 - 1);
  auto out = result.begin();
  for (auto byte : address) {
    if (out != result.begin()) *out++ = ':';
    *out++ = kDigits[byte >> 4];
    *out++ = kDigits[byte & 15];
  }
  return result;
}

kj::String describe(const BondOptions& options, const NameOfLink& nameOf) {
  kj::Vector<kj::String> parts;
  for (auto& rule : bondRules()) {
    auto& value = options[rule.option];
    if (!value) continue;
    if (rule.option == BondOption::kMode) {
      parts.add(kj::str("mode ", netlink::nameOf(options.mode())));
    } else if (rule.option == BondOption::kPrimary || rule.option == BondOption::kActiveMember) {
      parts.add(kj::str(rule.name, ' ', nameOf(*value)));
    } else {
      parts.add(kj::str(rule.name, ' ', *value));
    }
  }
  if (options.arpTargets) parts.add(kj::str("arpIPTarget [", listed(*options.arpTargets), "]"));
  if (options.nsTargets) parts.add(kj::str("nsIP6Target [", listed(*options.nsTargets), "]"));
  if (options.actorSystem) parts.add(kj::str("adActorSystem"));
  return kj::strArray(parts, ", ");
}

kj::String describe(const Change& change, const NameOfLink& nameOf) {
  KJ_SWITCH_ONEOF(change) {
    KJ_CASE_ONEOF(c, SetLink) {
      return describeSet(c, nameOf);
    }
    KJ_CASE_ONEOF(c, AddLink) {
      return kj::str("add link ", c.name, ", ", kindName(c.kind, nameOf));
    }
    KJ_CASE_ONEOF(c, SetBond) {
      return kj::str("set bond ", nameOf(c.index), ": ", describe(c.options, nameOf));
    }
    KJ_CASE_ONEOF(c, SetBridge) {
      return describeSet(c, nameOf);
    }
    KJ_CASE_ONEOF(c, SetWireguard) {
      return describe(c, nameOf);
    }
    KJ_CASE_ONEOF(c, DeleteLink) {
      return kj::str("delete link ", nameOf(c.index));
    }
    KJ_CASE_ONEOF(c, RenameLink) {
      return kj::str("rename link ", nameOf(c.index), " to ", c.name);
    }
    KJ_CASE_ONEOF(c, AddAddress) {
      return kj::str("add address ", c.address.prefix, " to link ", nameOf(c.address.link));
    }
    KJ_CASE_ONEOF(c, DeleteAddress) {
      return kj::str("delete address ", c.address.prefix, " of link ", nameOf(c.address.link));
    }
    KJ_CASE_ONEOF(c, AddRoute) {
      return kj::str(c.replace ? "replace " : "add ", describeRoute(c.route, nameOf));
    }
    KJ_CASE_ONEOF(c, DeleteRoute) {
      return kj::str("delete ", describeRoute(c.route, nameOf));
    }
    KJ_CASE_ONEOF(c, AddRule) {
      return kj::str("add rule ", nameOfRule(c.rule));
    }
    KJ_CASE_ONEOF(c, DeleteRule) {
      return kj::str("delete rule ", nameOfRule(c.rule));
    }
  }
  KJ_UNREACHABLE;
}

unsigned linkOf(const Change& change) {
  KJ_SWITCH_ONEOF(change) {
    KJ_CASE_ONEOF(c, AddLink) {
      return 0;
    }
    KJ_CASE_ONEOF(c, AddRule) {
      return 0;
    }
    KJ_CASE_ONEOF(c, DeleteRule) {
      return 0;
    }
    KJ_CASE_ONEOF(c, AddAddress) {
      return c.address.link;
    }
    KJ_CASE_ONEOF(c, DeleteAddress) {
      return c.address.link;
    }
    KJ_CASE_ONEOF(c, AddRoute) {
      return c.route.link;
    }
    KJ_CASE_ONEOF(c, DeleteRoute) {
      return c.route.link;
    }
    KJ_CASE_ONEOF(c, SetLink) {
      return c.index;
    }
    KJ_CASE_ONEOF(c, SetBond) {
      return c.index;
    }
    KJ_CASE_ONEOF(c, SetBridge) {
      return c.index;
    }
    KJ_CASE_ONEOF(c, SetWireguard) {
      return c.index;
    }
    KJ_CASE_ONEOF(c, DeleteLink) {
      return c.index;
    }
    KJ_CASE_ONEOF(c, RenameLink) {
      return c.index;
    }
  }
  KJ_UNREACHABLE;
}

kj::Maybe<Failure> failureOf(const Change& change, int code, kj::StringPtr explanation) {
  if (code == 0) return nullptr;
  auto reason = explanation.size() > 0 ? kj::str(explanation, " (", strerror(code), ")")
                                       : kj::str(strerror(code));
  auto message = kj::str(describe(change), ": ", reason);
  return Failure{code, kj::mv(reason), kj::mv(message)};
}

// --- the machine's kernel
namespace {

class MachineKernel final : public Kernel {
 public:
  explicit MachineKernel(kj::Duration deadline)
      : socket(NETLINK_ROUTE, deadline), deadline(deadline) {}

  kj::Vector<Link> links() override { return pick<Link>(encodeLinkDump(), "list links"); }
  kj::Vector<Address> addresses() override {
    return pick<Address>(encodeAddressDump(), "list addresses");
  }
  kj::Vector<Route> routes() override { return routesOf(RT_TABLE_MAIN); }
  kj::Vector<Route> allRoutes() override { return routesOf(RT_TABLE_UNSPEC); }
  kj::Vector<Route> routesOf(uint32_t table) override {
    kj::Vector<Route> result;
    for (auto& route : pick<Route>(encodeRouteDump(table), "list routes")) {
      bool cached = (route.flags & RTM_F_CLONED) != 0;
      // An older kernel lists all tables.
      bool wanted = table == RT_TABLE_UNSPEC || route.table == table;
      if (!cached && wanted) result.add(kj::mv(route));
    }
    return result;
  }

  kj::Vector<Rule> rules() override {
    auto result = pick<Rule>(encodeRuleDump(), "list routing rules");
    std::stable_partition(result.begin(), result.end(),
                          [](const Rule& rule) { return rule.family == AF_INET; });
    return result;
  }
  kj::Vector<Neighbour> neighbours() override {
    return pick<Neighbour>(encodeNeighbourDump(), "list neighbours");
  }

  WireguardDevice wireguard(unsigned index) override {
    auto what = kj::str("read WireGuard of link ", index);
    WireguardDevice device;
    KJ_DEFER(generic().wipe());
    for (auto& message : generic().dump(encodeWireguardDump(wireguardFamily(), index), what)) {
      KJ_IF_MAYBE (part, message.body.tryGet<Generic>()) readWireguard(*part, device);
    }
    return device;
  }

  kj::Vector<kj::Maybe<Failure>> apply(kj::ArrayPtr<const Change> changes) override {
    kj::Vector<kj::Maybe<Failure>> result(changes.size());
    while (changes.size() > 0) {
      size_t count = 0;  // as many as go together over the same socket
      while (count < changes.size() && !changes[count].is<SetWireguard>()) ++count;
      applyLinks(changes.slice(0, count), result);
      changes = changes.slice(count, changes.size());
      if (changes.size() == 0) break;
      auto ack = setWireguard(changes[0].get<SetWireguard>());
      result.add(failureOf(changes[0], ack.code, ack.message));
      changes = changes.slice(1, changes.size());
    }
    return result;
  }

 private:
  Socket socket;
  kj::Duration deadline;
  kj::Maybe<Socket> genericSocket;
  kj::Maybe<uint16_t> familyNumber;  // of "wireguard"; stays until the kernel restarts

  Socket& generic() {
    KJ_IF_MAYBE (there, genericSocket) return *there;
    return genericSocket.emplace(NETLINK_GENERIC, deadline);
  }

  uint16_t wireguardFamily() {
    KJ_IF_MAYBE (there, familyNumber) return *there;
    for (auto& message : generic().dump(encodeFamilyRequest("wireguard"), "find WireGuard")) {
      KJ_IF_MAYBE (part, message.body.tryGet<Generic>()) {
        KJ_IF_MAYBE (number, readFamily(*part)) familyNumber = *number;
      }
    }
    KJ_IF_MAYBE (found, familyNumber) return *found;
    fail(ErrorKind::kUnavailable,
         "WireGuard unsupported: the kernel has no netlink family \"wireguard\"");
  }

  void applyLinks(kj::ArrayPtr<const Change> changes, kj::Vector<kj::Maybe<Failure>>& result) {
    kj::Vector<kj::Array<kj::byte>> requests(changes.size());
    auto unencodable = kj::heapArray<kj::Maybe<Ack>>(changes.size());
    for (size_t i = 0; i < changes.size(); ++i) {
      try {
        requests.add(encode(changes[i]));
      } catch (const kj::Exception& e) {
        unencodable[i] = Ack{EINVAL, messageOf(e)};
      }
    }
    auto acks = socket.transact(requests);
    size_t next = 0;
    for (size_t i = 0; i < changes.size(); ++i) {
      KJ_IF_MAYBE (refused, unencodable[i]) {
        auto message = kj::str(describe(changes[i]), ": ", refused->message);
        result.add(Failure{refused->code, kj::mv(refused->message), kj::mv(message)});
      } else {
        auto& ack = acks[next++];
        result.add(failureOf(changes[i], ack.code, ack.message));
      }
    }
  }

  // Sends the messages; the first one that fails stops the others.
  Ack setWireguard(const SetWireguard& set) {
    try {
      for (auto& message : encodeWireguard(wireguardFamily(), set)) {
        KJ_DEFER(explicit_bzero(message.begin(), message.size()));
        auto acks = generic().transact(kj::arrayPtr(&message, 1));
        if (acks[0].code != 0) return kj::mv(acks[0]);
      }
    } catch (const kj::Exception& e) {
      return Ack{EPROTO, messageOf(e)};
    }
    return Ack{};
  }

  template <typename T>
  kj::Vector<T> pick(kj::Array<kj::byte> request, kj::StringPtr what) {
    kj::Vector<T> result;
    socket.dump(
        kj::mv(request), what, [&] { result.clear(); },
        [&](Message&& message) {
          KJ_IF_MAYBE (item, message.body.template tryGet<T>()) result.add(kj::mv(*item));
        });
    return result;
  }
};

class MachineMonitor final : public Monitor {
 public:
  MachineMonitor(kj::UnixEventPort& port, unsigned size, Subjects subjects)
      : groups(groupsOf(subjects)),
        fd(openSocket(NETLINK_ROUTE, groups)),
        observer(port, fd, kj::UnixEventPort::FdObserver::OBSERVE_READ),
        buffer(kj::heapArray<uint64_t>(kBuffer / sizeof(uint64_t))) {
    int bytes = size;  // without the capability for more, the size remains as set by openSocket()
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
  }

  kj::Promise<Notice> next() override {
    // Armed before reading: the observer is edge-triggered, and an edge between the two would be
    // lost.
    auto readable = observer.whenBecomesReadable();
    Notice notice;
    if (drain(notice)) return notice;
    return readable.then([this] { return next(); });
  }
  Notice take() override {
    Notice notice;
    drain(notice);
    return notice;
  }
  void listen(bool on) override { setGroups(fd, on ? groups : 0); }

 private:
  static constexpr size_t kBuffer = 64 << 10;

  static uint32_t groupsOf(Subjects subjects) {
    uint32_t groups = 0;
    if (subjects.links) groups |= RTMGRP_LINK;
    if (subjects.addresses) groups |= RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
    if (subjects.routes) groups |= RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
    if (subjects.rules) groups |= RTMGRP_IPV4_RULE | 1u << (RTNLGRP_IPV6_RULE - 1);
    if (subjects.neighbours) groups |= RTMGRP_NEIGH;
    return groups;
  }

  uint32_t groups;
  kj::AutoCloseFd fd;
  kj::UnixEventPort::FdObserver observer;
  kj::Array<uint64_t> buffer;

  bool drain(Notice& notice) {
    for (;;) {
      kj::ArrayPtr<const kj::byte> datagram;
      switch (receiveFrom(fd, buffer, datagram)) {
        case Received::kNothing:
          return notice.any();
        case Received::kForeign:
          break;
        case Received::kOverrun:
          notice.overrun = true;
          break;
        case Received::kMessage:
          notice |= noticeOf(datagram);
          break;
      }
    }
  }
};

}  // namespace

Notice& Notice::operator|=(const Notice& more) {
  links |= more.links;
  addresses |= more.addresses;
  routes |= more.routes;
  rules |= more.rules;
  neighbours |= more.neighbours;
  overrun |= more.overrun;
  return *this;
}

kj::Own<Kernel> openKernel(kj::Duration deadline) {
  return kj::heap<MachineKernel>(deadline);
}
kj::Own<Monitor> openMonitor(kj::UnixEventPort& port, unsigned buffer, Subjects subjects) {
  return kj::heap<MachineMonitor>(port, buffer, subjects);
}

// --- functions for programs that make a few changes
void change(Kernel& kernel, Change change) {
  auto failures = kernel.apply(kj::arrayPtr(&change, 1));
  KJ_IF_MAYBE (failure, failures[0]) {
    fail(ErrorKind::kFailedPrecondition, failure->message);
  }
}

kj::Maybe<Link> findLink(Kernel& kernel, kj::StringPtr name) {
  for (auto& link : kernel.links()) {
    if (link.name == name) return kj::mv(link);
  }
  return nullptr;
}

unsigned indexOf(Kernel& kernel, kj::StringPtr name) {
  KJ_IF_MAYBE (link, findLink(kernel, name)) {
    return link->index;
  }
  fail(ErrorKind::kNotFound, kj::str("there is no network link \"", name, "\""));
}

unsigned addLink(Kernel& kernel, kj::StringPtr name, LinkKind kind) {
  change(kernel, AddLink{kj::str(name), kj::mv(kind)});
  return indexOf(kernel, name);
}

void setUp(Kernel& kernel, unsigned index, bool up) {
  change(kernel, SetLink{.index = index, .up = up});
}

void addAddress(Kernel& kernel, unsigned index, Prefix prefix) {
  change(kernel, AddAddress{{.link = index, .prefix = prefix}});
}

}  // namespace talos::netlink
