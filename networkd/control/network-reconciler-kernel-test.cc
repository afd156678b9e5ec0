// The reconciler against the real kernel, in network and host name namespaces that each test
// creates. Needs root; the host's network is never touched.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/netlink/test-netlink.h"
#include "common/testing/test-ip.h"
#include "common/testing/test-namespace.h"
#include "networkd/control/test-network-store.h"

namespace talos::networkd {
namespace {

// Limit for an event of milliseconds, on a machine that is many times slower.
constexpr auto kTimeout = 120 * kj::SECONDS;

// Counts requests to the kernel.
class CountingKernel final : public netlink::Kernel {
 public:
  size_t changes = 0;
  kj::Vector<netlink::Link> links() override { return inner->links(); }
  kj::Vector<netlink::Address> addresses() override { return inner->addresses(); }
  kj::Vector<netlink::Route> routes() override { return inner->routes(); }
  kj::Vector<netlink::Route> allRoutes() override { return inner->allRoutes(); }
  kj::Vector<netlink::Route> routesOf(uint32_t table) override { return inner->routesOf(table); }
  kj::Vector<netlink::Rule> rules() override { return inner->rules(); }
  kj::Vector<netlink::Neighbour> neighbours() override { return inner->neighbours(); }
  netlink::WireguardDevice wireguard(unsigned index) override { return inner->wireguard(index); }
  kj::Vector<kj::Maybe<netlink::Failure>> apply(kj::ArrayPtr<const netlink::Change> list) override {
    changes += list.size();
    return inner->apply(list);
  }

 private:
  kj::Own<netlink::Kernel> inner = netlink::openKernel();
};

// A machine with one veth "eth0", whose other end is up, and the reconciler on it.
struct Machine {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  CountingKernel kernel;
  kj::Own<netlink::Monitor> monitor = netlink::openMonitor(io.unixEventPort);
  unsigned eth0, peer;
  FakeStore store;
  FakeHost host;
  Signal work;
  kj::Maybe<kj::Own<NetworkReconciler>> reconciler;
  kj::Promise<void> running = nullptr;

  Machine() {
    eth0 = netlink::addVeth(kernel, "eth0", "peer");
    peer = netlink::indexOf(kernel, "peer");
    netlink::setUp(kernel, peer);
    store.synced = true;
    store.addresses.add(kj::str("10.5.0.2/24"));
    store.defaultRoute = true;
    kernel.changes = 0;
  }

  void start() {
    auto made = kj::heap<NetworkReconciler>(kernel, *monitor, store, host, io.provider->getTimer(),
                                            work, [] { return 0.5; });
    running =
        made->run().eagerlyEvaluate([](kj::Exception&& e) { ADD_FAILURE() << kj::str(e).cStr(); });
    reconciler = kj::mv(made);
  }
  void kill() {
    running = nullptr;
    reconciler = nullptr;
  }
  bool configured() {
    return has("10.5.0.2/24") &&
           hasDefaultRoute({kernel.links(), kernel.addresses(), kernel.routes(), true});
  }
  bool has(kj::StringPtr text) {
    for (auto& a : kernel.addresses()) {
      if (a.prefix == prefix(text)) return true;
    }
    return false;
  }
  // Waits until a report is published for which `condition` holds; fails the test after kTimeout.
  template <typename F>
  void until(F&& condition) {
    auto& timer = io.provider->getTimer();
    auto deadline = timer.now() + kTimeout;
    while (!condition()) {
      timer.timeoutAt(deadline, store.reported.wait()).wait(io.waitScope);
    }
  }
  // Waits until nothing happens any more.
  void quiet() {
    auto& timer = io.provider->getTimer();
    while (!timer.timeoutAfter(100 * kj::MILLISECONDS, store.reported.wait())
                .then([] { return false; }, [](kj::Exception&&) { return true; })
                .wait(io.waitScope)) {
    }
  }
};

template <typename F>
void onMachine(F&& body) {
  auto run = [&] {
    Machine machine;
    body(machine);
  };
  inNamespace(run, CLONE_NEWNET | CLONE_NEWUTS);
}

// Catches: a configuration that the model kernel accepts and Linux does not.
TEST(NetworkdKernel, OneStaticAddressWithDefaultRoute) {
  onMachine([](Machine& m) {
    m.start();
    m.until([&] { return m.store.last != nullptr && m.store.network().getApplied() == 3; });
    EXPECT_TRUE(m.configured());
    EXPECT_TRUE(m.has("127.0.0.1/8"));
    EXPECT_TRUE(m.has("::1/128"));
    EXPECT_EQ(m.store.network().getProblems().size(), 0u);
    EXPECT_TRUE(m.store.network().getAddressReady());
    EXPECT_TRUE(m.store.network().getConnectivityReady());
  });
}

// Catches: work that seems undone on Linux (flags and scopes that Linux changes, metrics that it
// fills in), so that every pass or restart sends it again.
TEST(NetworkdKernel, ARestartSendsNothing) {
  onMachine([](Machine& m) {
    m.store.addresses.add(kj::str("10.5.0.3/24"));
    m.store.addresses.add(kj::str("fd00::2/64"));
    m.start();
    m.quiet();
    EXPECT_TRUE(m.configured());
    m.kill();
    m.kernel.changes = 0;
    m.start();
    m.quiet();
    EXPECT_EQ(m.kernel.changes, 0u);
    EXPECT_TRUE(m.configured());
  });
}

// Catches: networkd's own changes in the monitor's buffer, where they push out the changes of
// others.
TEST(NetworkdKernel, ItsOwnChangesDoNotOverrunIt) {
  onMachine([](Machine& m) {
    m.monitor = netlink::openMonitor(m.io.unixEventPort, 1 << 16);  // for a few dozen
    constexpr unsigned kMany = 1000;
    for (unsigned i = 0; i < kMany; ++i) {
      m.store.addresses.add(kj::str("10.", 6 + i / 250, ".", i % 250, ".2/24"));
    }
    m.start();
    m.until([&] { return m.store.last != nullptr && m.has("10.9.249.2/24"); });
    m.quiet();
    EXPECT_EQ(m.store.network().getApplied(), kMany + 3);
    EXPECT_EQ(m.store.network().getOverruns(), 0u);
  });
}

// Catches: changes of the real kernel that the monitor misses, among them routes that vanish
// without a message when a link goes down.
TEST(NetworkdKernel, RepairsWhatOthersBreak) {
  onMachine([](Machine& m) {
    m.start();
    m.quiet();
    netlink::change(m.kernel,
                    netlink::DeleteAddress{{.link = m.eth0, .prefix = prefix("10.5.0.2/24")}});
    m.until([&] { return m.configured(); });
    netlink::setUp(m.kernel, m.eth0, false);
    m.until([&] { return m.configured(); });
    // The link is removed and replaced by another.
    netlink::change(m.kernel, netlink::DeleteLink{m.eth0});
    m.until([&] { return m.store.network().getProblems().size() > 0; });
    netlink::addVeth(m.kernel, "eth0", "peer");
    m.until([&] { return m.configured(); });
  });
}

// Catches: a carrier that the real kernel shows in another place than networkd reads, or without a
// notice to the monitor.
TEST(NetworkdKernel, APeerThatGoesDownIsNoCarrier) {
  onMachine([](Machine& m) {
    m.start();
    m.quiet();
    EXPECT_EQ(m.store.network().getProblems().size(), 0u);
    auto changes = m.kernel.changes;
    netlink::setUp(m.kernel, m.peer, false);
    m.until([&] { return m.store.network().getProblems().size() > 0; });
    EXPECT_STREQ(m.store.network().getProblems()[0].cStr(),
                 "eth0: no carrier: its other end is down; waiting for carrier");
    EXPECT_EQ(m.store.network().getApplied(), 3u);
    m.store.addresses.add(kj::str("10.6.0.2/24"));
    m.work.raise();
    m.until([&] { return m.has("10.6.0.2/24"); });
    netlink::setUp(m.kernel, m.peer);
    m.until([&] { return m.store.network().getProblems().size() == 0; });
    m.quiet();
    EXPECT_EQ(m.kernel.changes, changes + 3) << "the peer twice, the address once";
  });
}

// Catches: marks that the kernel does not keep, so that the next networkd would not recognize its
// own objects.
TEST(NetworkdKernel, WhatIsNoLongerWantedGoesAlsoAfterARestart) {
  onMachine([](Machine& m) {
    m.start();
    m.quiet();
    m.kill();
    netlink::addAddress(m.kernel, m.eth0, prefix("192.0.2.1/24"));
    m.store.addresses[0] = kj::str("10.6.0.2/24");
    m.store.defaultRoute = false;
    m.start();
    m.quiet();
    EXPECT_FALSE(m.has("10.5.0.2/24"));
    EXPECT_TRUE(m.has("10.6.0.2/24"));
    EXPECT_TRUE(m.has("192.0.2.1/24"));
    EXPECT_FALSE(
        hasDefaultRoute({m.kernel.links(), m.kernel.addresses(), m.kernel.routes(), true}));
  });
}

// Catches: a report without the kernel's error.
TEST(NetworkdKernel, TheKernelsWordsAreInTheProblem) {
  onMachine([](Machine& m) {
    m.store.addresses[0] = kj::str("10.6.0.2/24");  // The gateway 10.5.0.1 is not on it.
    m.start();
    m.until([&] { return m.store.last != nullptr; });
    ASSERT_EQ(m.store.network().getProblems().size(), 1u);
    EXPECT_STREQ(m.store.network().getProblems()[0].cStr(),
                 "route 0.0.0.0/0 via 10.5.0.1 on eth0: Nexthop has invalid gateway (Network is "
                 "unreachable)");
  });
}

// Catches: a host name that is set later and not noticed; a pass for each name that is set on a
// host of many containers; a resolver file that is written again and again.
TEST(NetworkdKernel, TheHostsNameAndFile) {
  onMachine([](Machine& m) {
    char directory[] = "/tmp/networkd-test-XXXXXX";
    KJ_ASSERT(mkdtemp(directory) != nullptr);
    KJ_DEFER(removeTree(directory));
    auto host = openHost(m.io.unixEventPort, directory, false);
    for (kj::StringPtr name : {"first"_kj, "second"_kj}) {
      auto changed = host->hostnameChanged();
      EXPECT_FALSE(changed.poll(m.io.waitScope)) << name.cStr();
      KJ_SYSCALL(sethostname(name.begin(), name.size()));
      m.io.provider->getTimer().timeoutAfter(kTimeout, kj::mv(changed)).wait(m.io.waitScope);
      EXPECT_STREQ(host->hostname().cStr(), name.cStr());
    }
    auto changed = host->hostnameChanged();
    KJ_SYSCALL(sethostname("second", 6));  // A name set in another container wakes this one in the
                                           // same way.
    EXPECT_FALSE(changed.poll(m.io.waitScope));
    KJ_SYSCALL(sethostname("third", 5));
    m.io.provider->getTimer().timeoutAfter(kTimeout, kj::mv(changed)).wait(m.io.waitScope);
    auto path = kj::str(directory, "/resolv.conf");
    host->writeResolverFile("nameserver 10.5.0.1\n");
    struct stat first, second;
    KJ_SYSCALL(stat(path.cStr(), &first));
    host->writeResolverFile("nameserver 10.5.0.1\n");
    KJ_SYSCALL(stat(path.cStr(), &second));
    EXPECT_EQ(first.st_ino, second.st_ino);
    EXPECT_EQ(first.st_mode & 0777, 0644u);
    host->writeResolverFile("nameserver 10.5.0.2\n");
    EXPECT_STREQ(readFile(path).cStr(), "nameserver 10.5.0.2\n");
  });
}

// Catches: a setting that goes to another link or that the kernel refuses; a setting that overrides
// an administrator's 0.
TEST(NetworkdKernel, ALinkThatForwardsGoesOnToTakeRouterAdvertisements) {
  onMachine([](Machine& m) {
    auto host = openHost(m.io.unixEventPort, "/nowhere", false);
    auto setting = [](kj::StringPtr link) {
      return readFile(kj::str("/proc/sys/net/ipv6/conf/", link, "/accept_ra"));
    };
    host->acceptRouterAdvertisements("eth0");
    host->acceptRouterAdvertisements("eth7");
    EXPECT_EQ(setting("eth0"), "2\n");
    EXPECT_EQ(setting("peer"), "1\n");
    kj::AutoCloseFd off(open("/proc/sys/net/ipv6/conf/peer/accept_ra", O_WRONLY | O_CLOEXEC));
    KJ_SYSCALL(write(off, "0", 1));
    host->acceptRouterAdvertisements("peer");
    EXPECT_EQ(setting("peer"), "0\n");
  });
}

}  // namespace
}  // namespace talos::networkd
