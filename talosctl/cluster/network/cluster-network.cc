#include "talosctl/cluster/network/cluster-network.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/if_addr.h>
#include <sched.h>
#include <string.h>

#include <algorithm>
#include <array>

#include "common/base/error.h"
#include "common/netlink/netlink.h"
#include "talosctl/cluster/network/node-links.h"

namespace talos::cluster {
namespace {

kj::AutoCloseFd thisNamespace() {
  int fd;
  KJ_SYSCALL(fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  return kj::AutoCloseFd(fd);
}

// Runs `work` in this network namespace and returns to the old one, even after an exception.
template <typename F>
void inNamespace(int fd, F&& what) {
  auto home = thisNamespace();
  KJ_SYSCALL(setns(fd, CLONE_NEWNET));
  KJ_DEFER(KJ_SYSCALL(setns(home, CLONE_NEWNET)));
  what();
}

kj::AutoCloseFd newNamespace() {
  auto home = thisNamespace();
  if (unshare(CLONE_NEWNET) < 0) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("cannot create a network namespace: ", strerror(errno)));
  }
  KJ_DEFER(KJ_SYSCALL(setns(home, CLONE_NEWNET)));
  return thisNamespace();
}

void addDefaultRoute(netlink::Kernel& kernel, unsigned link, const Ip& gateway) {
  netlink::Route route;
  route.destination = Prefix::all(gateway.family());
  route.gateway = gateway;
  route.link = link;
  route.protocol = RTPROT_BOOT;
  netlink::change(kernel, netlink::AddRoute{.route = kj::mv(route)});
}

// Disables duplicate address detection (RFC 4862 §5.4): otherwise the address is tentative for a
// second or two, and cannot be listened on.
void addUsableAddress(netlink::Kernel& kernel, unsigned link, const Prefix& prefix) {
  netlink::Address address{.link = link, .prefix = prefix};
  if (prefix.address.family() == AF_INET6) address.flags = IFA_F_NODAD;
  netlink::change(kernel, netlink::AddAddress{.address = address});
}

// Returns a locally administered address that no node has (cluster-plan.cc): from the octets of the
// IPv4 address, or the last four of an IPv6 address.
std::array<kj::byte, 6> hardwareAddressOf(const Ip& gateway) {
  std::array<kj::byte, 6> address = {0x02, 0};
  auto octets = gateway.bytes();
  std::copy(octets.end() - 4, octets.end(), address.begin() + 2);
  return address;
}

}  // namespace

struct Network::Impl {
  kj::Own<netlink::Kernel> kernel = netlink::openKernel();
  unsigned bridge = 0;
  unsigned mtu = 0;
  kj::Vector<Prefix> gateways;
  kj::Vector<kj::AutoCloseFd> taps;

  void addToBridge(kj::StringPtr name);
};

Network::Network(kj::ArrayPtr<const Prefix> gateways, unsigned mtu) : impl(kj::heap<Impl>()) {
  auto& kernel = *impl->kernel;
  impl->mtu = mtu;
  netlink::setUp(kernel, netlink::indexOf(kernel, "lo"));
  impl->bridge = netlink::addLink(kernel, "bridge", netlink::Bridge());
  // A bridge without its own address takes the address of its lowest port. This address would
  // change whenever a node is killed or started, while all nodes remember the previous one for the
  // gateway.
  if (gateways.size() > 0) {
    netlink::change(kernel,
                    netlink::SetLink{.index = impl->bridge,
                                     .hardwareAddress = hardwareAddressOf(gateways[0].address)});
  }
  impl->gateways.addAll(gateways);
  for (auto& gateway : gateways) addUsableAddress(kernel, impl->bridge, gateway);
  netlink::setUp(kernel, impl->bridge);
}

Network::~Network() noexcept(false) = default;

void Network::Impl::addToBridge(kj::StringPtr name) {
  netlink::SetLink link;
  link.index = netlink::indexOf(*kernel, name);
  link.mtu = mtu;
  link.master = bridge;
  link.up = true;
  netlink::change(*kernel, kj::mv(link));
}

int Network::addTap(kj::StringPtr name) {
  auto tap = makeTap(name);
  impl->addToBridge(name);
  int fd = tap.get();
  impl->taps.add(kj::mv(tap));
  return fd;
}

kj::AutoCloseFd Network::addContainer(kj::StringPtr name, const Inside& inside) {
  removeContainer(name);
  auto made = newNamespace();
  makeVeth({.name = name, .mac = inside.mac, .mtu = impl->mtu, .peerNamespace = made.get()});
  impl->addToBridge(name);
  inNamespace(made, [&] {
    auto kernel = netlink::openKernel();
    netlink::setUp(*kernel, netlink::indexOf(*kernel, "lo"));
    auto eth0 = netlink::indexOf(*kernel, "eth0");
    KJ_REQUIRE(inside.addresses.size() == impl->gateways.size());
    for (auto i : kj::indices(impl->gateways)) {
      addUsableAddress(*kernel, eth0, {inside.addresses[i], impl->gateways[i].length});
    }
    netlink::setUp(*kernel, eth0);
    for (auto& gateway : impl->gateways) addDefaultRoute(*kernel, eth0, gateway.address);
  });
  return made;
}

void Network::removeContainer(kj::StringPtr name) {
  removeVeth(*impl->kernel, name);
}

}  // namespace talos::cluster
