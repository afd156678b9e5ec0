// For tests: network namespaces, in which a thread opens sockets and which it leaves again; and
// hosts of a segment, each such a namespace. Needs root.
#pragma once

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <kj/string.h>
#include <sched.h>
#include <unistd.h>

#include "common/netlink/test-netlink.h"

namespace talos {

inline kj::AutoCloseFd placeAt(kj::StringPtr path) {
  int fd;
  KJ_SYSCALL(fd = open(path.cStr(), O_RDONLY | O_CLOEXEC), path);
  return kj::AutoCloseFd(fd);
}
inline kj::AutoCloseFd thisNamespace() {
  return placeAt("/proc/thread-self/ns/net");
}
inline kj::AutoCloseFd placeOf(pid_t pid) {
  return placeAt(kj::str("/proc/", pid, "/ns/net"));
}
inline void enter(int place) {
  KJ_SYSCALL(setns(place, CLONE_NEWNET));
}
// Runs the body in a namespace; its sockets and children stay there.
template <typename F>
auto inside(int place, F&& body) {
  auto home = thisNamespace();
  enter(place);
  KJ_DEFER(enter(home));
  return body();
}
inline kj::AutoCloseFd newPlace() {
  auto home = thisNamespace();
  KJ_SYSCALL(unshare(CLONE_NEWNET), "these tests need root");
  KJ_DEFER(enter(home));
  return thisNamespace();
}

// Connects a new port of the bridge, in the namespace of `kernel` and of this thread, by a cable to
// a new link eth0 in that place.
inline void plugIn(netlink::Kernel& kernel, unsigned bridge, kj::StringPtr port, int place,
                   kj::Maybe<const Prefix&> address = nullptr) {
  auto far = kj::str(port, "-far");
  auto near = netlink::addVeth(kernel, port, far);
  netlink::setMaster(kernel, near, bridge);
  netlink::setUp(kernel, near);
  netlink::move(netlink::indexOf(kernel, far), place);
  inside(place, [&] {
    auto there = netlink::openKernel();
    auto eth0 = netlink::indexOf(*there, far);
    netlink::rename(eth0, "eth0");
    netlink::setUp(*there, netlink::indexOf(*there, "lo"));
    netlink::setUp(*there, eth0);
    KJ_IF_MAYBE (own, address) netlink::addAddress(*there, eth0, *own);
  });
}

}  // namespace talos
