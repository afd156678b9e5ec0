#include "talosctl/views/bpf-filter.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <string>

#include "common/base/error.h"
#include "common/testing/test-namespace.h"

namespace talos::talosctl {
namespace {

std::string errorFor(kj::StringPtr text) {
  auto e = kj::runCatchingExceptions([&] { parseBpfFilter(text); });
  KJ_IF_MAYBE (x, e) return messageOf(*x).cStr();
  return "accepted";
}

TEST(BpfFilter, IsWhatTcpdumpPrints) {
  auto steps = parseBpfFilter(
      "{ 0x28, 0, 0, 0x0000000c },\n{ 0x15, 0, 3, 0x00000800 },\n{ 0x6, 0, 0, 0x00040000 }\n");
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0], (BpfStep{0x28, 0, 0, 12}));
  EXPECT_EQ(steps[1], (BpfStep{0x15, 0, 3, 0x800}));
  EXPECT_EQ(steps[2], (BpfStep{6, 0, 0, 0x40000}));
}

// Catches: half an instruction, a number that is truncated.
TEST(BpfFilter, RefusesTheRestWithItsLine) {
  using ::testing::StartsWith;
  EXPECT_THAT(errorFor(""), StartsWith("line 1 of the filter has no instruction; use what `tcp"));
  EXPECT_THAT(errorFor("{ 1, 2, 3, 4 },\n{ 1, 2, 3 }"),
              StartsWith("line 2 of the filter lacks a \",\""));
  EXPECT_THAT(errorFor("{ 65536, 0, 0, 0 }"),
              StartsWith("line 1 of the filter has a number above 65535"));
  EXPECT_THAT(errorFor("{ 1, 256, 0, 0 }"), StartsWith("line 1 of the filter has a number"));
  EXPECT_THAT(errorFor("{ 1, -1, 0, 0 }"), StartsWith("line 1 of the filter lacks a number"));
  EXPECT_THAT(errorFor("{ 1, 1, 0, 4294967296 }"), StartsWith("line 1 of the filter has a"));
  std::string many;
  for (int i = 0; i < 4097; ++i) many += "{ 6, 0, 0, 0 },";
  EXPECT_THAT(errorFor(many.c_str()), StartsWith("line 1 of the filter has more than 4096"));
}

// kFrom is a fixed source port, because the kernel might choose one of the others.
constexpr uint16_t kLeftOut = 50000, kOther = 50001, kFrom = 4711;

void upLoopback() {
  kj::AutoCloseFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  strcpy(request.ifr_name, "lo");
  KJ_SYSCALL(ioctl(fd, SIOCGIFFLAGS, &request));
  request.ifr_flags |= IFF_UP;
  KJ_SYSCALL(ioctl(fd, SIOCSIFFLAGS, &request));
}

// Sends a TCP connection request, which the host refuses, or a datagram.
void send(int family, int type, uint16_t port) {
  kj::AutoCloseFd fd(socket(family, type | SOCK_CLOEXEC, 0));
  if (family == AF_INET) {
    sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(kFrom)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)));
    to.sin_port = htons(port);
    connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to));
  } else {
    sockaddr_in6 to{.sin6_family = AF_INET6, .sin6_port = htons(kFrom)};
    to.sin6_addr = in6addr_loopback;
    KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)));
    to.sin6_port = htons(port);
    connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to));
  }
  if (type == SOCK_DGRAM) [[maybe_unused]]
    auto n = write(fd, "x", 1);
}

// Returns "to tcp4 50001" and "from tcp4 4711" for the packets that passed the filter before the
// last datagram.
std::multiset<std::string> receivedPackets(int fd) {
  std::multiset<std::string> all;
  kj::byte frame[2048];
  for (;;) {
    auto size = recv(fd, frame, sizeof(frame), 0);
    KJ_ASSERT(size > 0, "no packet within the limit");
    bool six = frame[12] == 0x86;
    auto protocol = frame[six ? 14 + 6 : 14 + 9];
    size_t ports = six ? 14 + 40 : 14 + 20;
    auto source = frame[ports] << 8 | frame[ports + 1];
    auto destination = frame[ports + 2] << 8 | frame[ports + 3];
    if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) continue;  // skips errors of ICMP
    if (protocol == IPPROTO_UDP && destination == 9) return all;
    auto name = std::string(protocol == IPPROTO_TCP ? "tcp" : "udp") + (six ? "6 " : "4 ");
    all.insert("from " + name + std::to_string(source));
    all.insert("to " + name + std::to_string(destination));
  }
}

// Catches: a jump to another instruction, an offset of another header, a filter that leaves out
// packets to the port and not the answers from it. Runs against the kernel, which executes the
// filter.
TEST(BpfFilter, LeavesOutOnePortOfTcp) {
  inNamespace([] {
    upLoopback();
    kj::AutoCloseFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    auto steps = KJ_MAP(step, withoutTcpPort(kLeftOut)) {
      return sock_filter{step.code, step.jt, step.jf, step.k};
    };
    sock_fprog program{static_cast<uint16_t>(steps.size()), steps.begin()};
    KJ_SYSCALL(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)));
    timeval limit{120, 0};
    KJ_SYSCALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex("lo"));
    KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)));
    for (auto family : {AF_INET, AF_INET6}) {
      send(family, SOCK_STREAM, kLeftOut);
      send(family, SOCK_STREAM, kOther);
      send(family, SOCK_DGRAM, kLeftOut);
    }
    send(AF_INET, SOCK_DGRAM, 9);
    auto all = receivedPackets(fd);
    for (auto family : {"4 ", "6 "}) {
      for (std::string way : {"to ", "from "}) {
        EXPECT_GE(all.count(way + "tcp" + family + "50001"), 1u) << way << family;
        EXPECT_EQ(all.count(way + "tcp" + family + "50000"), 0u) << way << family;
      }
      EXPECT_GE(all.count(std::string("to udp") + family + "50000"), 1u) << family;
    }
  });
}

}  // namespace
}  // namespace talos::talosctl
