#include "talosctl/cluster/network/host-network.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <kj/debug.h>
#include <kj/thread.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>

#include "common/netlink/netlink.h"

namespace talos::cluster {
namespace {

constexpr size_t kMostAddresses = 16;

kj::AutoCloseFd ownNetwork() {
  int raw;
  KJ_SYSCALL(raw = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  return kj::AutoCloseFd(raw);
}

kj::Maybe<Ip> addressOf(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return nullptr;
  int family = entry.ifa_addr->sa_family;
  if (family != AF_INET && family != AF_INET6) return nullptr;
  sockaddr_storage name{};
  memcpy(&name, entry.ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  return Endpoint::of(name).map([](const Endpoint& endpoint) { return endpoint.address; });
}

}  // namespace

HostNetwork::HostNetwork() : network(ownNetwork()) {}

bool HostNetwork::isCurrent() const {
  struct stat current, kept;
  auto own = ownNetwork();
  KJ_SYSCALL(fstat(own, &current));
  KJ_SYSCALL(fstat(network, &kept));
  return current.st_dev == kept.st_dev && current.st_ino == kept.st_ino;
}

void HostNetwork::inside(kj::Function<void()> work) const {
  kj::Thread thread([&] {
    KJ_SYSCALL(setns(network, CLONE_NEWNET));
    work();
  });
}

kj::AutoCloseFd HostNetwork::tcpSocket(int family) const {
  kj::AutoCloseFd result;
  inside([&] {
    int raw;
    KJ_SYSCALL(raw = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    result = kj::AutoCloseFd(raw);
  });
  return result;
}

kj::Vector<Ip> HostNetwork::addresses() const {
  kj::Vector<Ip> result;
  inside([&] {
    ifaddrs* list = nullptr;
    KJ_SYSCALL(getifaddrs(&list));
    KJ_DEFER(freeifaddrs(list));
    for (auto* entry = list; entry != nullptr; entry = entry->ifa_next) {
      KJ_IF_MAYBE (address, addressOf(*entry)) result.add(*address);
    }
  });
  return result;
}

bool wireguardWorks() {
  bool works = false;
  {
    kj::Thread thread([&] {
      works = kj::runCatchingExceptions([] {
                KJ_SYSCALL(unshare(CLONE_NEWNET));
                auto kernel = netlink::openKernel();
                netlink::addLink(*kernel, "wg0", netlink::Wireguard());
              }) == nullptr;
    });
  }
  return works;
}

kj::Vector<Ip> dialOrder(kj::ArrayPtr<const Ip> addresses) {
  kj::Vector<Ip> result;
  result.add(Ip::require("127.0.0.1"));
  result.add(Ip::require("::1"));
  for (int family : {AF_INET, AF_INET6}) {
    for (auto& address : addresses) {
      bool usable = address.family() == family && address.isUnicast() && !address.isLoopback() &&
                    !address.isLinkLocal();
      if (usable && result.size() < kMostAddresses) result.add(address);
    }
  }
  return result;
}

}  // namespace talos::cluster
