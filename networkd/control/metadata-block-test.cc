#include "networkd/control/metadata-block.h"

#include "common/base/error.h"
#include "networkd/control/test-model-machine.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {
namespace {

// The kernel's rules, which outlive networkd.
struct ModelFilter final : public MetadataFilter {
  kj::Vector<FilterRule> there;
  kj::Maybe<kj::Exception> failure;
  unsigned reads = 0, replaced = 0;

  kj::Vector<FilterRule> rules() override {
    ++reads;
    KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::cp(*e));
    kj::Vector<FilterRule> copy;
    for (auto& rule : there) {
      copy.add(FilterRule{kj::str(rule.chain), kj::str(rule.comment), rule.packets});
    }
    return copy;
  }
  void replace(kj::ArrayPtr<const Ip> addresses) override {
    ++replaced;
    there = metadataRules(addresses);
  }
};

struct MetadataBlockTest : public ModelMachine {
  ~MetadataBlockTest() noexcept override {}

  ModelFilter filter;
  Signal work;
  bool synced = true, storeFails = false;
  kj::Vector<kj::String> wanted;  // addresses; empty: no spec
  unsigned published = 0;
  std::string status = "none";  // addresses, dropped packets, problem
  kj::Maybe<kj::Own<MetadataBlock>> block;
  kj::Promise<void> running = nullptr;

  void start() {
    running = nullptr;
    block = kj::heap<MetadataBlock>(
        filter, timer, work, [this] { return state(); },
        [this](Records records) { return publish(kj::mv(records)); });
    running = watched(KJ_ASSERT_NONNULL(block)->run());
    settle();
  }
  void want(std::initializer_list<kj::StringPtr> addresses) {
    wanted.clear();
    for (auto address : addresses) wanted.add(kj::str(address));
    work.raise();
    settle();
  }

 private:
  kj::Maybe<MetadataBlock::State> state() {
    if (!synced) return nullptr;
    MetadataBlock::State state;
    state.reported = status != "none";
    if (!wanted.empty()) {
      auto& one = state.wanted.add();
      one.id = kj::str("aws");
      for (auto& address : wanted) one.addresses.add(kj::str(address));
    }
    return kj::mv(state);
  }
  kj::Promise<void> publish(Records records) {
    if (storeFails) return error(ErrorKind::kUnavailable, "machined is away");
    ++published;
    status = "none";
    KJ_IF_MAYBE (record, records.find("aws"_kj)) {
      auto spec = (*record)->getRoot<rpc::MetadataBlockStatusSpec>();
      status = kj::str(kj::strArray(spec.getAddresses(), ","), " ", spec.getDropped(), " ",
                       spec.getProblem())
                   .cStr();
    }
    return kj::READY_NOW;
  }
};

// Catches: rules that are removed because the specs have not arrived; nf_tables loaded on a machine
// that needs no rules; rules that a second check writes again, or that stay although they are not
// wanted any more.
TEST_F(MetadataBlockTest, FollowsTheSpec) {
  filter.there = metadataRules(kj::arr(Ip::require("169.254.169.254")));
  synced = false;
  start();
  EXPECT_EQ(filter.reads, 0u);
  synced = true;
  work.raise();
  settle();
  EXPECT_EQ(filter.reads, 0u);
  filter.there.clear();

  want({"169.254.169.254", "fd00:ec2::254"});
  EXPECT_EQ(filter.replaced, 1u);
  EXPECT_EQ(status, "169.254.169.254,fd00:ec2::254 0 ");
  filter.there.back().packets = 7;
  pass(MetadataBlock::kPause);
  EXPECT_EQ(status, "169.254.169.254,fd00:ec2::254 7 ");
  EXPECT_EQ(filter.replaced, 1u);

  start();  // killed, and started again
  EXPECT_EQ(filter.replaced, 1u);
  filter.there.clear();  // nft flush ruleset
  pass(MetadataBlock::kPause);
  EXPECT_EQ(filter.replaced, 2u);
  EXPECT_EQ(filter.there.size(), 7u);

  want({});
  EXPECT_EQ(filter.replaced, 3u);
  EXPECT_TRUE(filter.there.empty());
  EXPECT_EQ(status, "none");
  auto reads = filter.reads;
  pass(10 * MetadataBlock::kPause);
  EXPECT_EQ(filter.reads, reads);
}

// Catches: rules that stay for ever although they are not wanted, because networkd ended after
// making them and before reporting them.
TEST_F(MetadataBlockTest, SaysThatThereMayBeRulesBeforeTheyAreMade) {
  start();
  filter.failure = error(ErrorKind::kUnavailable, "killed here");
  want({"169.254.169.254"});
  EXPECT_NE(status, "none");
  running = nullptr;
  filter.failure = nullptr;
  filter.there = metadataRules(kj::arr(Ip::require("169.254.169.254")));
  wanted.clear();
  start();
  EXPECT_TRUE(filter.there.empty());
  EXPECT_EQ(status, "none");
}

// Catches: a kernel without nf_tables that ends networkd, or whose report says that packets are
// dropped; a problem that is never checked again.
TEST_F(MetadataBlockTest, AKernelWithoutNfTablesIsReported) {
  filter.failure = error(ErrorKind::kUnimplemented, "the kernel has no nf_tables: x");
  start();
  want({"169.254.169.254"});
  EXPECT_EQ(status, " 0 the kernel has no nf_tables: x");
  want({});
  EXPECT_EQ(status, "none");
  want({"169.254.169.254"});
  filter.failure = nullptr;  // its module was loaded
  pass(MetadataBlock::kPause);
  EXPECT_EQ(status, "169.254.169.254 0 ");
}

// Catches: a status that is lost with one failed write; a kernel that is changed although no report
// can follow.
TEST_F(MetadataBlockTest, ReportsAgainWhenMachinedIsBack) {
  storeFails = true;
  start();
  want({"169.254.169.254"});
  EXPECT_EQ(filter.replaced, 0u);
  storeFails = false;
  pass(MetadataBlock::kPause);
  EXPECT_EQ(status, "169.254.169.254 0 ");
}

}  // namespace
}  // namespace talos::networkd
