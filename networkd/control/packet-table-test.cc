#include "networkd/control/packet-table.h"

#include "common/base/error.h"
#include "common/testing/printing.h"
#include "networkd/control/filter-specs.h"
#include "networkd/control/test-model-machine.h"

namespace talos::networkd {
namespace {

constexpr kj::StringPtr kTableId = "sample"_kj;
constexpr kj::StringPtr kFour = "169.254.169.254"_kj, kSix = "fd00:ec2::254"_kj;

// The kernel's rules of one table, which outlive networkd.
struct ModelFilter final : public PacketFilter {
  explicit ModelFilter(kj::StringPtr name) : name(name) {}

  kj::StringPtr name;
  kj::Vector<FilterRule> there;
  kj::Maybe<kj::Exception> failure;
  unsigned reads = 0, replaced = 0;
  bool keepsLast = true;  // false: it lists other rules than it was given
  kj::Function<void()> afterWrite = [] {};

  kj::Vector<FilterRule> rules(kj::StringPtr table) override {
    ++reads;
    KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::cp(*e));
    kj::Vector<FilterRule> copy;
    if (table != name) return copy;
    for (auto& rule : there) {
      copy.add(FilterRule{kj::str(rule.chain), kj::str(rule.comment), rule.packets});
    }
    return copy;
  }
  void write(kj::Vector<kj::Array<kj::byte>> transaction) override {
    ++replaced;
    there.clear();
    for (auto& bytes : transaction) {
      netlink::eachMessage(bytes, netlink::Format::kGeneric, [&](netlink::Message&& message) {
        KJ_IF_MAYBE (part, message.body.tryGet<netlink::Generic>()) {
          KJ_IF_MAYBE (rule, readRule(*part, name)) there.add(kj::mv(*rule));
        }
      });
    }
    if (!keepsLast && !there.empty()) there.removeLast();
    afterWrite();
  }
};

// Returns the version of the spec, the default action, the number of rules, dropped packets, and
// the problem.
kj::String textOf(rpc::FirewallStatusSpec::Reader status) {
  return kj::str("v", status.getSpecVersion(), " ", status.getIngress(), " ", status.getRules(),
                 " ", status.getDropped(), " ", status.getProblem());
}
// Returns the addresses, dropped packets, and the problem.
kj::String textOf(rpc::MetadataBlockStatusSpec::Reader status) {
  return kj::str(kj::strArray(status.getAddresses(), ","), " ", status.getDropped(), " ",
                 status.getProblem());
}

// A table with its spec and its status in the store.
template <typename Filter>
struct TableTest : public ModelMachine {
  using Spec = typename Filter::Spec;
  ~TableTest() noexcept override {}

  ModelFilter filter{Filter::kTexts.table};
  Signal work;
  bool synced = true, storeFails = false;
  kj::Maybe<kj::Own<capnp::MallocMessageBuilder>> spec;  // its root is an rpc::Resource
  uint64_t version = 0;                                  // of the last spec
  std::string status = "none";
  kj::Function<void()> afterPublish = [] {};
  kj::Maybe<kj::Own<PacketTable>> table;
  kj::Promise<void> running = nullptr;

  void start() {
    running = nullptr;
    table = kj::heap<PacketTable>(
        filter, timer, work,
        TableInputs{Filter::kTexts, [this] { return read(); },
                    [this](Records records) { return publish(kj::mv(records)); }});
    running = watched(KJ_ASSERT_NONNULL(table)->run());
    settle();
  }
  // Stores a spec, which `fill` fills.
  template <typename Fill>
  void store(Fill&& fill) {
    auto message = kj::heap<capnp::MallocMessageBuilder>();
    auto resource = message->initRoot<rpc::Resource>();
    auto metadata = resource.initMetadata();
    metadata.setId(kTableId);
    metadata.setVersion(++version);
    fill(resource.initSpec().template initAs<Spec>());
    spec = kj::mv(message);
    work.raise();
  }
  void removeSpec() {
    spec = nullptr;
    work.raise();
    settle();
  }
  kj::Maybe<TableSpecs> read() {
    if (!synced) return nullptr;
    kj::Vector<ResourceOf<Spec>> specs;
    KJ_IF_MAYBE (message, spec) {
      specs.add(ResourceOf<Spec>((*message)->template getRoot<rpc::Resource>().asReader()));
    }
    return TableSpecs{Filter::wanted(specs), status != "none"};
  }
  // Returns the rules of the stored spec.
  kj::Vector<FilterRule> wantedRules() {
    auto specs = KJ_ASSERT_NONNULL(read());
    return KJ_ASSERT_NONNULL(specs.wanted)->rules();
  }

 private:
  kj::Promise<void> publish(Records records) {
    if (storeFails) return error(ErrorKind::kUnavailable, "machined is away");
    status = "none";
    KJ_IF_MAYBE (record, records.find(kTableId)) {
      using Status = typename Filter::Status;
      status = textOf((*record)->template getRoot<Status>().asReader()).cStr();
    }
    afterPublish();
    return kj::READY_NOW;
  }
};

struct FirewallTest : public TableTest<FirewallFilter> {
  ~FirewallTest() noexcept override {}

  // The node blocks and opens one port.
  void want() {
    store([](Spec::Builder firewall) {
      firewall.setBlock(true);
      auto rule = firewall.initRules(1)[0];
      rule.setName("api");
      rule.setProtocol("tcp");
      auto ports = rule.initPorts(1)[0];
      ports.setFirst(50000);
      ports.setLast(50000);
      rule.initSubnets(1).set(0, "10.0.0.0/8");
    });
    settle();
  }
};

struct MetadataBlockTest : public TableTest<MetadataFilter> {
  ~MetadataBlockTest() noexcept override {}

  // Transactions and published statuses, each with the addresses that the kernel blocks then.
  std::vector<std::string> steps;
  size_t changeAt = 0;  // number of the step during which the spec changes to kSix; 0: none

  MetadataBlockTest() {
    filter.afterWrite = [this] { add("transaction"); };
    afterPublish = [this] { add(kj::str("status ", status.c_str())); };
  }

  void set(std::initializer_list<kj::StringPtr> addresses) {
    store([&](Spec::Builder block) {
      auto list = block.initAddresses(addresses.size());
      unsigned i = 0;
      for (auto address : addresses) list.set(i++, address);
    });
  }
  void want(std::initializer_list<kj::StringPtr> addresses) {
    set(addresses);
    settle();
  }
  kj::String blocked() const {
    kj::Vector<kj::StringPtr> addresses;
    for (auto& rule : filter.there) {
      if (rule.comment.startsWith("to ")) addresses.add(rule.comment.slice(3));
    }
    return kj::strArray(addresses, ",");
  }

 private:
  void add(kj::StringPtr step) {
    steps.push_back(kj::str(step, "; blocked: ", blocked()).cStr());
    if (steps.size() == changeAt) set({kSix});
  }
};

// Catches: rules that are removed because the spec has not arrived; nf_tables loaded on a machine
// without a firewall; rules that a second check writes again, or that stay although they are not
// wanted any more; accepted packets that count as dropped; the messages of another table.
TEST_F(FirewallTest, FollowsTheSpec) {
  want();
  filter.there = wantedRules();
  spec = nullptr;
  synced = false;
  start();
  EXPECT_EQ(filter.reads, 0u);
  synced = true;
  work.raise();
  settle();
  EXPECT_EQ(filter.reads, 0u);
  filter.there.clear();

  std::string first;
  afterPublish = [&] {
    if (first.empty()) first = status;
  };
  want();
  EXPECT_EQ(filter.replaced, 1u);
  EXPECT_EQ(first, "v0  0 0 ");
  EXPECT_EQ(status, "v2 block 1 0 ");
  for (auto& rule : filter.there) {
    rule.packets = rule.chain == "ingress" && rule.comment == "drop" ? 7 : 0;
    if (rule.comment == "iifname lo accept") rule.packets = 1000;
  }
  pass(PacketTable::kPause);
  EXPECT_EQ(status, "v2 block 1 7 ");
  EXPECT_EQ(filter.replaced, 1u);

  start();  // killed, and started again
  EXPECT_EQ(filter.replaced, 1u);
  filter.there.clear();  // nft flush ruleset
  pass(PacketTable::kPause);
  EXPECT_EQ(filter.replaced, 2u);
  EXPECT_TRUE(sameRules(filter.there, wantedRules()));

  removeSpec();
  EXPECT_EQ(filter.replaced, 3u);
  EXPECT_TRUE(filter.there.empty());
  EXPECT_EQ(status, "none");
  auto reads = filter.reads;
  pass(10 * PacketTable::kPause);
  EXPECT_EQ(filter.reads, reads);
}

// Catches: an open node whose status says that it blocks; a kernel without nf_tables that ends
// networkd, or whose status stays; a problem that is never checked again.
TEST_F(FirewallTest, AKernelThatDoesNotHaveTheRulesIsReported) {
  filter.failure = error(ErrorKind::kUnimplemented, "the kernel has no nf_tables: x");
  start();
  want();
  EXPECT_EQ(status, "v1  0 0 the kernel has no nf_tables: x");
  removeSpec();
  EXPECT_EQ(status, "none");
  filter.failure = nullptr;
  filter.keepsLast = false;
  want();
  EXPECT_EQ(status, "v2  0 0 the kernel lists other rules than it was given");
  filter.keepsLast = true;
  pass(PacketTable::kPause);
  EXPECT_EQ(status, "v2 block 1 0 ");
}

// Catches: addresses that are blocked, and missing in the kernel or in the status; packets that are
// not counted.
TEST_F(MetadataBlockTest, EachAddressIsBlocked) {
  start();
  want({kFour, kSix});
  EXPECT_EQ(blocked(), "169.254.169.254,fd00:ec2::254");
  EXPECT_EQ(status, "169.254.169.254,fd00:ec2::254 0 ");
  filter.there.back().packets = 7;
  pass(PacketTable::kPause);
  EXPECT_EQ(status, "169.254.169.254,fd00:ec2::254 7 ");
  removeSpec();
  EXPECT_TRUE(filter.there.empty());
  EXPECT_EQ(status, "none");
}

// Catches: a kernel without nf_tables whose status says that packets are dropped.
TEST_F(MetadataBlockTest, AKernelWithoutNfTablesIsReported) {
  filter.failure = error(ErrorKind::kUnimplemented, "the kernel has no nf_tables: x");
  start();
  want({kFour});
  EXPECT_EQ(status, " 0 the kernel has no nf_tables: x");
  filter.failure = nullptr;  // its module was loaded
  pass(PacketTable::kPause);
  EXPECT_EQ(status, "169.254.169.254 0 ");
}

// Catches: a status that names rules before the kernel has them; a status that is removed before
// its rules, which no later networkd would remove then.
TEST_F(MetadataBlockTest, TheStatusFollowsTheRulesThatWereReplaced) {
  using Steps = std::vector<std::string>;
  start();
  want({kFour});
  EXPECT_EQ(steps, (Steps{"status  0 ; blocked: ", "transaction; blocked: 169.254.169.254",
                          "status 169.254.169.254 0 ; blocked: 169.254.169.254"}));
  steps.clear();
  want({kSix});
  EXPECT_EQ(steps, (Steps{"transaction; blocked: fd00:ec2::254",
                          "status fd00:ec2::254 0 ; blocked: fd00:ec2::254"}));
  steps.clear();
  removeSpec();
  EXPECT_EQ(steps, (Steps{"transaction; blocked: ", "status none; blocked: "}));
}

// Catches: a change that is forgotten, because it arrives while the rules are replaced or reported.
TEST_F(MetadataBlockTest, AChangeDuringAReplacementIsCarriedOutAfterwards) {
  start();
  // The status before the rules, the transaction, the status after it.
  for (size_t step : {1, 2, 3}) {
    SCOPED_TRACE(step);
    steps.clear();
    changeAt = step;
    want({kFour});
    EXPECT_EQ(blocked(), kSix);
    EXPECT_EQ(status, "fd00:ec2::254 0 ");
    EXPECT_EQ(steps.size(), 5u);  // the three steps, and two of the change
    removeSpec();
  }
}

// Catches: rules that stay for ever although they are not wanted, because networkd ended after
// making them and before reporting them.
TEST_F(MetadataBlockTest, SaysThatThereMayBeRulesBeforeTheyAreMade) {
  start();
  filter.failure = error(ErrorKind::kUnavailable, "killed here");
  want({kFour});
  EXPECT_NE(status, "none");
  running = nullptr;
  filter.failure = nullptr;
  filter.there = wantedRules();
  spec = nullptr;
  start();
  EXPECT_TRUE(filter.there.empty());
  EXPECT_EQ(status, "none");
}

// Catches: a status that is lost with one failed write; a kernel that is changed although no report
// can follow.
TEST_F(MetadataBlockTest, ReportsAgainWhenMachinedIsBack) {
  storeFails = true;
  start();
  want({kFour});
  EXPECT_EQ(filter.replaced, 0u);
  storeFails = false;
  pass(PacketTable::kPause);
  EXPECT_EQ(status, "169.254.169.254 0 ");
}

}  // namespace
}  // namespace talos::networkd
