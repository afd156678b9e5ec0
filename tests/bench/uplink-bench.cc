// Throughput of a cluster's uplink, of one TCP connection in each direction, beside the bare veth
// pair between a node and its gateway. Without nodes: three network namespaces, and slirp4netns.
//
//   uplink-bench [SECONDS]   prints
//   {"veth":{"out":Gbit/s,"in":…},"gateway":…,"world":…,"world1500":…}
//
// gateway: a port of the host at the gateway's address. world: an address of the host's through
// slirp4netns, with the MTU 65520 and 1500 of the nodes' network. Needs root.
//
// link: talosctl-cluster-network
#include <fcntl.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <kj/thread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "talosctl/cluster/network/cluster-network.h"
#include "talosctl/cluster/network/uplink.h"
#include "tests/bench/arguments.h"

namespace talos {
namespace {

using cluster::HostNetwork;

constexpr size_t kChunk = 256 << 10;

void shell(const kj::String& command) {
  KJ_REQUIRE(system(command.cStr()) == 0, command);
}
kj::String fileOf(const HostNetwork& network) {
  return kj::str("/proc/", getpid(), "/fd/", network.fd());
}

kj::AutoCloseFd blocking(const HostNetwork& network) {
  auto fd = network.tcpSocket(AF_INET);
  KJ_SYSCALL(fcntl(fd, F_SETFL, 0));
  return fd;
}

// Sends, or receives, until the other side closes or the time is over.
void transfer(int fd, bool sends, kj::Duration time) {
  auto buffer = kj::heapArray<kj::byte>(kChunk);
  memset(buffer.begin(), 1, buffer.size());
  auto& clock = kj::systemPreciseMonotonicClock();
  auto until = clock.now() + time;
  while (clock.now() < until) {
    auto n = sends ? send(fd, buffer.begin(), buffer.size(), MSG_NOSIGNAL)
                   : recv(fd, buffer.begin(), buffer.size(), 0);
    if (n <= 0) return;
  }
}

// Bits per nanosecond that the node sees, once a fifth of the time is over.
double rate(int fd, bool sends, kj::Duration time) {
  auto buffer = kj::heapArray<kj::byte>(kChunk);
  memset(buffer.begin(), 1, buffer.size());
  auto& clock = kj::systemPreciseMonotonicClock();
  auto begin = clock.now() + time / 5, until = begin + time;
  uint64_t bytes = 0;
  for (;;) {
    auto n = sends ? send(fd, buffer.begin(), buffer.size(), MSG_NOSIGNAL)
                   : recv(fd, buffer.begin(), buffer.size(), 0);
    KJ_REQUIRE(n > 0, "the connection ended");
    auto now = clock.now();
    if (now < begin) continue;
    if (now >= until) break;
    bytes += n;
  }
  return double(bytes) * 8 / double(time / kj::NANOSECONDS);
}

double measure(const HostNetwork& server, const HostNetwork& node, kj::StringPtr listens,
               kj::StringPtr called, bool out, kj::Duration time) {
  auto listening = blocking(server);
  auto at = Endpoint{Ip::require(listens), 7000}.socketName();
  int on = 1;
  KJ_SYSCALL(setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
  KJ_SYSCALL(bind(listening, at.get(), at.size()));
  KJ_SYSCALL(listen(listening, 1));
  kj::Thread thread([&] {
    int raw;
    KJ_SYSCALL(raw = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
    kj::AutoCloseFd peer(raw);
    transfer(peer, !out, time * 4);
  });
  auto fd = blocking(node);
  auto to = Endpoint{Ip::require(called), 7000}.socketName();
  KJ_SYSCALL(connect(fd, to.get(), to.size()), called);
  auto result = rate(fd, out, time);
  fd = nullptr;  // ends the other side too
  return result;
}

// The uplink has its own loop and thread, because in a cluster it has its own process.
class Testbed {
 public:
  Testbed(unsigned mtu) {
    KJ_SYSCALL(unshare(CLONE_NEWNET), "needs root");
    host.emplace();
    shell(
        kj::str("ip link set lo up && ip link add world type bridge && "
                "ip address add 203.0.113.1/24 dev world && ip link set world up"));
    KJ_SYSCALL(unshare(CLONE_NEWNET));
    node.emplace();
    KJ_SYSCALL(unshare(CLONE_NEWNET));
    gateway.emplace();
    bridge = kj::heap<cluster::Network>(kj::arr(gatewayOfNodes()), mtu);
    auto& there = KJ_ASSERT_NONNULL(node);
    shell(kj::str("ip link add v0 mtu ", mtu, " type veth peer name eth0 netns ", fileOf(there)));
    shell(kj::str("ip link set bridge mtu ", mtu, "; ip link set v0 master bridge up"));
    auto in = kj::str("nsenter --net=", fileOf(there), " ip ");
    shell(kj::str(in, "address add 10.5.0.2/24 dev eth0 && ", in, "link set eth0 mtu ", mtu,
                  " up && ", in, "route add default via 10.5.0.1"));
  }

  static Prefix gatewayOfNodes() { return KJ_ASSERT_NONNULL(Prefix::parse("10.5.0.1/24")); }

  void measureAll(kj::StringPtr name, kj::StringPtr called, kj::StringPtr listens, bool inside,
                  kj::Duration time) {
    auto& server = KJ_ASSERT_NONNULL(inside ? gateway : host);
    auto& client = KJ_ASSERT_NONNULL(node);
    auto out = measure(server, client, listens, called, true, time);
    auto in = measure(server, client, listens, called, false, time);
    printf("\"%s\":{\"out\":%.2f,\"in\":%.2f}", name.cStr(), out, in);
  }

  // Runs the work on another thread while the uplink's loop turns on this one.
  void whileUp(kj::Function<void()> work) {
    auto io = kj::setupAsyncIo();
    kj::Vector<Prefix> gateways;
    gateways.add(gatewayOfNodes());
    cluster::Uplink uplink(io, KJ_ASSERT_NONNULL(host),
                           {.root = kj::str("/"), .gateways = kj::mv(gateways)});
    uplink.start().wait(io.waitScope);
    auto running = uplink.run().eagerlyEvaluate(nullptr);
    auto paf = kj::newPromiseAndCrossThreadFulfiller<void>();
    kj::Thread thread([&] {
      KJ_DEFER(paf.fulfiller->fulfill());
      work();
    });
    paf.promise.wait(io.waitScope);
  }

 private:
  kj::Maybe<HostNetwork> host, node, gateway;
  kj::Own<cluster::Network> bridge;
};

void run(const bench::Arguments& arguments) {
  arguments.expect(0, 1);
  auto time = arguments.numberOr(2, 1, "SECONDS", 1, 60) * kj::SECONDS;
  printf("{");
  {
    Testbed large(65520);
    large.measureAll("veth", "10.5.0.1", "10.5.0.1", true, time);
    large.whileUp([&] {
      printf(",");
      large.measureAll("world", "203.0.113.1", "203.0.113.1", false, time);
    });
  }
  Testbed usual(1500);
  printf(",");
  usual.measureAll("veth1500", "10.5.0.1", "10.5.0.1", true, time);
  usual.whileUp([&] {
    printf(",");
    usual.measureAll("gateway", "10.5.0.1", "127.0.0.1", false, time);
    printf(",");
    usual.measureAll("world1500", "203.0.113.1", "203.0.113.1", false, time);
  });
  printf("}\n");
}

}  // namespace
}  // namespace talos

int main(int argc, char** argv) {
  return talos::bench::runMain(argc, argv, "uplink-bench", "[SECONDS]", talos::run);
}
