#include "talosctl/cluster/network/cluster-network.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <sched.h>
#include <string.h>

#include "common/base/error.h"
#include "common/netlink/netlink.h"
#include "talosctl/cluster/network/tap.h"
#include "talosctl/cluster/network/veth.h"

namespace talos::cluster {
namespace {

kj::AutoCloseFd thisNamespace() {
  int fd;
  KJ_SYSCALL(fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  return kj::AutoCloseFd(fd);
}

// Runs it in that network namespace and comes back, however it ends.
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
  route.destination = KJ_ASSERT_NONNULL(Prefix::parse("0.0.0.0/0"));
  route.gateway = gateway;
  route.link = link;
  route.protocol = RTPROT_BOOT;
  netlink::change(kernel, netlink::AddRoute{.route = kj::mv(route)});
}

}  // namespace

struct Network::Impl {
  kj::Own<netlink::Kernel> kernel = netlink::openKernel();
  unsigned bridge = 0;
  unsigned mtu = 0;
  Prefix gateway;
  kj::Vector<kj::AutoCloseFd> taps;

  void addToBridge(kj::StringPtr name);
};

Network::Network(kj::StringPtr gateway, unsigned prefix, unsigned mtu) : impl(kj::heap<Impl>()) {
  auto& kernel = *impl->kernel;
  impl->mtu = mtu;
  netlink::setUp(kernel, netlink::indexOf(kernel, "lo"));
  impl->bridge = netlink::addLink(kernel, "bridge", netlink::Bridge());
  Prefix address{KJ_REQUIRE_NONNULL(Ip::parse(gateway), gateway), prefix};
  impl->gateway = address;
  netlink::addAddress(kernel, impl->bridge, address);
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
    netlink::addAddress(*kernel, eth0, {Ip::require(inside.address), impl->gateway.length});
    netlink::setUp(*kernel, eth0);
    addDefaultRoute(*kernel, eth0, impl->gateway.address);
  });
  return made;
}

void Network::removeContainer(kj::StringPtr name) {
  removeVeth(*impl->kernel, name);
}

}  // namespace talos::cluster
