#include "machined/boot/tasks/network-complete.h"

#include "common/testing/virtual-time.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr auto kTimeout = 30 * kj::SECONDS;

// Runs for as long as the test wants.
class Slow final : public Controller {
 public:
  explicit Slow(kj::Promise<void> until) : until(kj::mv(until)) {}
  kj::StringPtr name() const override { return "test.Slow"; }
  kj::Array<Input> inputs() const override { return nullptr; }
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store&) override { return kj::mv(until); }

 private:
  kj::Promise<void> until;
};

struct NetworkCompleteTest : testing::Test {
  ~NetworkCompleteTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Registry registry;
  TestClock clock;
  Store store{registry, clock};
  ControllerRuntime controllers{store, [](kj::StringPtr) {}, timer, clock, [] { return 0.5; }};

  kj::Promise<kj::Maybe<kj::String>> wait() {
    return networkComplete(store, controllers, timer, kTimeout);
  }
  template <typename Spec>
  void put(kj::StringPtr id, kj::FunctionParam<void(typename Spec::Builder)> f) {
    putRecord<Spec>(store, id, kj::mv(f));
  }
  void want(kj::StringPtr route) {
    put<rpc::RouteSpecSpec>(route, [](auto) {});
  }
  void lease(kj::StringPtr link, kj::StringPtr state = "") {
    put<rpc::OperatorSpecSpec>(link, [](auto) {});
    if (state.size() == 0) return;
    put<rpc::OperatorStatusSpec>(link, [&](auto spec) { spec.setState(state); });
  }
  void applied(uint64_t versions, kj::StringPtr problem = "") {
    put<rpc::NetworkStatusSpec>("status", [&](auto spec) {
      spec.setApplied(versions);
      if (problem.size() > 0) spec.initProblems(1).set(0, problem);
    });
  }
  void address(kj::StringPtr address) {
    put<rpc::NodeAddressSpec>("current", [&](auto spec) { spec.initAddresses(1).set(0, address); });
  }
  void firewall(kj::StringPtr action, uint64_t specVersion, kj::StringPtr problem = "") {
    put<rpc::FirewallStatusSpec>("firewall", [&](auto spec) {
      spec.setIngress(action);
      spec.setSpecVersion(specVersion);
      spec.setProblem(problem);
    });
  }
  // Returns the text about the missing part at the timeout.
  kj::String lackingAtTheEnd() {
    auto waiting = wait();
    advance(timer, scope, kTimeout - 1 * kj::MILLISECONDS);
    EXPECT_FALSE(waiting.poll(scope));
    advance(timer, scope, 2 * kj::MILLISECONDS);
    EXPECT_TRUE(waiting.poll(scope));
    return waiting.wait(scope).orDefault(kj::str("nothing"));
  }
};

// Catches: a boot that waits for a network that is complete already.
TEST_F(NetworkCompleteTest, ResolvesAtOnceWhenItIs) {
  want("default");
  applied(1);
  auto waiting = wait();
  ASSERT_TRUE(waiting.poll(scope));
  EXPECT_TRUE(waiting.wait(scope) == nullptr);
}

// Catches: a routing rule that the kernel does not have and that counts as in effect.
TEST_F(NetworkCompleteTest, ARuleCountsAsARouteDoes) {
  put<rpc::RoutingRuleSpecSpec>("inet4/1500", [](auto) {});
  applied(0, "rule inet4 1500: from all lookup 77: Operation not supported");
  auto waiting = wait();
  EXPECT_FALSE(waiting.poll(scope));
  applied(1);
  EXPECT_TRUE(waiting.poll(scope));
}

// Catches: a wait that misses the change, or notices it only after some time.
TEST_F(NetworkCompleteTest, ResolvesWithTheChangeThatCompletesIt) {
  lease("eth0", "asking");
  auto waiting = wait();
  EXPECT_FALSE(waiting.poll(scope));
  want("default");
  applied(0);
  EXPECT_FALSE(waiting.poll(scope));
  applied(1);
  EXPECT_FALSE(waiting.poll(scope));
  address("10.0.0.2/24");
  ASSERT_TRUE(waiting.poll(scope));
  EXPECT_TRUE(waiting.wait(scope) == nullptr);
}

// Catches: a network that counts as complete before a controller has published its specs.
TEST_F(NetworkCompleteTest, AControllerThatIsAtWorkHoldsItUp) {
  applied(0);
  auto paf = kj::newPromiseAndFulfiller<void>();
  controllers.add(kj::heap<Slow>(kj::mv(paf.promise)));
  auto waiting = wait();
  EXPECT_FALSE(waiting.poll(scope));
  want("default");
  paf.fulfiller->fulfill();
  EXPECT_FALSE(waiting.poll(scope));
  applied(1);
  EXPECT_TRUE(waiting.poll(scope));
}

// Catches: a boot that waits for ever, or does not report what it waited for.
TEST_F(NetworkCompleteTest, NamesWhatIsMissingAfterTheTimeout) {
  EXPECT_EQ("networkd has not reported its status", lackingAtTheEnd());
  want("default");
  applied(0, "no eth9");
  EXPECT_EQ("networkd has applied 0 of 1 spec versions; no eth9", lackingAtTheEnd());
  applied(1);
  lease("eth0");
  EXPECT_EQ("eth0 has assigned no address", lackingAtTheEnd());
  lease("eth0", "asking");
  EXPECT_EQ("eth0 has assigned no address (asking)", lackingAtTheEnd());
  address("10.0.0.2/24");
  auto never = kj::newPromiseAndFulfiller<void>();
  controllers.add(kj::heap<Slow>(kj::mv(never.promise)));
  EXPECT_EQ("controllers are still running", lackingAtTheEnd());
}

// Catches: "in effect" for a link that the kernel refuses, or for one that networkd has not made
// yet; a cable that is missing and counts as a config without effect.
TEST_F(NetworkCompleteTest, WhatNetworkdCannotDoIsNotInEffect) {
  auto missing = [&](kj::Duration until) {
    auto waiting = networkNotInEffect(store, controllers, timer, kTimeout);
    advance(timer, scope, until);
    EXPECT_TRUE(waiting.poll(scope));
    return std::string(kj::strArray(waiting.wait(scope), " | ").cStr());
  };
  constexpr auto kLate = kTimeout + 1 * kj::SECONDS;
  want("dummy1");
  applied(0);
  EXPECT_EQ("machine.network: networkd has applied 0 of 1 spec versions", missing(kLate));
  applied(0, "link dummy1: Operation not supported");
  EXPECT_EQ("machine.network: link dummy1: Operation not supported", missing(kLate));
  EXPECT_EQ(1u, networkProblems(store).size());
  // The link exists, and the kernel refuses only a part of it.
  applied(1, "link bond0: primary is used only in mode active-backup");
  EXPECT_EQ("machine.network: link bond0: primary is used only in mode active-backup",
            missing(0 * kj::SECONDS));
  applied(1, "eth1: no carrier");
  EXPECT_EQ("", missing(0 * kj::SECONDS));
  EXPECT_TRUE(networkProblems(store).empty());
}

// Catches: "in effect" for rules of the firewall that the kernel does not have yet, because the
// report about the rules before them is taken for theirs; or for rules that were not removed.
TEST_F(NetworkCompleteTest, AReportAboutEarlierRulesDoesNotCount) {
  constexpr auto kNotSet = "networkd has not set the rules of the firewall";
  auto wantRules = [&](bool block) {
    put<rpc::FirewallSpecSpec>("firewall", [&](auto spec) { spec.setBlock(block); });
  };
  applied(0);
  wantRules(true);
  EXPECT_EQ(kNotSet, lackingAtTheEnd());
  firewall("", 0);  // written before the kernel has any rule
  EXPECT_EQ(kNotSet, lackingAtTheEnd());
  auto waiting = wait();
  EXPECT_FALSE(waiting.poll(scope));
  firewall("block", 1);
  ASSERT_TRUE(waiting.poll(scope));
  EXPECT_TRUE(waiting.wait(scope) == nullptr);
  wantRules(false);
  EXPECT_EQ(kNotSet, lackingAtTheEnd());
  firewall("", 2, "the kernel has no nf_tables");
  EXPECT_TRUE(wait().wait(scope) == nullptr);
  EXPECT_EQ("firewall: the kernel has no nf_tables", networkProblems(store)[0]);
  store.destroy("", typeName<rpc::FirewallSpecSpec>(), "firewall", kBrainOwner);
  EXPECT_EQ("networkd has not removed the rules of the firewall", lackingAtTheEnd());
  wantRules(true);
  firewall("accept", 1);  // of the rules that were removed, which had this version, too
  EXPECT_EQ(kNotSet, lackingAtTheEnd());
}

// Catches: "in effect" for rules that the kernel refuses, or a boot that waits for them until the
// timeout; a problem that stays after the kernel has taken the rules.
TEST_F(NetworkCompleteTest, RulesThatTheKernelRefusesAreNotInEffect) {
  applied(0);
  put<rpc::FirewallSpecSpec>("firewall", [](auto) {});
  firewall("", 1, "the kernel has no nf_tables");
  auto waiting = wait();
  ASSERT_TRUE(waiting.poll(scope));
  EXPECT_TRUE(waiting.wait(scope) == nullptr);
  auto missing = [&] {
    auto asked = networkNotInEffect(store, controllers, timer, kTimeout);
    EXPECT_TRUE(asked.poll(scope));
    return std::string(kj::strArray(asked.wait(scope), " | ").cStr());
  };
  EXPECT_EQ("machine.network: firewall: the kernel has no nf_tables", missing());
  firewall("accept", 1);
  EXPECT_EQ("", missing());
}

// Catches: "in effect" for settings of a driver that networkd has not made yet, or that the driver
// does not have; a removed spec whose version its successor would have.
TEST_F(NetworkCompleteTest, SettingsThatADriverDoesNotHaveAreNotInEffect) {
  auto report = [&](uint64_t specVersion, kj::StringPtr problem) {
    put<rpc::EthernetStatusSpec>("eth0", [&](auto spec) {
      spec.setSpecVersion(specVersion);
      if (problem.size() > 0) spec.initProblems(1).set(0, problem);
    });
  };
  auto missing = [&] {
    auto asked = networkNotInEffect(store, controllers, timer, kTimeout);
    EXPECT_TRUE(asked.poll(scope));
    return std::string(kj::strArray(asked.wait(scope), " | ").cStr());
  };
  applied(0);
  report(0, "");  // of a card without a spec
  EXPECT_EQ("", missing());
  put<rpc::EthernetSpecSpec>("eth0", [](auto) {});
  EXPECT_EQ("networkd has not set the driver of eth0", lackingAtTheEnd());
  report(1, "");
  EXPECT_EQ("", missing());
  report(1, "rings: the driver of the link has none");
  EXPECT_EQ("EthernetConfig eth0: rings: the driver of the link has none", missing());
  EXPECT_EQ("EthernetConfig eth0: rings: the driver of the link has none",
            driverProblems(store)[0]);
  EXPECT_TRUE(networkProblems(store).empty()) << "the network is set up";
  store.destroy("", typeName<rpc::EthernetSpecSpec>(), "eth0", kBrainOwner);
  EXPECT_EQ("networkd still has the settings of the driver of eth0", lackingAtTheEnd());
  report(0, "");
  EXPECT_EQ("", missing());
}

struct ResolverRow {
  const char* what;
  uint64_t version;
  unsigned listening;
  const char *node, *pods, *problem;  // "" for none
  bool settled;
};

// Catches: "in effect" for a resolver that does not listen yet, or that no resolver file names; a
// boot that waits for one that cannot listen.
TEST_F(NetworkCompleteTest, TheResolverListensAndIsNamed) {
  applied(0);
  put<rpc::HostDnsConfigSpec>("config", [](auto) {});
  EXPECT_TRUE(wait().wait(scope) == nullptr) << "it is off";
  put<rpc::HostDnsConfigSpec>("config", [](auto spec) {
    spec.setEnabled(true);
    auto addresses = spec.initListenAddresses(2);
    addresses.set(0, "127.0.0.53:53");
    addresses.set(1, "169.254.116.108:53");
    spec.setServiceHostDnsAddress("169.254.116.108");
  });
  EXPECT_EQ("networkd has not started host DNS", lackingAtTheEnd());
  const ResolverRow rows[] = {
      {"of the spec before", 1, 2, "127.0.0.53", "169.254.116.108", "", false},
      {"one address", 2, 1, "127.0.0.53", "169.254.116.108", "", false},
      {"no file of the node", 2, 2, "", "169.254.116.108", "", false},
      {"no file of pods", 2, 2, "127.0.0.53", "", "", false},
      {"a problem", 2, 1, "127.0.0.53", "", "cannot listen", true},
      {"all", 2, 2, "127.0.0.53", "169.254.116.108", "", true},
  };
  for (auto& row : rows) {
    put<rpc::HostDnsStatusSpec>("status", [&](auto spec) {
      spec.setSpecVersion(row.version);
      auto listening = spec.initListening(row.listening);
      for (auto i : kj::zeroTo(row.listening)) listening.set(i, "a");
      spec.setNameserver(row.node);
      bool pods = row.pods[0] != '\0';
      auto list = spec.initPodNameservers(pods ? 1 : 0);
      if (pods) list.set(0, row.pods);
      spec.setProblem(row.problem);
    });
    auto waiting = wait();
    EXPECT_EQ(row.settled, waiting.poll(scope)) << row.what;
    auto problems = networkProblems(store);
    EXPECT_EQ(row.problem[0] == '\0', problems.empty()) << row.what;
    if (!problems.empty()) {
      EXPECT_EQ("host DNS: cannot listen", problems[0]);
    }
  }
  put<rpc::HostDnsConfigSpec>("config", [](auto) {});
  EXPECT_EQ("networkd has not stopped host DNS", lackingAtTheEnd());
}

// Catches: a node that counts as reachable because pods reach its resolver.
TEST_F(NetworkCompleteTest, AnAddressOfThisNodeAloneIsNone) {
  lease("eth0", "asking");
  put<rpc::AddressSpecSpec>("lo/169.254.116.108/32", [](auto spec) { spec.setScope("host"); });
  applied(1);
  EXPECT_EQ("eth0 has assigned no address (asking)", lackingAtTheEnd());
  put<rpc::AddressSpecSpec>("eth0/10.0.0.2/24", [](auto spec) { spec.setScope("global"); });
  applied(2);
  EXPECT_TRUE(wait().wait(scope) == nullptr);
}

}  // namespace
}  // namespace talos::machined
