// A node whose link gets its settings by DHCP, and the other end of its cable: a network namespace
// in which a DHCP server runs, as people run it. For tests and figures; needs root.
#pragma once

#include <net/if.h>
#include <sched.h>

#include <random>

#include "machined/config/network/network-controller.h"
#include "machined/resources/controller-runtime.h"
#include "tests/network/node.h"

namespace talos {

kj::AutoCloseFd thisNamespace() {
  int fd;
  KJ_SYSCALL(fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  return kj::AutoCloseFd(fd);
}

// A network namespace, and the kernel and the programs in it.
class Elsewhere {
 public:
  // Leaves the calling thread in a new namespace.
  Elsewhere() {
    KJ_SYSCALL(unshare(CLONE_NEWNET), "these tests need root");
    place = thisNamespace();
    kernel = netlink::openKernel();
    netlink::setUp(*kernel, netlink::indexOf(*kernel, "lo"));
    KJ_SYSCALL(unshare(CLONE_NEWNET));
  }
  ~Elsewhere() noexcept(false) { end(); }

  // Waits until the program listens on the port of a DHCP server.
  void awaitServer(kj::StringPtr port = ":0043 ", kj::StringPtr family = "udp") {
    auto& clock = kj::systemPreciseMonotonicClock();
    auto deadline = clock.now() + kTimeout;
    for (;;) {
      auto sockets = readFile(kj::str("/proc/", pid, "/net/", family));
      if (strstr(sockets.cStr(), port.cStr()) != nullptr) return;
      KJ_REQUIRE(clock.now() < deadline, "the server did not start within two minutes");
      KJ_REQUIRE(waitpid(pid, nullptr, WNOHANG) == 0,
                 "the server has ended; DHCP_VERBOSE=1 shows why");
      usleep(5000);
    }
  }

  int descriptor() const { return place; }
  netlink::Kernel& there() { return *kernel; }

  // Starts a program that appends its output to the file `log`.
  void run(kj::StringPtr log, std::initializer_list<kj::StringPtr> line) {
    end();
    auto texts = KJ_MAP(text, kj::ArrayPtr<const kj::StringPtr>(line.begin(), line.size())) {
      return kj::str(text);
    };
    auto argv = kj::heapArray<char*>(texts.size() + 1);
    for (size_t i = 0; i < texts.size(); ++i) argv[i] = texts[i].begin();
    argv[texts.size()] = nullptr;
    kj::AutoCloseFd said(::open(log.cStr(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    int to = getenv("DHCP_VERBOSE") == nullptr ? said.get() : 2;
    KJ_SYSCALL(pid = fork());
    if (pid != 0) return;
    if (setns(place, CLONE_NEWNET) < 0 || dup2(to, 1) < 0 || dup2(to, 2) < 0) _exit(125);
    execv(argv[0], argv.begin());
    _exit(127);
  }
  void end() {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = 0;
  }

 private:
  kj::AutoCloseFd place;
  kj::Own<netlink::Kernel> kernel;
  pid_t pid = 0;
};

// A node whose config says `dhcp: true` for eth0, and the other end of the cable.
class Cable {
 public:
  Elsewhere server;
  Node node{server.descriptor()};

  Cable() {
    auto& kernel = server.there();
    auto peer = netlink::indexOf(kernel, "peer");
    netlink::addAddress(kernel, peer, KJ_ASSERT_NONNULL(Prefix::parse("10.7.0.1/24")));
    netlink::setUp(kernel, peer);
    auto readConfig = [this](machined::Store&) -> kj::Maybe<config::Config::Reader> {
      KJ_IF_MAYBE (parsed, document) return parsed->get();
      auto& message = *built.emplace(kj::heap<capnp::MallocMessageBuilder>());
      auto root = message.initRoot<config::Config>();
      auto network = root.getMachine().getNetwork();
      network.setHostname("asks");
      auto link = network.initInterfaces(1)[0];
      link.setInterface(asked);
      link.setDhcp(dhcp || dhcp6);
      auto options = link.initDhcpOptions();
      options.setIpv4(dhcp);
      options.setIpv6(dhcp6);
      options.setDuidv6(duid);
      return root.asReader();
    };
    runtime.add(kj::heap<machined::NetworkController>(arguments, kj::mv(readConfig)));
    node.serve();
  }
  ~Cable() noexcept(false) {
    node.kill();
    server.end();
  }

  kj::Maybe<kj::Own<capnp::MallocMessageBuilder>> built;  // the config
  kj::Maybe<config::MachineConfig> document;              // config from its text, instead of
                                                          // `built`
  bool dhcp = true, dhcp6 = false;
  kj::StringPtr duid = "";            // of the node
  kj::StringPtr asked = "eth0";       // the node's link that sends requests
  kj::StringPtr serverLink = "peer";  // the link that answers
  void configChanged() { runtime.poke("network.ConfigController"); }

  // dnsmasq's shortest lease is two minutes.
  void dnsmasq(kj::StringPtr range, kj::StringPtr more = "--dhcp-option=42,10.7.0.5") {
    server.run(
        node.path("server.log"),
        {"/usr/sbin/dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0",
         kj::str("--interface=", serverLink), "--user=root", "--group=root", "--log-dhcp",
         "--pid-file", "--no-ping", kj::str("--dhcp-leasefile=", node.path("dnsmasq.leases")),
         kj::str("--dhcp-range=", range), "--dhcp-option=3,10.7.0.1",
         "--dhcp-option=6,10.7.0.3,10.7.0.4", "--dhcp-option=119,a.example,b.a.example",
         "--domain=example.org", "--dhcp-authoritative", "--log-facility=-", more});
    server.awaitServer();
  }
  // Starts a router that advertises resolvers and DHCPv6, and the DHCPv6 server; for IPv6 only.
  void router(kj::StringPtr range) {
    dhcp = false;
    dhcp6 = !range.endsWith("ra-stateless");
    auto& kernel = server.there();
    auto peer = netlink::indexOf(kernel, "peer");
    netlink::addAddress(kernel, peer, KJ_ASSERT_NONNULL(Prefix::parse("fd00:7::1/64")));
    kj::AutoCloseFd on(open("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", O_WRONLY | O_CLOEXEC));
    KJ_SYSCALL(write(on, "0", 1), "disable_ipv6");
    server.run(
        node.path("server.log"),
        {"/usr/sbin/dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0",
         kj::str("--interface=", serverLink), "--user=root", "--group=root", "--log-dhcp",
         "--pid-file", kj::str("--dhcp-leasefile=", node.path("dnsmasq.leases")), "--enable-ra",
         kj::str("--dhcp-range=", range), "--dhcp-option=option6:dns-server,[fd00:7::53]",
         "--dhcp-option=option6:sntp-server,[fd00:7::7b]",
         "--dhcp-option=option6:domain-search,six.example", "--log-facility=-"});
    server.awaitServer(":0223 ", "udp6");
  }
  // With these options a client renews its lease after a second, although the lease lasts a minute.
  static constexpr unsigned kLong = 60;
  static constexpr auto kRenewOften =
      "option dhcp-renewal-time 1; option dhcp-rebinding-time 50; dhcp-cache-threshold 0;"_kj;
  void dhcpd(kj::StringPtr range, unsigned seconds, kj::StringPtr more = "") {
    writeFileAtomically(node.path("dhcpd.conf"),
                        kj::str("ping-check false; authoritative; default-lease-time ", seconds,
                                "; max-lease-time ", seconds, "; min-lease-time ", seconds,
                                "; server-identifier 10.7.0.1;\n",
                                "option classless code 121 = array of unsigned integer 8;\n",
                                "subnet 10.7.0.0 netmask 255.255.255.0 { range ", range,
                                "; option routers 10.7.0.1; option host-name \"given\"; ",
                                "option domain-name \"example.net\"; ", more, " }\n"),
                        0644);
    if (tryReadFile(node.path("dhcpd.leases")) == nullptr) {
      writeFileAtomically(node.path("dhcpd.leases"), ""_kj, 0644);
    }
    server.run(node.path("server.log"),
               {"/usr/sbin/dhcpd", "-4", "-f", "-d", "--no-pid", "-cf", node.path("dhcpd.conf"),
                "-lf", node.path("dhcpd.leases"), serverLink});
    server.awaitServer();
  }
  // Returns true if the server's output has this text.
  bool said(kj::StringPtr text) {
    auto log = tryReadFile(node.path("server.log")).orDefault(nullptr);
    return strstr(log.cStr(), text.cStr()) != nullptr;
  }

  kj::Maybe<rpc::OperatorStatusSpec::Reader> lease() {
    return node.store.tryGet<rpc::OperatorStatusSpec>(kj::str("dhcp4/", asked));
  }
  kj::String address() {
    KJ_IF_MAYBE (status, lease()) {
      for (auto address : status->getAddresses()) return kj::str(address);
    }
    return kj::str();
  }
  kj::String state() {
    KJ_IF_MAYBE (status, lease()) return kj::str(status->getState());
    return kj::str();
  }
  // Returns true if the kernel has the lease's address, and it is this one.
  bool has(kj::StringPtr prefix) { return address() == prefix && node.has(prefix); }
  kj::StringPtr file() {
    path = node.path(kj::str("state/dhcp4-", asked));
    return path;
  }

 private:
  kj::String path;
  KernelArguments arguments{""_kj.asArray()};
  std::minstd_rand generator{1};
  machined::ControllerRuntime runtime{
      node.store, [](kj::StringPtr line) { fputs(line.cStr(), stderr); }, node.timer,
      kj::systemCoarseCalendarClock(), [] { return 0.5; }};
};

}  // namespace talos
