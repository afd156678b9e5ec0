// Bonds and tunnels that are changed while traffic flows through them.
#include <arpa/inet.h>
#include <kj/encoding.h>
#include <sys/socket.h>
#include <time.h>

#include <atomic>
#include <memory>

#include "common/bond/bond-options.h"
#include "common/netlink/test-netlink.h"
#include "networkd/plan/plan-links.h"
#include "tests/kernel/namespaces.h"
#include "tests/kernel/programs.h"

namespace talos {
namespace {

void pause(unsigned milliseconds) {
  timespec wait{time_t(milliseconds / 1000), long(milliseconds % 1000) * 1000000};
  while (nanosleep(&wait, &wait) != 0) {
  }
}

// Traffic that is counted: numbered UDP packets from one namespace, echoed by another.
class Flow {
 public:
  struct Count {
    unsigned sent = 0, answered = 0;
    unsigned lost() const { return sent - answered; }
  };

  // `to` must have `address`.
  Flow(Namespace& from, Namespace& to, kj::StringPtr address) : from(from), to(to) {
    destination.sin_family = AF_INET;
    destination.sin_port = htons(port);
    KJ_REQUIRE(inet_pton(AF_INET, address.cStr(), &destination.sin_addr) == 1);
    echoing = std::thread([this] { this->to.run([this] { echo(); }); });
    sending = std::thread([this] { this->from.run([this] { send(); }); });
  }
  ~Flow() noexcept(false) {
    over = true;
    sending.join();
    echoing.join();
  }
  KJ_DISALLOW_COPY(Flow);

  // Returns true if a packet came back within the time.
  bool works(unsigned milliseconds) {
    unsigned before = answered;
    for (unsigned waited = 0; waited < milliseconds; waited += 10) {
      if (answered > before) return true;
      pause(10);
    }
    return false;
  }

  // Counts the packets sent while the body runs, and 100 ms longer, and those that came back within
  // `milliseconds`.
  template <typename F>
  Count during(F&& body, unsigned milliseconds = 3000) {
    unsigned first = sent;
    body();
    pause(100);
    unsigned last = sent;
    held = true;  // nothing new, so that all that is under way can come
    auto cameBack = [&] {
      unsigned count = 0;
      for (unsigned number = first; number < last; ++number) count += seen[number];
      return count;
    };
    for (unsigned waited = 0; waited < milliseconds && cameBack() < last - first; waited += 10) {
      pause(10);
    }
    held = false;
    return {last - first, cameBack()};
  }

 private:
  static inline std::atomic<uint16_t> nextPort = 4000;  // several may end in one namespace
  uint16_t port = nextPort++;
  static constexpr unsigned kMost = 1 << 20;
  Namespace &from, &to;
  sockaddr_in destination{};
  std::atomic<bool> over = false, held = false;
  std::atomic<unsigned> sent = 0, answered = 0;
  std::unique_ptr<std::atomic<bool>[]> seen = std::make_unique<std::atomic<bool>[]>(kMost);
  std::thread echoing, sending;

  static kj::AutoCloseFd udp() {
    int raw;
    KJ_SYSCALL(raw = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    timeval most{0, 20000};
    setsockopt(raw, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    return kj::AutoCloseFd(raw);
  }

  void echo() {
    auto fd = udp();
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof(any)));
    while (!over) {
      uint32_t number;
      sockaddr_in sender;
      socklen_t size = sizeof(sender);
      auto got =
          recvfrom(fd, &number, sizeof(number), 0, reinterpret_cast<sockaddr*>(&sender), &size);
      if (got == sizeof(number))
        sendto(fd, &number, sizeof(number), 0, reinterpret_cast<sockaddr*>(&sender), size);
    }
  }

  void send() {
    auto fd = udp();
    uint32_t next = 0;
    while (!over) {
      pause(1);
      if (!held && next < kMost) {
        // A packet that cannot even leave is lost too.
        sendto(fd, &next, sizeof(next), 0, reinterpret_cast<sockaddr*>(&destination),
               sizeof(destination));
        ++next;
        ++sent;
      }
      uint32_t number;
      while (recv(fd, &number, sizeof(number), MSG_DONTWAIT) == sizeof(number)) {
        if (number < kMost && !seen[number].exchange(true)) ++answered;
      }
    }
  }
};

}  // namespace
}  // namespace talos

namespace talos::networkd {
namespace {

using netlink::BondMode;
using netlink::BondOptions;
using O = netlink::BondOption;

int64_t now() {
  return time(nullptr);
}

void settle(const Wanted& wanted) {
  auto kernel = netlink::openKernel();
  for (unsigned round = 0; round < 8; ++round) {
    auto todo = plan(wanted, observe(*kernel, true, now()));
    if (todo.steps.size() == 0) return;
    auto changes = KJ_MAP(step, todo.steps) {
      return kj::mv(step.change);
    };
    for (auto& failure : kernel->apply(changes)) {
      KJ_IF_MAYBE (f, failure) ADD_FAILURE() << f->message.cStr();
    }
  }
  ADD_FAILURE() << "does not settle";
}

WantedLink link(kj::StringPtr name, kj::StringPtr kind = "", kj::StringPtr master = "") {
  WantedLink result;
  result.name = kj::str(name);
  result.kind = kj::str(kind);
  result.master = kj::str(master);
  return result;
}
WantedAddress address(kj::StringPtr link, kj::StringPtr text) {
  return WantedAddress{.link = kj::str(link), .prefix = prefix(text)};
}

// A cable: `name` in both namespaces.
void cable(Namespace& a, Namespace& b, kj::StringPtr name) {
  a.run([&] {
    auto kernel = netlink::openKernel();
    netlink::addVeth(*kernel, name, "far");
    netlink::move(netlink::indexOf(*kernel, "far"), b.descriptor());
  });
  b.run([&] {
    auto kernel = netlink::openKernel();
    netlink::rename(netlink::indexOf(*kernel, "far"), name);
  });
}

Wanted bonded(const BondOptions& options, kj::StringPtr own) {
  Wanted wanted;
  auto& bond = wanted.links.add(link("bond0", "bond"));
  bond.bond = options;
  wanted.links.add(link("eth0", "", "bond0"));
  wanted.links.add(link("eth1", "", "bond0"));
  wanted.addresses.add(address("bond0", own));
  return wanted;
}
// The other end: LACP wants a partner, the others a switch.
Wanted farEnd(BondMode mode) {
  if (mode == BondMode::kLacp) {
    BondOptions options;
    options[O::kMode] = uint32_t(mode);
    options[O::kLacpRate] = 1;
    return bonded(options, "10.1.0.2/24");
  }
  Wanted wanted;
  wanted.links.add(link("br0", "bridge"));
  wanted.links.add(link("eth0", "", "br0"));
  wanted.links.add(link("eth1", "", "br0"));
  wanted.addresses.add(address("br0", "10.1.0.2/24"));
  return wanted;
}

// Catches: an option that cannot be changed on a bond in use, or breaks the bond for good; and
// shows the cost of each change.
TEST(KernelTraffic, EveryOptionOfEveryModeWhileTrafficFlows) {
  constexpr unsigned kSoon = 60;  // ms; some are lost, which is shown and not judged
  printf("  lost packets of those sent while one option changed and changed back\n");
  for (unsigned number = 0; number < netlink::kBondModes; ++number) {
    auto mode = BondMode(number);
    Namespace near, far;
    cable(near, far, "eth0");
    cable(near, far, "eth1");
    far.run([&] { settle(farEnd(mode)); });
    BondOptions options;
    options[O::kMode] = number;
    options[O::kMiimon] = 20;
    if (mode == BondMode::kLacp) options[O::kLacpRate] = 1;
    near.run([&] { settle(bonded(options, "10.1.0.1/24")); });
    Flow flow(near, far, "10.1.0.2");
    ASSERT_TRUE(flow.works(20000)) << netlink::nameOf(mode).cStr();
    pause(300);
    kj::Vector<kj::String> costs;
    unsigned still = flow.during([] {}, kSoon).lost();
    for (auto& rule : netlink::bondRules()) {
      // An option without meaning in this mode is not sent; the mode itself comes below.
      bool apart = rule.option == O::kMode || rule.option == O::kActiveMember ||
                   rule.option == O::kPrimary || rule.option == O::kMinLinks;
      if (apart || !rule.fits(mode)) continue;
      auto changed = options;
      auto standard = options[rule.option].value_or(rule.standard);
      changed[rule.option] = standard == rule.least ? standard + 1 : rule.least;
      if (rule.option == O::kUpDelay || rule.option == O::kDownDelay ||
          rule.option == O::kPeerNotifDelay) {
        changed[rule.option] = 40;
      }
      if (rule.option == O::kArpInterval) {
        changed[O::kMiimon] = 0;
        changed[rule.option] = 50;
        changed.arpTargets = {ip("10.1.0.2")};
      }
      if (rule.option == O::kLacpActive) continue;  // with both ends passive nothing aggregates
      auto count = flow.during(
          [&] {
            near.run([&] { settle(bonded(changed, "10.1.0.1/24")); });
            pause(50);
            near.run([&] { settle(bonded(options, "10.1.0.1/24")); });
          },
          kSoon);
      if (count.lost() > still) costs.add(kj::str(rule.name, " ", count.lost(), "/", count.sent));
      EXPECT_TRUE(flow.works(15000)) << rule.name.cStr() << " in " << netlink::nameOf(mode).cStr();
    }
    printf("  %-14s %s\n", netlink::nameOf(mode).cStr(),
           costs.size() == 0 ? "none" : kj::strArray(costs, ", ").cStr());
  }
}

// Catches: a bond that loses its traffic because one member has no carrier, or goes.
TEST(KernelTraffic, OneOfTwoCablesIsEnough) {
  Namespace near, far;
  cable(near, far, "eth0");
  cable(near, far, "eth1");
  BondOptions options;
  options[O::kMode] = uint32_t(BondMode::kActiveBackup);
  options[O::kMiimon] = 20;
  // No bridge, because it would get another hardware address when it loses a port.
  far.run([&] { settle(bonded(options, "10.1.0.2/24")); });
  near.run([&] { settle(bonded(options, "10.1.0.1/24")); });
  Flow flow(near, far, "10.1.0.2");
  ASSERT_TRUE(flow.works(10000));
  far.run([] {
    auto kernel = netlink::openKernel();
    netlink::setUp(*kernel, netlink::indexOf(*kernel, "eth0"), false);
  });
  pause(300);
  EXPECT_TRUE(flow.works(5000));
  near.run([&] {
    auto kernel = netlink::openKernel();
    auto eth0 = KJ_ASSERT_NONNULL(netlink::findLink(*kernel, "eth0"));
    ASSERT_TRUE(eth0.bondMember.has_value());
    EXPECT_EQ(netlink::miiStatusName(eth0.bondMember->miiStatus), "down");
    EXPECT_GE(eth0.bondMember->failures, 1u);
    netlink::change(*kernel, netlink::DeleteLink{eth0.index});
    settle(bonded(options, "10.1.0.1/24"));
  });
  EXPECT_TRUE(flow.works(5000));
}

// --- WireGuard
// ------------------------------------------------------------------------------------
netlink::WireguardSecret secret(kj::byte number) {
  kj::byte bytes[32] = {8, number};
  return KJ_ASSERT_NONNULL(netlink::WireguardSecret::parse(kj::encodeBase64(bytes)));
}

struct Side {
  kj::byte key;
  kj::StringPtr own;
  uint16_t port = 0;
  struct Peer {
    kj::byte key;
    kj::StringPtr network, endpoint = ""_kj;
  };
  std::initializer_list<Peer> peers;
};

Wanted tunnel(const Side& side) {
  Wanted wanted;
  auto& wg0 = wanted.links.add(link("wg0", "wireguard"));
  wg0.wireguard.privateKey = secret(side.key);
  wg0.wireguard.listenPort = side.port;
  for (auto& peer : side.peers) {
    WantedPeer entry;
    entry.publicKey = secret(peer.key).publicKey();
    entry.allowed = {prefix(peer.network)};
    if (peer.endpoint.size() > 0) {
      entry.resolved = Endpoint{ip(peer.endpoint), 51820};
      entry.keepalive = 5;
    }
    wg0.wireguard.peers.add(kj::mv(entry));
  }
  wanted.addresses.add(address("wg0", side.own));
  return wanted;
}

void plain(kj::StringPtr name, kj::StringPtr own) {
  auto kernel = netlink::openKernel();
  unsigned index = netlink::indexOf(*kernel, name);
  netlink::addAddress(*kernel, index, prefix(own));
  netlink::setUp(*kernel, index);
}

// Catches: keys, endpoints and networks that Linux understands otherwise; and a change of one peer
// that costs another its session.
TEST(KernelTraffic, WireguardPeersComeAndGoAndOthersDoNotNotice) {
  Namespace hub, b, c;
  cable(hub, b, "tob");
  cable(hub, c, "toc");
  hub.run([] { plain("tob", "192.0.2.1/30"), plain("toc", "192.0.2.5/30"); });
  b.run([] { plain("tob", "192.0.2.2/30"); });
  c.run([] { plain("toc", "192.0.2.6/30"); });
  auto atHub = [&](std::initializer_list<Side::Peer> peers, uint16_t port = 51820) {
    hub.run([&] { settle(tunnel({1, "10.7.0.1/24", port, peers})); });
  };
  auto atC = [&](kj::byte key) {
    c.run([&] { settle(tunnel({key, "10.7.0.3/24", 0, {{1, "10.7.0.0/24", "192.0.2.5"}}})); });
  };
  atHub({{2, "10.7.0.2/32"}});
  b.run([] { settle(tunnel({2, "10.7.0.2/24", 0, {{1, "10.7.0.0/24", "192.0.2.1"}}})); });
  Flow flow(b, hub, "10.7.0.1");
  ASSERT_TRUE(flow.works(20000));
  unsigned lost = 0;
  atC(3);
  lost += flow.during([&] { atHub({{2, "10.7.0.2/32"}, {3, "10.7.0.3/32"}}); }).lost();
  {
    Flow other(c, hub, "10.7.0.1");
    EXPECT_TRUE(other.works(20000)) << "the peer that was added";
    lost += flow.during([&] {
                  atC(4);
                  atHub({{2, "10.7.0.2/32"}, {4, "10.7.0.3/32"}});
                })
                .lost();
    EXPECT_TRUE(other.works(20000)) << "the peer with a new key";
    lost += flow.during([&] { atHub({{2, "10.7.0.2/32"}}); }).lost();
    pause(200);
    EXPECT_FALSE(other.works(500)) << "the peer that was removed";
  }
  EXPECT_EQ(lost, 0u);
  hub.run([] {
    auto kernel = netlink::openKernel();
    auto device = kernel->wireguard(netlink::indexOf(*kernel, "wg0"));
    EXPECT_TRUE(device.publicKey == secret(1).publicKey());
    EXPECT_EQ(device.listenPort, 51820);
    ASSERT_EQ(device.peers.size(), 1u);
    EXPECT_TRUE(device.peers[0].publicKey == secret(2).publicKey());
    EXPECT_GT(device.peers[0].lastHandshake, 0);
    EXPECT_GT(device.peers[0].received, 0u);
    EXPECT_EQ(device.peers[0].endpoint->address, ip("192.0.2.2"));
    auto dump = output("wg", {"show", "wg0", "dump"});
    auto line = kj::str(netlink::toText(secret(2).publicKey()), "\t(none)\t192.0.2.2:");
    expectAll(dump, {line, "\t10.7.0.2/32\t", netlink::toText(secret(1).publicKey())});
    EXPECT_EQ(strstr(dump.cStr(), netlink::toText(secret(4).publicKey()).cStr()), nullptr);
  });
}

// Catches: requests that are too large for one message, cut or refused.
TEST(KernelTraffic, AThousandPeersAreReadAsTheyWereSet) {
  Namespace ns;
  ns.run([] {
    auto kernel = netlink::openKernel();
    unsigned index = netlink::addLink(*kernel, "wg0", netlink::Wireguard{});
    netlink::SetWireguard set{.index = index, .privateKey = secret(1)};
    for (unsigned i = 0; i < 1000; ++i) {
      netlink::SetPeer peer{.replaceAllowed = true};
      peer.publicKey = secret(2).publicKey();
      peer.publicKey[0] = i;
      peer.publicKey[1] = i >> 8;
      unsigned networks = i == 500 ? 1000 : 1 + i % 3;
      for (unsigned n = 0; n < networks; ++n) {
        peer.allowed.push_back(prefix(kj::str("fd00:", kj::hex(i), ":", kj::hex(n), "::/48")));
      }
      set.peers.push_back(std::move(peer));
    }
    netlink::change(*kernel, kj::mv(set));
    auto device = kernel->wireguard(index);
    ASSERT_EQ(device.peers.size(), 1000u);
    for (unsigned i = 0; i < 1000; ++i) {
      EXPECT_EQ(device.peers[i].allowed.size(), i == 500 ? 1000 : 1 + i % 3) << i;
    }
  });
}

// Catches: a dump of another object that is read as a device.
TEST(KernelTraffic, WhatIsNoTunnelIsSaidToBeNone) {
  Namespace ns;
  ns.run([] {
    auto kernel = netlink::openKernel();
    unsigned index = netlink::addLink(*kernel, "d0", netlink::Dummy{});
    EXPECT_ANY_THROW(kernel->wireguard(index));
    EXPECT_NE(codeOf(*kernel, netlink::SetWireguard{.index = index, .listenPort = 9}), 0);
  });
}

}  // namespace
}  // namespace talos::networkd
