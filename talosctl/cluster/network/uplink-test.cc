#include "talosctl/cluster/network/uplink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/net/udp.h"
#include "common/testing/test-namespace.h"
#include "talosctl/cluster/network/cluster-network.h"

namespace talos::cluster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Prefix prefix(kj::StringPtr text) {
  return KJ_ASSERT_NONNULL(Prefix::parse(text), text);
}

// Catches: an uplink with the nodes' own network, so that one of them is unreachable.
TEST(UplinkNetwork, IsNeverTheNodesOwn) {
  struct {
    kj::StringPtr nodes, uplink;
  } table[] = {
      {"10.5.0.0/24", "198.18.0.0/24"},     {"198.18.0.0/24", "198.19.0.0/24"},
      {"198.18.0.128/25", "198.19.0.0/24"}, {"198.18.0.0/16", "198.19.0.0/24"},
      {"198.19.0.0/24", "198.18.0.0/24"},
  };
  for (auto& row : table) {
    EXPECT_STREQ(uplinkNetwork(prefix(row.nodes)).toString().cStr(), row.uplink.cStr())
        << row.nodes.cStr();
  }
  auto refused = kj::runCatchingExceptions([] { uplinkNetwork(prefix("198.18.0.0/15")); });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(refused)).cStr(), HasSubstr("--cidr: 198.18.0.0/15"));
}

// Catches: NAT of internal connections, or of another cluster's addresses.
TEST(UplinkRules, NameTheClustersAddressesAlone) {
  auto rules =
      uplinkRules(prefix("10.5.0.0/24"), Ip::require("10.5.0.1"), prefix("198.18.0.0/24"), 4000);
  EXPECT_THAT(rules.cStr(), HasSubstr("ip saddr 10.5.0.0/24 oifname \"up0\" masquerade"));
  EXPECT_THAT(rules.cStr(), HasSubstr("ip daddr 10.5.0.1 meta l4proto tcp redirect to :4000"));
  EXPECT_THAT(rules.cStr(), HasSubstr("th dport 53 dnat to 198.18.0.3"));
}

TEST(UplinkRules, OfIpv6LeadToThePortsOfTheHostAlone) {
  auto rules = hostPortRules6(Ip::require("fd00:5::1"), 4000);
  EXPECT_THAT(rules.cStr(), HasSubstr("ip6 daddr fd00:5::1 meta l4proto tcp dnat to "
                                      "[fd00:5::1]:4000"));
  EXPECT_THAT(rules.cStr(), Not(HasSubstr("masquerade")));
}

// Catches: the APIs of other clusters, which are in 127.0.0.0/8, or an address without its link.
TEST(DialOrder, LoopbackFirstAndNoOtherLoopback) {
  kj::Vector<Ip> given;
  for (auto text : {"fd00::2", "fe80::1", "127.0.0.1", "::1", "127.33.7.2", "192.0.2.2", "0.0.0.0"})
    given.add(Ip::require(text));
  kj::Vector<kj::String> order;
  for (auto& address : dialOrder(given)) order.add(address.toString());
  EXPECT_STREQ(kj::strArray(order, " ").cStr(), "127.0.0.1 ::1 192.0.2.2 fd00::2");
  for (int i = 0; i < 100; ++i) given.add(Ip::require(kj::str("10.0.0.", i + 1)));
  EXPECT_EQ(dialOrder(given).size(), 16);
}

// --- with real namespaces
//
// Network namespaces, the files of /proc/<pid>/fd that name them, and a thread that enters them one
// after the other: the internet, the host, a node, and the cluster's, where it stays.

// Runs a command of the build root to its end and returns its output.
kj::String shell(kj::StringPtr command) {
  auto pipe = popen(kj::str(command, " 2>&1").cStr(), "re");
  KJ_REQUIRE(pipe != nullptr);
  kj::Vector<char> text;
  char chunk[4096];
  size_t n;
  while ((n = fread(chunk, 1, sizeof chunk, pipe)) > 0) text.addAll(chunk, chunk + n);
  int status = pclose(pipe);
  auto said = kj::heapString(text.asPtr());
  KJ_REQUIRE(status == 0, command, said);
  return said;
}

kj::String fileOf(const HostNetwork& network) {
  return kj::str("/proc/", getpid(), "/fd/", network.fd());
}

kj::String in(const HostNetwork& network, kj::StringPtr command) {
  return shell(kj::str("nsenter --net=", fileOf(network), " ", command));
}

// Returns the state of the host that must not change: links, addresses, routes, rules, firewall,
// sysctls and mounts.
kj::String lookOf(const HostNetwork& host) {
  return kj::str(in(host, "ip link"), in(host, "ip address"), in(host, "ip route show table all"),
                 in(host, "ip rule"), in(host, "nft list ruleset"),
                 in(host,
                    "sh -c 'cd /proc/sys/net; find . -type f ! -name nf_conntrack_count | sort | "
                    "xargs grep -s . || true'"),
                 shell("cat /proc/self/mountinfo"));
}

// Answers each connection with its own name and closes it.
class Greeter {
 public:
  Greeter(kj::AsyncIoContext& io, const HostNetwork& network, kj::StringPtr address, uint16_t port,
          kj::StringPtr name)
      : name(kj::str(name)) {
    kj::AutoCloseFd fd = network.tcpSocket(Ip::require(address).family());
    auto at = Endpoint{Ip::require(address), port}.socketName();
    int on = 1;
    KJ_SYSCALL(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    KJ_SYSCALL(bind(fd, at.get(), at.size()), address, port);
    KJ_SYSCALL(listen(fd, 8));
    receiver = io.lowLevelProvider->wrapListenSocketFd(kj::mv(fd));
    serving = serve().eagerlyEvaluate(nullptr);
  }

 private:
  kj::String name;
  kj::Own<kj::ConnectionReceiver> receiver;
  kj::Promise<void> serving = nullptr;
  kj::Promise<void> serve() {
    for (;;) {
      auto stream = co_await receiver->accept();
      co_await stream->write(name.begin(), name.size());
    }
  }
};

// Returns the text that a connection from `network` to this address receives, or "reset", or
// "nobody".
kj::String call(kj::AsyncIoContext& io, const HostNetwork& network, kj::StringPtr address,
                uint16_t port) {
  auto at = Endpoint{Ip::require(address), port}.socketName();
  auto connected = io.lowLevelProvider->wrapConnectingSocketFd(
      network.tcpSocket(at.family()), at.get(), at.size(),
      kj::LowLevelAsyncIoProvider::ALREADY_CLOEXEC | kj::LowLevelAsyncIoProvider::ALREADY_NONBLOCK);
  auto said = connected
                  .then([](kj::Own<kj::AsyncIoStream>&& stream) {
                    auto text = stream->readAllText();
                    return text.attach(kj::mv(stream)).catch_([](kj::Exception&& e) {
                      return kj::str("reset");
                    });
                  })
                  .catch_([](kj::Exception&&) { return kj::str("nobody"); });
  return io.provider->getTimer().timeoutAfter(10 * kj::SECONDS, kj::mv(said)).wait(io.waitScope);
}

size_t questionEnd(kj::ArrayPtr<const kj::byte> message) {
  size_t at = 12;
  while (at < message.size() && message[at] != 0) at += message[at] + 1;
  return at + 5;
}

// Returns the answer of the resolver at this address for example.org.
kj::String addressOfName(kj::AsyncIoContext& io, const HostNetwork& network, kj::StringPtr server) {
  const char query[] = "\x12\x34\x01\0\0\1\0\0\0\0\0\0\7example\3org\0\0\1\0\1";
  kj::Own<UdpSocket> socket;
  network.inside(
      [&] { socket = UdpSocket::connected(io.unixEventPort, {Ip::require(server), 53}); });
  socket->send(kj::arrayPtr(query, sizeof query - 1).asBytes());
  auto reply =
      io.provider->getTimer().timeoutAfter(10 * kj::SECONDS, socket->receive()).wait(io.waitScope);
  KJ_REQUIRE(reply.bytes.size() > 4);
  auto last = reply.bytes.slice(reply.bytes.size() - 4, reply.bytes.size());
  return KJ_ASSERT_NONNULL(Ip::fromBytes(last)).toString();
}

// Returns the slirp4netns that this process has started.
pid_t slirpOf() {
  return atoi(shell(kj::str("pgrep -P ", getpid(), " -f 'slirp4netn[s] --conf'")).cStr());
}

// The host's resolver: every name resolves to 192.0.2.77.
kj::Promise<void> resolveNames(UdpSocket& socket) {
  for (;;) {
    auto query = co_await socket.receive();
    kj::Vector<kj::byte> reply;
    reply.addAll(query.bytes);
    if (reply.size() < 12) continue;
    reply[2] = 0x84, reply[3] = 0, reply[6] = 0, reply[7] = 1;  // a response with one answer
    reply[10] = reply[11] = 0;
    reply.resize(kj::min(reply.size(), questionEnd(reply)));
    // A pointer to the name of the question, A, IN, a minute, four octets.
    for (kj::byte b : {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 77}) reply.add(b);
    socket.answer(query, reply);
  }
}

struct Testbed {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Maybe<HostNetwork> outside, host, node, cluster;
  kj::Own<UdpSocket> resolver;
  kj::Promise<void> resolving = nullptr;
  kj::Own<Network> bridge;
  kj::Own<Uplink> uplink;
  kj::Promise<void> running = nullptr;

  static const HostNetwork& enterNew(kj::Maybe<HostNetwork>& network) {
    KJ_SYSCALL(unshare(CLONE_NEWNET), "these tests need root");
    auto& entered = network.emplace();
    // The kernel's own work on IPv6 addresses takes seconds, and would look like a change by the
    // test.
    shell("echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6");
    shell("ip link set lo up");
    return entered;
  }

  // Creates a veth pair with an address at each end.
  static void connect(const HostNetwork& other, kj::StringPtr address, kj::StringPtr peerAddress) {
    shell(kj::str("ip link add name cable type veth peer name eth0 netns ", fileOf(other)));
    if (address.size() > 0) shell(kj::str("ip address add ", address, " dev cable"));
    shell("ip link set cable up");
    in(other, kj::str("ip address add ", peerAddress, " dev eth0"));
    in(other, "ip link set eth0 up");
  }

  Testbed() {
    // Shared mounts, as a host has them, including names of network namespaces.
    KJ_SYSCALL(unshare(CLONE_NEWNS));
    KJ_SYSCALL(mount(nullptr, "/", nullptr, MS_REC | MS_SHARED, nullptr));
    shell("mount -t tmpfs tmpfs /run && mkdir /run/netns && touch /run/netns/other");
    shell("mount --bind /proc/self/ns/net /run/netns/other");
    shell(
        "echo nameserver 127.0.0.1 >/run/resolv.conf && mount --bind /run/resolv.conf "
        "/etc/resolv.conf");
    auto& internet = enterNew(outside);
    enterNew(host);
    connect(internet, "203.0.113.1/24", "203.0.113.9/24");
    resolver = UdpSocket::bound(io.unixEventPort, {Ip::require("127.0.0.1"), 53});
    resolving = resolveNames(*resolver).eagerlyEvaluate(nullptr);
    auto& machine = enterNew(node);
    enterNew(cluster);
    bridge = kj::heap<Network>(kj::arr(prefix("10.5.0.1/24")), 1500);
    connect(machine, "", "10.5.0.2/24");
    shell("ip link set cable master bridge");
    in(machine, "ip route add default via 10.5.0.1");
  }

  void start(kj::StringPtr more = "") {
    kj::Vector<Prefix> gateways;
    gateways.add(prefix("10.5.0.1/24"));
    if (more.size() > 0) gateways.add(prefix(more));
    uplink = kj::heap<Uplink>(io, KJ_ASSERT_NONNULL(host),
                              Uplink::Settings{.root = kj::str("/"), .gateways = kj::mv(gateways)});
    uplink->start().wait(io.waitScope);
    running = uplink->run().eagerlyEvaluate(nullptr);
  }
  kj::String nodeCalls(kj::StringPtr address, uint16_t port) {
    return call(io, KJ_ASSERT_NONNULL(node), address, port);
  }
  const HostNetwork& theHost() { return KJ_ASSERT_NONNULL(host); }
};

// Catches: a port of the host that the gateway's address does not reach, or a port taken by another
// server in the cluster's namespace.
TEST(Uplink, TheGatewaysAddressHasThePortsOfTheHost) {
  onThread([] {
    Testbed bed;
    Greeter loopback(bed.io, bed.theHost(), "127.0.0.1", 5000, "loopback");
    Greeter loopback6(bed.io, bed.theHost(), "::1", 5001, "loopback6");
    Greeter all(bed.io, bed.theHost(), "0.0.0.0", 5002, "all");
    Greeter link(bed.io, bed.theHost(), "203.0.113.1", 5003, "link");
    Greeter shadowed(bed.io, bed.theHost(), "127.0.0.1", 8080, "host's");
    Greeter own(bed.io, KJ_ASSERT_NONNULL(bed.cluster), "10.5.0.1", 8080, "cluster's");
    Greeter ownAll(bed.io, KJ_ASSERT_NONNULL(bed.cluster), "0.0.0.0", 8081, "cluster's");
    EXPECT_STREQ(bed.nodeCalls("10.5.0.1", 5000).cStr(), "nobody") << "before there is an uplink";
    bed.start();
    EXPECT_STREQ(bed.nodeCalls("10.5.0.1", 5000).cStr(), "loopback");
    EXPECT_STREQ(bed.nodeCalls("10.5.0.1", 5001).cStr(), "loopback6");
    EXPECT_STREQ(bed.nodeCalls("10.5.0.1", 5002).cStr(), "all");
    EXPECT_STREQ(bed.nodeCalls("10.5.0.1", 5003).cStr(), "link");
    EXPECT_STREQ(bed.nodeCalls("10.5.0.1", 8080).cStr(), "cluster's");
    EXPECT_STREQ(bed.nodeCalls("10.5.0.1", 8081).cStr(), "cluster's");
    EXPECT_STREQ(bed.nodeCalls("10.5.0.1", 5999).cStr(), "reset") << "nobody listens there";
  });
}

// Catches: a gateway that has the ports of the host for one family only, an original port read as
// the other family's, a server of the cluster that is hidden.
TEST(Uplink, TheGatewaysIpv6AddressHasThePortsOfTheHost) {
  onThread([] {
    Testbed bed;
    auto& node = KJ_ASSERT_NONNULL(bed.node);
    shell("echo 0 >/proc/sys/net/ipv6/conf/bridge/disable_ipv6");
    shell("ip address add fd00:5::1/64 dev bridge nodad");
    in(node, "sh -c 'echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6'");
    in(node, "ip address add fd00:5::2/64 dev eth0 nodad");
    Greeter loopback(bed.io, bed.theHost(), "127.0.0.1", 5000, "loopback");
    Greeter own(bed.io, KJ_ASSERT_NONNULL(bed.cluster), "fd00:5::1", 8080, "cluster's");
    bed.start("fd00:5::1/64");
    EXPECT_STREQ(bed.nodeCalls("fd00:5::1", 5000).cStr(), "loopback");
    EXPECT_STREQ(bed.nodeCalls("fd00:5::1", 8080).cStr(), "cluster's");
    EXPECT_STREQ(bed.nodeCalls("fd00:5::1", 5999).cStr(), "reset") << "nobody listens there";
    EXPECT_STREQ(bed.nodeCalls("10.5.0.1", 5000).cStr(), "loopback") << "IPv4 as ever";
  });
}

// Catches: nodes without a way out, NAT that stops at the host, a name that does not resolve, and
// any change of the host: a sandbox that unmounts the host's names, a sysctl or a rule that is set
// in the wrong namespace.
TEST(Uplink, LeadsOutAndChangesNothingOfTheHost) {
  onThread([] {
    Testbed bed;
    Greeter far(bed.io, KJ_ASSERT_NONNULL(bed.outside), "203.0.113.9", 443, "far");
    auto before = lookOf(bed.theHost());
    bed.start();
    EXPECT_STREQ(bed.nodeCalls("203.0.113.9", 443).cStr(), "far");
    EXPECT_STREQ(addressOfName(bed.io, KJ_ASSERT_NONNULL(bed.node), "10.5.0.1").cStr(),
                 "192.0.2.77");
    EXPECT_STREQ(lookOf(bed.theHost()).cStr(), before.cStr());
    bed.running = nullptr;
    bed.uplink = nullptr;
    EXPECT_STREQ(lookOf(bed.theHost()).cStr(), before.cStr());
  });
}

// Catches: nodes that stay without a way out after slirp4netns has died, and a slirp4netns that
// outlives its owner.
TEST(Uplink, Slirp4netnsIsStartedAgainAndEndsWithIt) {
  onThread([] {
    Testbed bed;
    Greeter far(bed.io, KJ_ASSERT_NONNULL(bed.outside), "203.0.113.9", 443, "far");
    bed.start();
    auto old = slirpOf();
    ASSERT_EQ(kill(old, SIGKILL), 0);
    auto again = [&] { return bed.nodeCalls("203.0.113.9", 443) == "far"; };
    unsigned tries = 0;
    while (!again() && ++tries < 300) {
      bed.io.provider->getTimer().afterDelay(100 * kj::MILLISECONDS).wait(bed.io.waitScope);
    }
    EXPECT_LT(tries, 300u) << "no way out again within 30 s";
    auto pid = slirpOf();
    EXPECT_NE(pid, old);
    bed.running = nullptr;
    bed.uplink = nullptr;
    EXPECT_EQ(kill(pid, 0), -1);
  });
}

}  // namespace
}  // namespace talos::cluster
