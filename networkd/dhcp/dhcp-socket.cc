#include "networkd/dhcp/dhcp-socket.h"

#include <errno.h>
#include <kj/debug.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "networkd/dhcp/dhcp-message4.h"
#include "networkd/dhcp/dhcp-message6.h"

namespace talos::networkd::dhcp {
namespace {

constexpr unsigned kMostAtOnce = 64;
constexpr size_t kLargestPacket = 4096;
constexpr int kOn = 1;
constexpr kj::byte kAll[ETH_ALEN] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

kj::AutoCloseFd open(int family, int type, int protocol) {
  int fd;
  KJ_SYSCALL(fd = ::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  return kj::AutoCloseFd(fd);
}

template <typename T>
void set(int fd, int level, int option, const T& value) {
  KJ_SYSCALL(setsockopt(fd, level, option, &value, sizeof(value)), level, option);
}

void filter(int fd, kj::ArrayPtr<const sock_filter> code) {
  sock_fprog program{static_cast<uint16_t>(code.size()), const_cast<sock_filter*>(code.begin())};
  set(fd, SOL_SOCKET, SO_ATTACH_FILTER, program);
}

void bindPackets(int fd, unsigned index, uint16_t protocol) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(protocol);
  address.sll_ifindex = static_cast<int>(index);
  KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)));
}

void bindToLink(int fd, kj::StringPtr link) {
  KJ_SYSCALL(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, link.begin(), link.size()), link);
}

Ip addressIn(const sockaddr_storage& name) {
  return Endpoint::of(name).orDefault({}).address;
}

Bytes hardwareIn(const sockaddr_storage& storage) {
  if (storage.ss_family != AF_PACKET) return nullptr;
  auto& link = reinterpret_cast<const sockaddr_ll&>(storage);
  if (link.sll_halen != ETH_ALEN) return nullptr;
  return Bytes(link.sll_addr, ETH_ALEN);
}

// UDP to port 68, in the first or only fragment; offsets from the IPv4 header.
constexpr sock_filter kToClientPort[] = {
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 9),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 6),
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 6),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 4, 0),
    BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
    BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kClientPort4, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, 0xffff),
    BPF_STMT(BPF_RET | BPF_K, 0),
};
constexpr sock_filter kNothing[] = {BPF_STMT(BPF_RET | BPF_K, 0)};

}  // namespace

bool LinkState::operator==(const LinkState& other) const {
  return index == other.index && running == other.running &&
         hardwareAddress.asPtr() == other.hardwareAddress.asPtr();
}

kj::Maybe<LinkState> lookAtLink(kj::StringPtr name) {
  ifreq request{};
  if (name.size() == 0 || name.size() >= sizeof(request.ifr_name)) return nullptr;
  memcpy(request.ifr_name, name.begin(), name.size());
  auto fd = open(AF_INET, SOCK_DGRAM, 0);
  LinkState state;
  if (ioctl(fd, SIOCGIFINDEX, &request) < 0) return nullptr;
  state.index = request.ifr_ifindex;
  if (ioctl(fd, SIOCGIFFLAGS, &request) < 0) return nullptr;
  constexpr unsigned kReady = IFF_UP | IFF_RUNNING;
  state.running = (request.ifr_flags & kReady) == kReady;
  if (ioctl(fd, SIOCGIFHWADDR, &request) < 0) return nullptr;
  if (request.ifr_hwaddr.sa_family == ARPHRD_ETHER) {
    state.hardwareAddress = kj::heapArray<kj::byte>(6);
    memcpy(state.hardwareAddress.begin(), request.ifr_hwaddr.sa_data, 6);
  }
  return kj::mv(state);
}

Listener::Listener(kj::UnixEventPort& port, kj::AutoCloseFd fdGiven)
    : fd(kj::mv(fdGiven)), observer(port, fd, kj::UnixEventPort::FdObserver::OBSERVE_READ) {}

kj::AutoCloseFd openPackets4(unsigned index) {
  auto fd = open(AF_PACKET, SOCK_DGRAM, 0);  // receives nothing until it is bound
  filter(fd, kToClientPort);
  set(fd, SOL_PACKET, PACKET_AUXDATA, kOn);
  bindPackets(fd, index, ETHERTYPE_IP);
  return fd;
}

kj::AutoCloseFd openArp(unsigned index) {
  auto fd = open(AF_PACKET, SOCK_DGRAM, 0);
  bindPackets(fd, index, ETHERTYPE_ARP);
  return fd;
}

kj::AutoCloseFd openUnicast4(kj::StringPtr link, const Ip& from) {
  auto fd = open(AF_INET, SOCK_DGRAM, 0);
  filter(fd, kNothing);
  set(fd, SOL_SOCKET, SO_REUSEADDR, kOn);
  bindToLink(fd, link);
  auto name = Endpoint{from, kClientPort4}.socketName();
  KJ_SYSCALL(bind(fd, name.get(), name.size()), from);
  return fd;
}

kj::AutoCloseFd openUdp6(kj::StringPtr link) {
  auto fd = open(AF_INET6, SOCK_DGRAM, 0);
  set(fd, IPPROTO_IPV6, IPV6_V6ONLY, kOn);
  set(fd, SOL_SOCKET, SO_REUSEADDR, kOn);
  bindToLink(fd, link);
  auto name = Endpoint{Ip::any(AF_INET6), kClientPort6}.socketName();
  KJ_SYSCALL(bind(fd, name.get(), name.size()));
  return fd;
}

kj::AutoCloseFd openAdvertisements(kj::StringPtr link, unsigned index) {
  auto fd = open(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
  icmp6_filter only;
  ICMP6_FILTER_SETBLOCKALL(&only);
  ICMP6_FILTER_SETPASS(ND_ROUTER_ADVERT, &only);
  set(fd, IPPROTO_ICMPV6, ICMP6_FILTER, only);
  set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, kOn);
  constexpr int kHops = 255;
  set(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, kHops);
  bindToLink(fd, link);
  ipv6_mreq group{};
  group.ipv6mr_interface = index;
  auto all = Ip::require("ff02::1");
  memcpy(&group.ipv6mr_multiaddr, all.bytes().begin(), all.bytes().size());
  set(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, group);
  return fd;
}

bool hasLinkLocal(kj::StringPtr link, unsigned index) {
  bool found = false;
  // Without IPv6 the socket cannot be opened either.
  auto failure = kj::runCatchingExceptions([&] {
    auto fd = open(AF_INET6, SOCK_DGRAM, 0);
    bindToLink(fd, link);
    auto to = Endpoint{Ip::require("ff02::2"), kServerPort6}.socketName(index);
    sockaddr_storage own{};
    socklen_t size = sizeof(own);
    found = connect(fd, to.get(), to.size()) == 0 &&
            getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
            addressIn(own).isLinkLocal();
  });
  return failure == nullptr && found;
}

bool receive(int fd, kj::Function<void(const Received&)> each) {
  auto buffer = kj::heapArray<kj::byte>(kLargestPacket);
  for (unsigned i = 0; i < kMostAtOnce; ++i) {
    sockaddr_storage from{};
    alignas(cmsghdr) char control[256];
    iovec part{buffer.begin(), buffer.size()};
    msghdr message{&from, sizeof(from), &part, 1, control, sizeof(control), 0};
    auto size = recvmsg(fd, &message, MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0)
      return false;  // The socket is empty, or the link vanished, which the link's
                     // state shows.
    Received received{.bytes = buffer.slice(0, static_cast<size_t>(size)),
                      .from = addressIn(from),
                      .checked = true,
                      .hopLimit = -1,
                      .sender = hardwareIn(from)};
    for (auto* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA) {
        tpacket_auxdata data;
        memcpy(&data, CMSG_DATA(c), sizeof(data));
        received.checked = (data.tp_status & TP_STATUS_CSUMNOTREADY) == 0;
      }
      if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT) {
        memcpy(&received.hopLimit, CMSG_DATA(c), sizeof(received.hopLimit));
      }
    }
    if ((message.msg_flags & MSG_TRUNC) == 0) each(received);
  }
  return true;
}

void sendToAll(int fd, unsigned index, uint16_t protocol, Bytes packet) {
  sendTo(fd, kAll, index, protocol, packet);
}

void sendTo(int fd, Bytes hardwareAddress, unsigned index, uint16_t protocol, Bytes packet) {
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_protocol = htons(protocol);
  to.sll_ifindex = static_cast<int>(index);
  to.sll_halen = ETH_ALEN;
  KJ_REQUIRE(hardwareAddress.size() == ETH_ALEN, "not an Ethernet address");
  memcpy(to.sll_addr, hardwareAddress.begin(), ETH_ALEN);
  KJ_SYSCALL(
      sendto(fd, packet.begin(), packet.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof(to)));
}

void sendTo(int fd, const Ip& to, uint16_t port, unsigned index, Bytes payload) {
  auto name = Endpoint{to, port}.socketName(index);
  KJ_SYSCALL(sendto(fd, payload.begin(), payload.size(), 0, name.get(), name.size()), to);
}

}  // namespace talos::networkd::dhcp
