#include "networkd/control/ethernet-reconciler.h"

#include "common/base/error.h"
#include "networkd/control/test-model-machine.h"

namespace talos::networkd {
namespace {

using netlink::EthernetNumber;
using netlink::EthernetState;
using netlink::SetEthernet;

// Drivers whose rings have sizes that are multiples of 64, up to 1024.
class ModelDrivers final : public netlink::Ethtool {
 public:
  std::map<unsigned, EthernetState> states;  // by the link's index
  kj::Maybe<kj::String> refusal;
  std::optional<netlink::EthernetGroup> refuses = {};  // this group only
  unsigned reads = 0, sets = 0;

  EthernetState read(unsigned index) override {
    ++reads;
    auto found = states.find(index);
    if (found == states.end()) fail(ErrorKind::kFailedPrecondition, "no driver");
    return found->second;
  }
  kj::Maybe<kj::String> set(const SetEthernet& set) override {
    ++sets;
    KJ_IF_MAYBE (reason, refusal) return kj::str(*reason);
    if (refuses == set.group) return kj::str("busy");
    for (auto& value : set.values) {
      for (auto& ring : *states[set.index].rings) {
        if (ring.name == value.name) ring.value = (value.value + 63) / 64 * 64;
      }
    }
    return nullptr;
  }
  void plug(unsigned index) {
    states[index].rings = std::vector<EthernetNumber>{{"rx", 256, 1024}};
  }
};

struct EthernetReconcilerTest : public ModelMachine {
  ~EthernetReconcilerTest() noexcept override {}

  kj::Own<netlink::Monitor> monitor = kernel.monitor(EthernetReconciler::kSubjects);
  ModelDrivers drivers;
  Signal work;
  bool arrived = true, broken = false;
  std::vector<WantedEthernet> specs;
  Records published;
  kj::Maybe<kj::Own<EthernetReconciler>> reconciler;
  kj::Promise<void> running = nullptr;

  void start() {
    auto read = [this]() -> kj::Maybe<std::vector<WantedEthernet>> {
      if (!arrived) return nullptr;
      return std::vector<WantedEthernet>(specs);
    };
    auto publish = [this](Records records) -> kj::Promise<void> {
      KJ_REQUIRE(!broken, "store is away");
      published = kj::mv(records);
      return kj::READY_NOW;
    };
    auto made = kj::heap<EthernetReconciler>(kernel, *monitor, drivers, timer, work,
                                             EthernetInputs{kj::mv(read), kj::mv(publish)});
    running = watched(made->run());
    reconciler = kj::mv(made);
    settle();
  }
  void kill() {
    running = nullptr;
    reconciler = nullptr;
  }
  void want(const char* link, uint32_t rx) {
    specs.clear();
    specs.push_back({.link = link, .version = ++version, .rings = {{"rx", rx}}});
    work.raise();
    settle();
  }
  // Returns the version of the spec, the first ring and the problems.
  std::string status(kj::StringPtr link) {
    KJ_IF_MAYBE (record, published.find(link)) {
      auto spec = (*record)->getRoot<rpc::EthernetStatusSpec>().asReader();
      auto text = kj::str("v", spec.getSpecVersion());
      if (spec.getRings().size() > 0) text = kj::str(text, " ", spec.getRings()[0].getValue());
      for (auto problem : spec.getProblems()) text = kj::str(text, " ", problem);
      return text.cStr();
    }
    return "none";
  }

 private:
  uint64_t version = 0;
};

// Catches: a setting without an effect, or that is set at each check; a check that misses a change;
// a removed spec that changes the driver, or whose version stays in the status.
TEST_F(EthernetReconcilerTest, SetsWhatDiffersOnce) {
  drivers.plug(eth0);
  start();
  EXPECT_EQ(status("eth0"), "v0 256");
  EXPECT_EQ(drivers.sets, 0u);
  want("eth0", 512);
  EXPECT_EQ(status("eth0"), "v1 512");
  pass(EthernetReconciler::kPause);
  EXPECT_EQ(drivers.sets, 1u);
  specs.clear();
  work.raise();
  settle();
  EXPECT_EQ(status("eth0"), "v0 512");
  EXPECT_EQ(drivers.sets, 1u);
}

// Catches: another program's change that stays.
TEST_F(EthernetReconcilerTest, ChecksOnceAMinuteWhileThereIsASpec) {
  drivers.plug(eth0);
  start();
  want("eth0", 512);
  drivers.plug(eth0);
  pass(EthernetReconciler::kPause - 1 * kj::MILLISECONDS);
  EXPECT_EQ(drivers.sets, 1u);
  pass(1 * kj::MILLISECONDS);
  EXPECT_EQ(drivers.sets, 2u);
  EXPECT_EQ(status("eth0"), "v1 512");
}

// Catches: a driver that is set again and again because it rounds, which takes the link down each
// minute; a rounded value that counts as done; one that is not tried again with another spec.
TEST_F(EthernetReconcilerTest, AValueThatTheDriverRoundsIsSetOnce) {
  drivers.plug(eth0);
  start();
  want("eth0", 500);
  EXPECT_EQ(status("eth0"), "v1 512 rings.rx: the driver has 512 instead of 500");
  pass(EthernetReconciler::kPause);
  pass(EthernetReconciler::kPause);
  EXPECT_EQ(drivers.sets, 1u);
  EXPECT_EQ(status("eth0"), "v1 512 rings.rx: the driver has 512 instead of 500");
  want("eth0", 501);
  EXPECT_EQ(drivers.sets, 2u);
}

// Catches: a rounded value that stays lost after another program's change.
TEST_F(EthernetReconcilerTest, ARoundedValueThatAnotherProgramChangesIsSetAgain) {
  drivers.plug(eth0);
  start();
  want("eth0", 500);
  drivers.plug(eth0);
  pass(EthernetReconciler::kPause);
  EXPECT_EQ(drivers.sets, 2u);
  EXPECT_EQ(status("eth0"), "v1 512 rings.rx: the driver has 512 instead of 500");
}

// Catches: a refused setting that takes the link down at each retry, because a rounded one of
// another group is set again with it; a problem of either that is lost.
TEST_F(EthernetReconcilerTest, ARefusedGroupDoesNotRepeatTheOthers) {
  drivers.plug(eth0);
  drivers.states[eth0].channels = std::vector<EthernetNumber>{{"combined", 2, 8}};
  drivers.refuses = netlink::EthernetGroup::kChannels;
  start();
  specs.push_back(
      {.link = "eth0", .version = 1, .rings = {{"rx", 500}}, .channels = {{"combined", 4}}});
  work.raise();
  settle();
  auto both = "v1 512 channels combined 4: busy rings.rx: the driver has 512 instead of 500";
  EXPECT_EQ(status("eth0"), both);
  EXPECT_EQ(drivers.sets, 2u);
  pass(1 * kj::SECONDS);
  EXPECT_EQ(drivers.sets, 3u);
  EXPECT_EQ(status("eth0"), both);
}

// Catches: a refusal that is not reported, not tried again, or tried in a busy loop.
TEST_F(EthernetReconcilerTest, ARefusedSettingIsTriedAgain) {
  drivers.plug(eth0);
  drivers.refusal = kj::str("Operation not supported");
  start();
  want("eth0", 512);
  EXPECT_EQ(status("eth0"), "v1 256 rings rx 512: Operation not supported");
  EXPECT_EQ(drivers.sets, 1u);
  drivers.refusal = nullptr;
  pass(999 * kj::MILLISECONDS);
  EXPECT_EQ(drivers.sets, 1u);
  pass(1 * kj::MILLISECONDS);
  EXPECT_EQ(status("eth0"), "v1 512");
}

// Catches: a spec of an absent link that is forgotten, or that fails the others; a card that comes
// later and keeps its settings.
TEST_F(EthernetReconcilerTest, AnAbsentLinkIsWaitedFor) {
  drivers.plug(eth0);
  start();
  want("eth1", 512);
  EXPECT_EQ(status("eth1"),
            "v1 there is no link with this name; its settings are made when it appears");
  EXPECT_EQ(status("eth0"), "v0 256");
  drivers.plug(eth0 + 1);
  ASSERT_EQ(kernel.plug("eth1"), eth0 + 1);
  work.raise();
  settle();
  EXPECT_EQ(status("eth1"), "v1 512");
}

// Catches: a change of the links that is not read, or each of a storm that is.
TEST_F(EthernetReconcilerTest, LinksAreReadAfterAPause) {
  drivers.plug(eth0);
  start();
  auto before = drivers.reads;
  kernel.rename(eth0, "wan0");
  settle();
  kernel.rename(eth0, "wan1");
  settle();
  EXPECT_EQ(drivers.reads, before);
  pass(EthernetReconciler::kLinkPause);
  EXPECT_EQ(drivers.reads, before + 1);
  EXPECT_EQ(status("wan1"), "v0 256");
  EXPECT_EQ(status("eth0"), "none");
}

// Catches: a networkd that sets something before the specs have arrived, or that gives up without
// the store; a driver that cannot be read and stops the others.
TEST_F(EthernetReconcilerTest, WaitsForTheStoreAndSurvivesFailures) {
  arrived = false;
  start();
  EXPECT_EQ(drivers.reads, 0u);
  arrived = true;
  broken = true;
  drivers.plug(eth0);
  want("eth0", 512);
  EXPECT_EQ(drivers.sets, 1u);
  EXPECT_EQ(status("eth0"), "none");
  broken = false;
  pass(1 * kj::SECONDS);
  EXPECT_EQ(status("eth0"), "v1 512");
  kill();
  drivers.states.clear();
  start();
  EXPECT_EQ(status("eth0"), "v1 no driver");
}

}  // namespace
}  // namespace talos::networkd
