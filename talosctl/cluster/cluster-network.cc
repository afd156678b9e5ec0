#include "talosctl/cluster/cluster-network.h"

#include <kj/debug.h>

#include "common/netlink/netlink.h"
#include "talosctl/cluster/tap.h"

namespace talos::cluster {

struct Network::Impl {
  kj::Own<netlink::Kernel> kernel = netlink::openKernel();
  unsigned bridge = 0;
  unsigned mtu = 0;
  kj::Vector<kj::AutoCloseFd> taps;
};

Network::Network(kj::StringPtr gateway, unsigned prefix, unsigned mtu) : impl(kj::heap<Impl>()) {
  auto& kernel = *impl->kernel;
  impl->mtu = mtu;
  netlink::setUp(kernel, netlink::indexOf(kernel, "lo"));
  impl->bridge = netlink::addLink(kernel, "bridge", netlink::Bridge());
  Prefix address{KJ_REQUIRE_NONNULL(Ip::parse(gateway), gateway), prefix};
  netlink::addAddress(kernel, impl->bridge, address);
  netlink::setUp(kernel, impl->bridge);
}

Network::~Network() noexcept(false) = default;

int Network::addTap(kj::StringPtr name) {
  auto& kernel = *impl->kernel;
  auto tap = makeTap(name);
  auto index = netlink::indexOf(kernel, name);
  netlink::SetLink link;
  link.index = index;
  link.mtu = impl->mtu;
  link.master = impl->bridge;
  link.up = true;
  netlink::change(kernel, kj::mv(link));
  int fd = tap.get();
  impl->taps.add(kj::mv(tap));
  return fd;
}

}  // namespace talos::cluster
