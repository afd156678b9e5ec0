// networkd's DHCP client as a process, through machined's own controller to the kernel and back,
// against the servers that people run: dnsmasq and isc-dhcp-server, in another network namespace.
#include <net/if.h>

#include <random>

#include "machined/controllers/network.h"
#include "machined/resources/controller.h"
#include "node.h"

namespace talos {
namespace {

constexpr kj::StringPtr kLeases = "OperatorStatuses.net.talos.dev"_kj;

kj::AutoCloseFd thisNamespace() {
  int fd;
  KJ_SYSCALL(fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  return kj::AutoCloseFd(fd);
}

// A network namespace, and the kernel and the programs in it.
class Elsewhere {
 public:
  // Leaves the calling thread in a new namespace of its own.
  Elsewhere() {
    KJ_SYSCALL(unshare(CLONE_NEWNET), "these tests need root");
    place = thisNamespace();
    kernel = netlink::openKernel();
    netlink::setUp(*kernel, netlink::indexOf(*kernel, "lo"));
    KJ_SYSCALL(unshare(CLONE_NEWNET));
  }
  ~Elsewhere() noexcept(false) { end(); }

  // Waits until the program hears what comes for a DHCP server.
  void awaitServer(kj::StringPtr port = ":0043 ", kj::StringPtr family = "udp") {
    auto& clock = kj::systemPreciseMonotonicClock();
    auto deadline = clock.now() + 20 * kj::SECONDS;
    for (;;) {
      auto sockets = readFile(kj::str("/proc/", pid, "/net/", family));
      if (strstr(sockets.cStr(), port.cStr()) != nullptr) return;
      KJ_REQUIRE(clock.now() < deadline, "the server did not start within 20 s");
      KJ_REQUIRE(waitpid(pid, nullptr, WNOHANG) == 0,
                 "the server has ended; DHCP_VERBOSE=1 shows why");
      usleep(5000);
    }
  }

  int descriptor() const { return place; }
  netlink::Kernel& there() { return *kernel; }

  void run(std::initializer_list<kj::StringPtr> line) {
    end();
    auto texts = KJ_MAP(text, kj::ArrayPtr<const kj::StringPtr>(line.begin(), line.size())) {
      return kj::str(text);
    };
    auto argv = kj::heapArray<char*>(texts.size() + 1);
    for (size_t i = 0; i < texts.size(); ++i) argv[i] = texts[i].begin();
    argv[texts.size()] = nullptr;
    KJ_SYSCALL(pid = fork());
    if (pid != 0) return;
    int silence = getenv("DHCP_VERBOSE") == nullptr ? ::open("/dev/null", O_RDWR) : 2;
    if (setns(place, CLONE_NEWNET) < 0 || dup2(silence, 1) < 0 || dup2(silence, 2) < 0) _exit(125);
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
    auto readConfig = [this](machined::Store&) -> kj::Maybe<machined::MachineConfigView> {
      machined::MachineConfigView view;
      machined::NetworkConfig::Device device;
      device.interface = kj::str("eth0");
      device.dhcp4 = dhcp;
      device.dhcp6 = dhcp6;
      view.network.devices.add(kj::mv(device));
      view.network.hostname = kj::str("asks");
      return kj::mv(view);
    };
    runtime.add(kj::heap<machined::NetworkController>(arguments, kj::mv(readConfig)));
    node.serve();
  }
  ~Cable() noexcept(false) {
    node.kill();
    server.end();
  }

  bool dhcp = true, dhcp6 = false;
  void configChanged() { runtime.poke("network.ConfigController"); }

  // dnsmasq's shortest lease is two minutes.
  void dnsmasq(kj::StringPtr range, kj::StringPtr more = "--dhcp-option=42,10.7.0.5") {
    server.run({"/usr/sbin/dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0",
                "--interface=peer", "--user=root", "--group=root", "--log-dhcp", "--pid-file",
                "--no-ping", kj::str("--dhcp-leasefile=", node.path("dnsmasq.leases")),
                kj::str("--dhcp-range=", range), "--dhcp-option=3,10.7.0.1",
                "--dhcp-option=6,10.7.0.3,10.7.0.4", "--dhcp-option=119,a.example,b.a.example",
                "--domain=example.org", "--dhcp-authoritative", "--log-facility=-", more});
    server.awaitServer();
  }
  // A router that tells resolvers and that there is DHCPv6, and its server; for IPv6 only.
  void router(kj::StringPtr range) {
    dhcp = false;
    dhcp6 = !range.endsWith("ra-stateless");
    auto& kernel = server.there();
    auto peer = netlink::indexOf(kernel, "peer");
    netlink::addAddress(kernel, peer, KJ_ASSERT_NONNULL(Prefix::parse("fd00:7::1/64")));
    kj::AutoCloseFd on(open("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", O_WRONLY | O_CLOEXEC));
    KJ_SYSCALL(write(on, "0", 1), "disable_ipv6");
    server.run({"/usr/sbin/dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0",
                "--interface=peer", "--user=root", "--group=root", "--log-dhcp", "--pid-file",
                kj::str("--dhcp-leasefile=", node.path("dnsmasq.leases")), "--enable-ra",
                kj::str("--dhcp-range=", range), "--dhcp-option=option6:dns-server,[fd00:7::53]",
                "--dhcp-option=option6:sntp-server,[fd00:7::7b]",
                "--dhcp-option=option6:domain-search,six.example", "--log-facility=-"});
    server.awaitServer(":0223 ", "udp6");
  }
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
    server.run({"/usr/sbin/dhcpd", "-4", "-f", "-d", "--no-pid", "-cf", node.path("dhcpd.conf"),
                "-lf", node.path("dhcpd.leases"), "peer"});
    server.awaitServer();
  }

  kj::Maybe<rpc::OperatorStatusSpec::Reader> lease() {
    return node.spec<rpc::OperatorStatusSpec>(kLeases, "dhcp4/eth0");
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
  // The address that the kernel has is the one that the lease says.
  bool has(kj::StringPtr prefix) { return address() == prefix && node.has(prefix); }
  kj::StringPtr file() {
    path = node.path("state/dhcp4-eth0");
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

template <typename F>
void onCable(F&& body) {
  kj::Maybe<kj::Exception> failure;
  std::thread([&] {
    failure = kj::runCatchingExceptions([&] {
      Cable cable;
      body(cable);
    });
  }).join();
  KJ_IF_MAYBE (e, failure) ADD_FAILURE() << kj::str(*e).cStr();
}

kj::String texts(capnp::List<capnp::Text>::Reader list) {
  return kj::strArray(list, " ");
}

// Catches: an option that is asked for and lost on its way, or rights that the confined process
// lacks.
TEST(Dhcp, everythingThatDnsmasqGivesReachesTheKernelAndTheStore) {
  onCable([](Cable& cable) {
    cable.dnsmasq("10.7.0.100,10.7.0.100,255.255.255.0,2m", "--dhcp-option=26,1400");
    auto& node = cable.node;
    node.start();
    node.until("an address", [&] { return cable.has("10.7.0.100/24") && node.hasDefault(); });
    auto lease = KJ_ASSERT_NONNULL(cable.lease());
    EXPECT_EQ(lease.getServer(), "10.7.0.1");
    EXPECT_EQ(lease.getLease(), "120s");
    EXPECT_EQ(texts(lease.getDnsServers()), "10.7.0.3 10.7.0.4");
    EXPECT_EQ(texts(lease.getSearchDomains()), "a.example b.a.example");
    EXPECT_EQ(lease.getDomainname(), "example.org");
    EXPECT_EQ(lease.getHostname(), "asks") << "dnsmasq gives back the name that it was told";
    node.until("the MTU", [&] {
      return KJ_ASSERT_NONNULL(netlink::findLink(*node.kernel, "eth0")).mtu == 1400;
    });
    node.until("the resolver file", [&] {
      return tryReadFile(node.path("state/resolv.conf")).orDefault(nullptr) ==
             "nameserver 10.7.0.3\nnameserver 10.7.0.4\nsearch a.example b.a.example\n";
    });
    auto address = node.store.get("", "AddressSpecs.net.talos.dev", "eth0/10.7.0.100/24");
    EXPECT_EQ(address.getSpec().getAs<rpc::AddressSpecSpec>().getLayer(), "operator");
    auto route = node.store.get("", "RouteSpecs.net.talos.dev", "eth0/inet4/10.7.0.1//1024");
    EXPECT_EQ(route.getSpec().getAs<rpc::RouteSpecSpec>().getLayer(), "operator");
  });
}

// Catches: a lease, an address or a route that a killed networkd loses or touches.
TEST(Dhcp, aKilledNetworkdKeepsTheLease) {
  onCable([](Cable& cable) {
    cable.dnsmasq("10.7.0.100,10.7.0.150,255.255.255.0,2m");
    auto& node = cable.node;
    node.start();
    node.until("an address",
               [&] { return cable.address().size() > 0 && node.has(cable.address()); });
    node.until("the default route", [&] { return node.hasDefault(); });
    auto address = cable.address();
    auto monitor = netlink::openMonitor(node.io.unixEventPort);
    for (unsigned i = 0; i < 3; ++i) {
      auto before = readFile(cable.file());
      node.kill();
      if (i == 2) cable.server.end();  // nobody confirms it: it is kept
      node.start();
      node.awaitReady();
      if (i < 2) {
        node.until("the confirmation", [&] { return readFile(cable.file()) != before; });
      } else {
        node.until("the question", [&] { return cable.state() == "confirming"; });
      }
      EXPECT_EQ(cable.address(), address);
    }
    auto changed = monitor->next();
    EXPECT_FALSE(changed.poll(node.io.waitScope)) << "nothing was taken away or made again";
    EXPECT_TRUE(node.has(address) && node.hasDefault());
  });
}

// Catches: renewals that do not reach the server or are not heard; an address that stays when it is
// no longer ours.
TEST(Dhcp, dhcpdRenewsAndComesBack) {
  onCable([](Cable& cable) {
    cable.dhcpd("10.7.0.20 10.7.0.30", 4);
    auto& node = cable.node;
    node.start();
    node.until("an address",
               [&] { return cable.address().size() > 0 && node.has(cable.address()); });
    auto address = cable.address();
    node.until("the default route", [&] { return node.hasDefault(); });
    unsigned renewals = 0;
    node.until("two renewals", [&, wasRenewing = false]() mutable {
      bool renewing = cable.state() == "renewing";
      if (wasRenewing && cable.state() == "bound") ++renewals;
      wasRenewing = renewing;
      return renewals == 2;
    });
    EXPECT_EQ(cable.address(), address);
    cable.server.end();
    node.until("the end of the lease", [&] { return cable.address() == "" && !node.has(address); });
    EXPECT_FALSE(node.hasDefault());
    cable.dhcpd("10.7.0.20 10.7.0.30", 4);
    node.until("the address again", [&] { return cable.has(address) && node.hasDefault(); });
  });
}

// Catches: an address that is used beyond its time because machined, which makes the specs, is
// away.
TEST(Dhcp, aLeaseEndsAlsoWhileMachinedIsAway) {
  onCable([](Cable& cable) {
    cable.dhcpd("10.7.0.20 10.7.0.20", 4);
    auto& node = cable.node;
    node.start();
    node.until("an address", [&] { return cable.has("10.7.0.20/24"); });
    cable.server.end();
    node.machinedGoesAway();
    node.until("its end", [&] { return !node.has("10.7.0.20/24"); });
    node.serve();
    node.until("that it is told", [&] { return cable.address() == ""; });
  });
}

// The cable now ends in another network: the lease that is known is refused, at once, long before
// it would have to be renewed.
TEST(Dhcp, aRefusalGetsANewAddressAndTheOldOneGoes) {
  onCable([](Cable& cable) {
    cable.dnsmasq("10.7.0.20,10.7.0.20,255.255.255.0,2m");
    auto& node = cable.node;
    node.start();
    node.until("an address", [&] { return cable.has("10.7.0.20/24"); });
    removeTree(node.path("dnsmasq.leases"));
    cable.dnsmasq("10.7.0.40,10.7.0.40,255.255.255.0,2m");
    auto& there = cable.server.there();
    auto peer = netlink::indexOf(there, "peer");
    netlink::setUp(there, peer, false);
    node.until("no carrier", [&] { return cable.state() == "no carrier"; });
    EXPECT_TRUE(node.has("10.7.0.20/24")) << "a cable that is out changes nothing";
    netlink::setUp(there, peer);
    node.until("the other address", [&] { return cable.has("10.7.0.40/24"); });
    node.until("the old one's end", [&] { return !node.has("10.7.0.20/24"); });
  });
}

// Another machine has been given the address by hand.
TEST(Dhcp, anAddressInUseIsDeclined) {
  onCable([](Cable& cable) {
    auto& there = cable.server.there();
    // The server's machine answers for it, which a server that does not look will not notice.
    netlink::addAddress(there, netlink::indexOf(there, "peer"),
                        KJ_ASSERT_NONNULL(Prefix::parse("10.7.0.60/32")));
    cable.dhcpd("10.7.0.60 10.7.0.61", 60);
    auto& node = cable.node;
    node.start();
    node.until("the refusal of it", [&] { return cable.state() == "waiting"; });
    EXPECT_EQ(cable.address(), "");
    node.until("another address", [&] { return cable.has("10.7.0.61/24"); });
  });
}

// Catches: what DHCP gave and nobody wants any more.
TEST(Dhcp, aConfigWithoutItTakesEverythingBack) {
  onCable([](Cable& cable) {
    cable.dnsmasq("10.7.0.100,10.7.0.150,255.255.255.0,2m");
    auto& node = cable.node;
    node.start();
    node.until("an address",
               [&] { return cable.address().size() > 0 && node.has(cable.address()); });
    EXPECT_TRUE(tryReadFile(cable.file()) != nullptr);
    auto address = cable.address();
    cable.dhcp = false;
    cable.configChanged();
    node.until("its end", [&] { return !node.has(address) && cable.lease() == nullptr; });
    EXPECT_TRUE(tryReadFile(cable.file()) == nullptr);
    EXPECT_FALSE(node.hasDefault());
  });
}

// Catches: an answer by IPv6 that nobody hears (its sockets and rights are others), resolvers that
// only routers tell, and a lease that a killed networkd forgets.
TEST(Dhcp, anAddressByDhcpv6AndResolversOfARouter) {
  onCable([](Cable& cable) {
    cable.router("fd00:7::100,fd00:7::100,64,2m");
    auto& node = cable.node;
    node.start();
    auto of = [&](kj::StringPtr id) { return node.spec<rpc::OperatorStatusSpec>(kLeases, id); };
    auto bound = [&] {
      KJ_IF_MAYBE (lease, of("dhcp6/eth0")) {
        return texts(lease->getAddresses()) == "fd00:7::100/128" && lease->getState() == "bound";
      }
      return false;
    };
    node.until("an address", [&] { return bound() && node.has("fd00:7::100/128"); });
    auto lease = KJ_ASSERT_NONNULL(of("dhcp6/eth0"));
    EXPECT_EQ(texts(lease.getTimeServers()), "fd00:7::7b");
    node.until("the router's resolvers", [&] {
      KJ_IF_MAYBE (router, of("ra/eth0")) {
        return texts(router->getDnsServers()) == "fd00:7::53" &&
               texts(router->getSearchDomains()) == "six.example";
      }
      return false;
    });
    node.until("the resolver file", [&] {
      return tryReadFile(node.path("state/resolv.conf")).orDefault(nullptr) ==
             "nameserver fd00:7::53\nsearch six.example\n";
    });
    auto path = node.path("state/dhcp6-eth0");
    auto before = readFile(path);
    node.kill();
    cable.server.end();
    node.start();
    node.awaitReady();
    node.until("the question", [&] {
      KJ_IF_MAYBE (again, of("dhcp6/eth0")) {
        return again->getState() == "confirming" && again->getAddresses().size() == 1;
      }
      return false;
    });
    EXPECT_EQ(readFile(path), before);
    EXPECT_TRUE(node.has("fd00:7::100/128"));
  });
}

// A router whose network gives addresses by autoconfiguration, and has a server only for the rest.
TEST(Dhcp, theKernelMakesTheAddressAndDhcpv6TellsTheRest) {
  onCable([](Cable& cable) {
    cable.router("fd00:7::,ra-stateless");
    auto& node = cable.node;
    node.start();
    node.until("an address", [&] {
      for (auto& a : node.kernel->addresses()) {
        if (KJ_ASSERT_NONNULL(Prefix::parse("fd00:7::/64")).contains(a.prefix.address)) return true;
      }
      return false;
    });
    node.until("what the server knows", [&] {
      KJ_IF_MAYBE (router, node.spec<rpc::OperatorStatusSpec>(kLeases, "ra/eth0")) {
        return texts(router->getDnsServers()) == "fd00:7::53" &&
               texts(router->getTimeServers()) == "fd00:7::7b";
      }
      return false;
    });
    node.until("the resolver file", [&] {
      return tryReadFile(node.path("state/resolv.conf")).orDefault(nullptr) ==
             "nameserver fd00:7::53\nsearch six.example\n";
    });
  });
}

}  // namespace
}  // namespace talos
