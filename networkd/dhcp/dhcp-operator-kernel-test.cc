// The operator of DHCPv4 with packets, on a link of a network namespace that each test creates: the
// test is the other end of the cable. Needs root.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/time.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "common/base/file.h"
#include "common/netlink/test-netlink.h"
#include "common/testing/test-ip.h"
#include "common/testing/test-namespace.h"
#include "networkd/dhcp/dhcp-operator4.h"
#include "networkd/dhcp/dhcp-packet4.h"

namespace talos::networkd::dhcp {
namespace {

using Type = Message4::Type;

// Limit for an event of milliseconds, on a machine that is many times slower.
constexpr auto kTimeout = 120 * kj::SECONDS;

template <typename F>
void until(kj::StringPtr what, F&& condition) {
  auto& clock = kj::systemPreciseMonotonicClock();
  auto deadline = clock.now() + kTimeout;
  while (!condition()) {
    KJ_REQUIRE(clock.now() < deadline, "did not happen within two minutes", what);
    std::this_thread::yield();
  }
}

// Receives every IPv4 packet of a link: the filter of openPackets4() is a client's.
kj::AutoCloseFd openAll(unsigned index) {
  int fd;
  KJ_SYSCALL(
      fd = ::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETHERTYPE_IP)));
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_protocol = htons(ETHERTYPE_IP);
  to.sll_ifindex = static_cast<int>(index);
  KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)));
  return kj::AutoCloseFd(fd);
}

// A server and another machine at the end of the cable; both send only when the test says so.
struct Wire {
  kj::Own<netlink::Kernel> kernel = netlink::openKernel();
  unsigned eth0 = netlink::addVeth(*kernel, "eth0", "peer");
  unsigned peer = netlink::indexOf(*kernel, "peer");
  kj::AutoCloseFd packets, arp;
  Ip server = ip("10.7.0.1"), given = ip("10.7.0.60");

  Wire() {
    for (auto link : {eth0, peer}) netlink::setUp(*kernel, link);
    // The kernel drops packets that are sent earlier.
    for (auto name : {"eth0"_kj, "peer"_kj}) {
      until("carrier", [&] { return KJ_ASSERT_NONNULL(lookAtLink(name)).running; });
    }
    packets = openAll(peer);
    arp = openArp(peer);
  }

  // Returns the message of the client, which sends no other until it is answered.
  kj::Maybe<Message4> nextMessage() {
    kj::Maybe<Message4> last;
    receive(packets, [&](const Received& datagram) {
      KJ_IF_MAYBE (found, unwrap4(datagram.bytes, kServerPort4, datagram.checked)) {
        auto parsed = parse4(found->payload);
        KJ_IF_MAYBE (message, parsed.message) last = kj::mv(*message);
      }
    });
    return last;
  }
  void answer(const Message4& question, Type type) {
    Message4 reply;
    reply.reply = true;
    reply.type = type;
    reply.hardwareAddress = copyOf(question.hardwareAddress);
    reply.exchange = question.exchange;
    reply.server = server;
    reply.yours = given;
    reply.lease = 3600u;
    reply.prefixLength = 24u;
    sendToAll(packets, peer, ETHERTYPE_IP,
              wrap4(server, kServerPort4, ip("255.255.255.255"), kClientPort4, encode(reply)));
  }
  // Another machine claims the address.
  void defend() {
    static const kj::byte kItsMac[] = {2, 0, 0, 0, 0, 9};
    Arp reply{.operation = Arp::Operation::kReply,
              .sender = copyOf(kItsMac),
              .senderAddress = given,
              .target = kj::heapArray<kj::byte>(6),
              .targetAddress = ip("0.0.0.0")};
    sendToAll(arp, peer, ETHERTYPE_ARP, encode(reply));
  }
};

// Catches: a server that is never told that its address is in use: the answer to a probe arrives
// after the probe, as on every real network, when the client had stopped listening.
TEST(Operator4Packets, AnAddressInUseIsDeclinedThoughTheAnswerIsLate) {
  inNamespace([] {
    Wire wire;
    kj::UnixEventPort port;
    kj::EventLoop loop(port);
    kj::WaitScope scope(loop);
    kj::TimerImpl timer(kj::origin<kj::TimePoint>() + 100 * kj::SECONDS);
    kj::Function<uint64_t()> random = [] { return uint64_t(1000) << 32; };
    auto directory = kj::str("/tmp/dhcp-operator-kernel-test.", getpid());
    makeDirectories(directory);
    KJ_DEFER(removeTree(directory));
    Operator4 four({port, timer, directory, random}, "eth0", KJ_ASSERT_NONNULL(lookAtLink("eth0")),
                   "", [] {});
    auto reaches = [&](Client4::State state) {
      until(nameOf(state), [&] {
        scope.poll();
        return four.client().state() == state;
      });
      scope.poll();  // The client waits again.
    };
    auto next = [&] {
      kj::Maybe<Message4> said;
      until("a message", [&] {
        scope.poll();
        said = wire.nextMessage();
        return said != nullptr;
      });
      return kj::mv(KJ_ASSERT_NONNULL(said));
    };
    wire.answer(next(), Type::kOffer);
    reaches(Client4::State::kRequesting);
    wire.answer(next(), Type::kAck);
    reaches(Client4::State::kProbing);
    wire.defend();
    reaches(Client4::State::kInit);
    auto decline = next();
    EXPECT_EQ(decline.type, Type::kDecline);
    EXPECT_TRUE(decline.requested == wire.given);
  });
}

}  // namespace
}  // namespace talos::networkd::dhcp
