// Whole runs of commands that change a config which is then on trial.
#include "common/base/sha256.h"
#include "talosctl/configure/apply-configs.h"
#include "talosctl/configure/test-configs.h"

namespace talos::talosctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using State = rpc::ConfigTrial::State;

constexpr uint64_t kTrialMs = 600'000;

struct OnTrial : public Configs {
  ~OnTrial() noexcept override {}
  OnTrial() { config("10.0.0.2").trialMs = kTrialMs; }
  // Reports that the newest config is in this state.
  void report(rpc::Status::Builder status, State state) {
    auto& applied = config("10.0.0.2").applied;
    if (applied.empty()) return;
    Sha256 hash;
    hash.add(applied.back().asBytes());
    status.setConfigSha256(hash.hex());
    auto trial = status.initConfigTrial();
    trial.setState(state);
    trial.setLeftMs(kTrialMs);
    trial.setReason("not within 10 min: no etcd");
  }
  // Lets the run continue for this time.
  void advance(kj::Duration time) {
    for (auto end = c.clock.now() + time; c.clock.now() < end;) {
      c.settle();
      KJ_IF_MAYBE (next, c.clock.nextEvent()) c.clock.advanceTo(kj::max(*next, c.clock.now()));
    }
  }
  void awaitApply() {
    for (int i = 0; i < 50 && config("10.0.0.2").applied.empty(); ++i) c.settle();
    ASSERT_EQ(config("10.0.0.2").applied.size(), 1u);
  }
};

}  // namespace

// Catches: a change over the node's own socket that goes back, because no call comes from outside.
TEST(CallsAgain, OnlyOverTheNetwork) {
  auto network = kj::arr(kj::str("10.0.0.2")), local = kj::arr(kj::str("unix:/run/machined.sock"));
  for (auto mode : {rpc::ApplyMode::AUTO, rpc::ApplyMode::NO_REBOOT}) {
    EXPECT_TRUE(callsAgain({.mode = mode}, network));
    EXPECT_FALSE(callsAgain({.mode = mode}, local));
  }
  EXPECT_FALSE(callsAgain({.mode = rpc::ApplyMode::REBOOT}, network));
  EXPECT_TRUE(callsAgain({.mode = rpc::ApplyMode::REBOOT, .wait = true}, network));
  EXPECT_FALSE(callsAgain({.mode = rpc::ApplyMode::REBOOT, .wait = true}, local));
}

// Catches: an editor that opens again after the config went back, so that a script applies the
// harmful config three times; an edited text that is lost.
TEST_F(OnTrial, AnEditThatGoesBackIsOver) {
  node("10.0.0.2").fillStatus = [this](auto status) { report(status, State::REVERTED); };
  editor("sed -i 's/hostname: .*/&-edited/' $f");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "edit", "mc", "--immediate"}), 1);
  EXPECT_EQ(runs(), 1u);
  EXPECT_EQ(config("10.0.0.2").applied.size(), 1u);
  EXPECT_THAT(err(), HasSubstr("error: 10.0.0.2: the previous config is back: not within 10 min: "
                               "no etcd; the edited text, with its secrets, is kept in "));
}

// Catches: a node that is off for which talosctl waits as long as for one that it has just cut off;
// one that was cut off and is given up too early.
TEST_F(OnTrial, OnlyANodeThatAnsweredIsWaitedFor) {
  node("10.0.0.2").off = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--mode=auto"}), 1);
  EXPECT_LT(c.clock.now() - kj::origin<kj::TimePoint>(), 1 * kj::MINUTES);
  EXPECT_THAT(err(), HasSubstr("it is not known whether the node has applied the config"));

  node("10.0.0.2").off = false;
  config("10.0.0.2").losesAnswer = true;
  config("10.0.0.2").trialMs = 0;
  config("10.0.0.2").operationStates.add(kj::str("done"));
  auto document = file();
  auto run = c.start({"-n", "10.0.0.2", "apply-config", "-f", document, "--immediate"});
  awaitApply();
  node("10.0.0.2").off = true;
  advance(60 * kj::SECONDS);
  node("10.0.0.2").off = false;
  node("10.0.0.2").fillStatus = [this](auto status) { report(status, State::REVERTED); };
  EXPECT_EQ(c.finish(kj::mv(run)), 1);
  EXPECT_THAT(err(), HasSubstr("error: 10.0.0.2: the previous config is back: "));
}

// Catches: a change of the address, which no call confirms; another machine at a new address that
// is taken for the node.
TEST_F(OnTrial, AMovedNodeIsCalledAtItsNewAddress) {
  auto document = file();
  auto run = c.start({"-n", "10.0.0.2", "apply-config", "-f", document, "--immediate", "-p",
                      "{machine: {network: {interfaces: [{interface: eth0, cidr: 10.0.0.3/24, "
                      "vlans: [{vlanId: 7, addresses: [10.7.0.2/24]}]}]}}}"});
  node("10.0.0.3").fillStatus = [](rpc::Status::Builder status) {
    status.setConfigSha256("of another machine");
    status.initConfigTrial().setState(State::CONFIRMED);
  };
  awaitApply();
  node("10.0.0.2").off = true;
  advance(20 * kj::SECONDS);
  EXPECT_THAT(err(), Not(HasSubstr("reached")));
  unsigned calls = 0;
  node("10.7.0.2").fillStatus = [&](auto status) {
    report(status, State::TRYING);
    status.getConfigTrial().setReached(++calls > 3);
  };
  EXPECT_EQ(c.finish(kj::mv(run)), 0);
  EXPECT_THAT(err(), HasSubstr("10.0.0.2: reached after "));
}

// Catches: a line of a log for each second of a trial.
TEST_F(OnTrial, TheOutputOfAScriptIsShort) {
  unsigned looks = 0;
  node("10.0.0.2").fillStatus = [&](auto status) {
    report(status, ++looks > 100 ? State::CONFIRMED : State::TRYING);
    status.getConfigTrial().setLeftMs(kTrialMs - looks * 500);
  };
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--immediate", "--wait"}), 0);
  auto text = err();
  unsigned lines = 0;
  for (size_t at = 0; (at = text.find("gives up within", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 1u) << text;
  EXPECT_THAT(text, HasSubstr("10.0.0.2: confirmed: the config stays\n"));
}

// Catches: a wait that ends with the failed boot, although the node is about to go back, and
// without the reason.
TEST_F(OnTrial, AWaitForTheRebootEndsWithTheTrial) {
  auto& fake = node("10.0.0.2");
  fake.answersUntilReboot = 2;
  unsigned looks = 0;
  fake.fillStatus = [&](rpc::Status::Builder status) {
    if (fake.bootId != "boot-2") return;
    bool isBack = ++looks > 20;
    report(status, isBack ? State::REVERTED : State::TRYING);
    status.setStage(isBack ? rpc::Status::Stage::RUNNING : rpc::Status::Stage::FAILED);
  };
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--wait"}), 1);
  EXPECT_THAT(err(), AllOf(HasSubstr("10.0.0.2: rebooted, but the boot failed: \n"),
                           HasSubstr("error: 10.0.0.2: the previous config is back: not within 10 "
                                     "min: no etcd\n")));
}

TEST_F(OnTrial, TryAlwaysReverts) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply", "-f", file(), "--mode=try", "--no-trial"}), 1);
  EXPECT_THAT(err(), HasSubstr("--no-trial cannot be used with --mode=try"));
  EXPECT_TRUE(config("10.0.0.2").applied.empty());
}

}  // namespace talos::talosctl
