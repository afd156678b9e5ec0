#include "networkd/control/firewall.h"

#include "common/base/error.h"
#include "networkd/control/test-model-machine.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {
namespace {

// The kernel's rules, which outlive networkd.
struct ModelFirewall final : public FirewallFilter {
  kj::Vector<FilterRule> there;
  kj::Maybe<kj::Exception> failure;
  unsigned reads = 0, replaced = 0;
  bool keepsLast = true;  // false: it lists other rules than it was given

  kj::Vector<FilterRule> rules() override {
    ++reads;
    KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::cp(*e));
    kj::Vector<FilterRule> copy;
    for (auto& rule : there) {
      copy.add(FilterRule{kj::str(rule.chain), kj::str(rule.comment), rule.packets});
    }
    return copy;
  }
  void replace(kj::Maybe<const FirewallTable&> wanted) override {
    ++replaced;
    there.clear();
    KJ_IF_MAYBE (table, wanted) there = table->listed();
    if (!keepsLast && !there.empty()) there.removeLast();
  }
};

struct FirewallTest : public ModelMachine {
  ~FirewallTest() noexcept override {}

  ModelFirewall filter;
  Signal work;
  bool synced = true, storeFails = false, wanted = false;
  std::string status = "none";  // default action, rules, dropped packets, problem
  kj::Maybe<kj::Own<Firewall>> firewall;
  kj::Promise<void> running = nullptr;

  void start() {
    running = nullptr;
    firewall = kj::heap<Firewall>(
        filter, timer, work, [this] { return state(); },
        [this](Records records) { return publish(kj::mv(records)); });
    running = watched(KJ_ASSERT_NONNULL(firewall)->run());
    settle();
  }
  void want(bool wants) {
    wanted = wants;
    work.raise();
    settle();
  }
  // Returns the table of a node that blocks and opens one port.
  static FirewallTable table() {
    capnp::MallocMessageBuilder message;
    auto spec = message.initRoot<rpc::FirewallSpecSpec>();
    spec.setBlock(true);
    auto rule = spec.initRules(1)[0];
    rule.setName("api");
    rule.setProtocol("tcp");
    auto ports = rule.initPorts(1)[0];
    ports.setFirst(50000);
    ports.setLast(50000);
    rule.initSubnets(1).set(0, "10.0.0.0/8");
    return firewallTable(spec.asReader());
  }

 private:
  kj::Maybe<Firewall::State> state() {
    if (!synced) return nullptr;
    Firewall::State state;
    state.reported = status != "none";
    if (wanted) state.wanted = table();
    return kj::mv(state);
  }
  kj::Promise<void> publish(Records records) {
    if (storeFails) return error(ErrorKind::kUnavailable, "machined is away");
    status = "none";
    KJ_IF_MAYBE (record, records.find(kFirewallId)) {
      auto spec = (*record)->getRoot<rpc::FirewallStatusSpec>();
      status = kj::str(spec.getIngress(), " ", spec.getRules(), " ", spec.getDropped(), " ",
                       spec.getProblem())
                   .cStr();
    }
    return kj::READY_NOW;
  }
};

// Catches: rules that are removed because the spec has not arrived; nf_tables loaded on a machine
// without a firewall; rules that a second check writes again, or that stay although they are not
// wanted any more; accepted packets that count as dropped.
TEST_F(FirewallTest, FollowsTheSpec) {
  filter.there = table().listed();
  synced = false;
  start();
  EXPECT_EQ(filter.reads, 0u);
  synced = true;
  work.raise();
  settle();
  EXPECT_EQ(filter.reads, 0u);
  filter.there.clear();

  want(true);
  EXPECT_EQ(filter.replaced, 1u);
  EXPECT_EQ(status, "block 1 0 ");
  for (auto& rule : filter.there) {
    rule.packets = rule.chain == "ingress" && rule.comment == "drop" ? 7 : 0;
    if (rule.comment == "iifname lo accept") rule.packets = 1000;
  }
  pass(kFilterPause);
  EXPECT_EQ(status, "block 1 7 ");
  EXPECT_EQ(filter.replaced, 1u);

  start();  // killed, and started again
  EXPECT_EQ(filter.replaced, 1u);
  filter.there.clear();  // nft flush ruleset
  pass(kFilterPause);
  EXPECT_EQ(filter.replaced, 2u);
  EXPECT_EQ(filter.there.size(), table().rules.size());

  want(false);
  EXPECT_EQ(filter.replaced, 3u);
  EXPECT_TRUE(filter.there.empty());
  EXPECT_EQ(status, "none");
  auto reads = filter.reads;
  pass(10 * kFilterPause);
  EXPECT_EQ(filter.reads, reads);
}

// Catches: rules that stay for ever although they are not wanted, because networkd ended after
// making them and before reporting them.
TEST_F(FirewallTest, SaysThatThereMayBeRulesBeforeTheyAreMade) {
  start();
  filter.failure = error(ErrorKind::kUnavailable, "killed here");
  want(true);
  EXPECT_NE(status, "none");
  running = nullptr;
  filter.failure = nullptr;
  filter.there = table().listed();
  wanted = false;
  start();
  EXPECT_TRUE(filter.there.empty());
  EXPECT_EQ(status, "none");
}

// Catches: an open node whose status says that it blocks; a problem that is never checked again.
TEST_F(FirewallTest, AKernelThatDoesNotHaveTheRulesIsReported) {
  filter.failure = error(ErrorKind::kUnimplemented, "the kernel has no nf_tables: x");
  start();
  want(true);
  EXPECT_EQ(status, " 0 0 the kernel has no nf_tables: x");
  want(false);
  EXPECT_EQ(status, "none");
  filter.failure = nullptr;
  filter.keepsLast = false;
  want(true);
  EXPECT_EQ(status, " 0 0 the kernel lists other rules than it was given");
  filter.keepsLast = true;
  pass(kFilterPause);
  EXPECT_EQ(status, "block 1 0 ");
}

// Catches: a status that is lost with one failed write.
TEST_F(FirewallTest, ReportsAgainWhenMachinedIsBack) {
  storeFails = true;
  start();
  want(true);
  EXPECT_EQ(filter.replaced, 0u);
  storeFails = false;
  pass(kFilterPause);
  EXPECT_EQ(status, "block 1 0 ");
}

}  // namespace
}  // namespace talos::networkd
