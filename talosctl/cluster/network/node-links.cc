#include "talosctl/cluster/network/node-links.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/veth.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "common/base/error.h"
#include "common/netlink/netlink-codec.h"
#include "common/netlink/netlink-socket.h"

namespace talos::cluster {

kj::AutoCloseFd makeTap(kj::StringPtr name) {
  if (name.size() == 0 || name.size() >= IFNAMSIZ) {
    fail(ErrorKind::kInvalidArgument, kj::str("tap device \"", name, "\": the name must have 1 to ",
                                              IFNAMSIZ - 1, " characters"));
  }
  int raw = ::open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (raw < 0) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("tap device \"", name, "\": cannot open /dev/net/tun: ", strerror(errno)));
  }
  kj::AutoCloseFd fd(raw);
  ifreq request{};
  memcpy(request.ifr_name, name.begin(), name.size());
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (::ioctl(fd, TUNSETIFF, &request) < 0) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("tap device \"", name, "\": cannot create it: ", strerror(errno)));
  }
  return fd;
}

namespace {

constexpr kj::Duration kKernelAnswer =
    30 * kj::SECONDS;  // links are made under one lock of the host

kj::Array<kj::byte> octets(kj::StringPtr mac) {
  auto result = kj::heapArray<kj::byte>(6);
  unsigned v[6] = {};
  if (sscanf(mac.cStr(), "%2x:%2x:%2x:%2x:%2x:%2x", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5]) !=
      6) {
    fail(ErrorKind::kInvalidArgument, kj::str("\"", mac, "\" is not a valid hardware address"));
  }
  for (size_t i = 0; i < 6; ++i) result[i] = v[i];
  return result;
}

}  // namespace

void makeVeth(const Veth& veth) {
  netlink::MessageBuilder out(RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL);
  out.header<ifinfomsg>();
  out.putText(IFLA_IFNAME, veth.name);
  out.putU32(IFLA_MTU, veth.mtu);
  out.nest(IFLA_LINKINFO, [&] {
    out.putText(IFLA_INFO_KIND, "veth");
    out.nest(IFLA_INFO_DATA, [&] {
      out.nest(VETH_INFO_PEER, [&] {
        out.header<ifinfomsg>();
        out.putText(IFLA_IFNAME, "eth0");
        out.put(IFLA_ADDRESS, octets(veth.mac));
        out.putU32(IFLA_MTU, veth.mtu);
        out.putU32(IFLA_NET_NS_FD, veth.peerNamespace);
      });
    });
  });
  auto request = out.finish();
  netlink::Socket socket(NETLINK_ROUTE, kKernelAnswer);
  auto answers = socket.transact(kj::arrayPtr(&request, 1));
  auto& ack = answers[0];
  if (ack.code == 0) return;
  auto code = ack.code < 0 ? -ack.code : ack.code;
  fail(ErrorKind::kFailedPrecondition,
       kj::str("cannot create the veth pair ", veth.name, ": ",
               ack.message.size() > 0 ? kj::mv(ack.message) : kj::str(strerror(code))));
}

void removeVeth(netlink::Kernel& kernel, kj::StringPtr name) {
  auto link = netlink::findLink(kernel, name);
  KJ_IF_MAYBE (found, link) {
    netlink::Change change = netlink::DeleteLink{.index = found->index};
    auto failures = kernel.apply(kj::arrayPtr(&change, 1));
    KJ_IF_MAYBE (failure, failures[0]) {
      if (failure->code != ENODEV) fail(ErrorKind::kFailedPrecondition, failure->message);
    }
  }
}

}  // namespace talos::cluster
