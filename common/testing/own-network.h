// Network namespaces of tests. A program of unit tests has one from its first line on (main.cc), so
// that no other program can have its ports. OwnNetwork is one of a thread, in which every address
// of 10.0.0.0/8 and of fd00::/16 is local, so that a test can have ten thousand callers. Its
// sockets work for as long as they are open; a later namespace replaces it for sockets opened after
// it.
#pragma once

#include <kj/debug.h>
#include <kj/io.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/net/ip.h"

namespace talos {

// Makes all addresses of the prefix local.
inline void ownAll(int netlink, kj::StringPtr text) {
  auto prefix = KJ_ASSERT_NONNULL(Prefix::parse(text), text);
  struct {
    nlmsghdr header;
    rtmsg route;
    char attributes[64];
  } request{};
  auto add = [&](uint16_t type, const void* data, size_t size) {
    auto* at = reinterpret_cast<char*>(&request) + NLMSG_ALIGN(request.header.nlmsg_len);
    auto* attribute = reinterpret_cast<rtattr*>(at);
    attribute->rta_type = type;
    attribute->rta_len = RTA_LENGTH(size);
    memcpy(RTA_DATA(attribute), data, size);
    request.header.nlmsg_len =
        NLMSG_ALIGN(request.header.nlmsg_len) + RTA_ALIGN(attribute->rta_len);
  };
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof request.route);
  request.header.nlmsg_type = RTM_NEWROUTE;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK;
  request.route.rtm_family = prefix.address.family();
  request.route.rtm_dst_len = prefix.length;
  request.route.rtm_table = RT_TABLE_LOCAL;
  request.route.rtm_protocol = RTPROT_STATIC;
  request.route.rtm_scope = RT_SCOPE_HOST;
  request.route.rtm_type = RTN_LOCAL;
  auto bytes = prefix.address.bytes();
  unsigned loopback = if_nametoindex("lo");
  add(RTA_DST, bytes.begin(), bytes.size());
  add(RTA_OIF, &loopback, sizeof loopback);
  KJ_SYSCALL(send(netlink, &request, request.header.nlmsg_len, 0));
  struct {
    nlmsghdr header;
    nlmsgerr error;
    char rest[256];
  } answer{};
  KJ_SYSCALL(recv(netlink, &answer, sizeof answer, 0));
  KJ_ASSERT(answer.header.nlmsg_type == NLMSG_ERROR && answer.error.error == 0,
            "the kernel refused a local route", text, strerror(-answer.error.error));
}

// Acts in the namespace of this thread.
inline void ownTestAddresses() {
  int fd;
  KJ_SYSCALL(fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  kj::AutoCloseFd netlink(fd);
  for (auto prefix : {"10.0.0.0/8"_kj, "fd00::/16"_kj}) ownAll(netlink, prefix);
}

// Sets lo up in the namespace of this thread.
inline void setLoopbackUp() {
  int fd;
  KJ_SYSCALL(fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  kj::AutoCloseFd datagram(fd);
  ifreq loopback{};
  strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP;
  KJ_SYSCALL(ioctl(datagram, SIOCSIFFLAGS, &loopback));
}

struct OwnNetwork {
  OwnNetwork() {
    KJ_SYSCALL(unshare(CLONE_NEWNET), "these tests need root");
    setLoopbackUp();
    ownTestAddresses();
  }
  KJ_DISALLOW_COPY_AND_MOVE(OwnNetwork);
};

}  // namespace talos
