#include "talosctl/configure/follow-trial.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <string>

namespace talos::talosctl {
namespace {

using State = rpc::ConfigTrial::State;

}  // namespace

// Catches: a config that went back and counts as applied; a trial without its time or its reason; a
// command that waits for the end although it only has to reach the node.
TEST(FollowTrial, TheStateOfTheNodeDecides) {
  struct {
    State state;
    bool reach, reached, ifOnTrial;
    const char* runs;
    Verdict verdict;
    const char* text;
  } rows[] = {
      {State::NONE, false, false, false, "abc", Verdict::kDone, "not on trial"},
      {State::NONE, false, false, false, "", Verdict::kWait, "the node has no config yet"},
      {State::NONE, true, false, false, "def", Verdict::kFailed,
       "the node runs another config: this one was replaced, or never took effect"},
      {State::NONE, true, false, true, "def", Verdict::kDone, "not on trial"},
      {State::CONFIRMED, false, false, false, "abc", Verdict::kDone, "confirmed"},
      {State::TRYING, false, true, false, "abc", Verdict::kWait,
       "on trial, gives up within 2m0s: network: down"},
      {State::TRYING, true, false, true, "abc", Verdict::kWait,
       "on trial, gives up within 2m0s: network: down"},
      {State::TRYING, true, true, false, "abc", Verdict::kDone, "reached"},
      {State::TRYING, false, true, false, "def", Verdict::kFailed,
       "the node runs another config: this one was replaced"},
      {State::CONFIRMED, false, false, false, "def", Verdict::kFailed,
       "the node runs another config: this one was replaced"},
      {State::CONFIRMED, true, false, false, "def", Verdict::kDone,
       "the node runs another config: this one was replaced"},
      {State::REVERTING, true, true, false, "abc", Verdict::kFailed,
       "the previous config comes back: no etcd"},
      {State::REVERTED, false, false, true, "def", Verdict::kFailed,
       "the previous config is back: no etcd"},
  };
  for (auto& row : rows) {
    capnp::MallocMessageBuilder message;
    auto status = message.initRoot<rpc::Status>();
    status.setConfigSha256(row.runs);
    auto trial = status.initConfigTrial();
    trial.setState(row.state);
    trial.setReached(row.reached);
    trial.setLeftMs(90'900);
    trial.setLacks("network: down");
    trial.setReason("no etcd");
    auto judged =
        judgeTrial(status.asReader(),
                   {.document = kj::str("abc"), .reach = row.reach, .ifOnTrial = row.ifOnTrial});
    EXPECT_EQ(row.verdict, judged.verdict) << row.text;
    EXPECT_EQ(std::string(row.text), judged.text.cStr());
  }
}

// Catches: a boot that ends the wait although the node is about to go back, or that does not say
// that it went back; mode try that counts as a change which stays.
TEST(FollowTrial, ABootThatFailsIsNotTheEnd) {
  capnp::MallocMessageBuilder message;
  auto status = message.initRoot<rpc::Status>();
  auto judged = [&](State state) {
    status.initConfigTrial().setState(state);
    status.getConfigTrial().setReason("no etcd");
    return judgeTrialBoot(status.asReader(), {Verdict::kFailed, kj::str("the boot failed")});
  };
  EXPECT_EQ(Verdict::kWait, judged(State::TRYING).verdict);
  EXPECT_EQ(Verdict::kFailed, judged(State::NONE).verdict);
  EXPECT_EQ(std::string("the previous config comes back: no etcd"),
            judged(State::REVERTING).text.cStr());
  status.initConfigTrial().setState(State::TRYING);
  status.setConfigSha256("of another");
  status.setRevertsInMs(1000);
  EXPECT_EQ(Verdict::kWait, judgeTrial(status.asReader(), {.document = kj::str("abc")}).verdict);
}

// Catches: an answer that does not say what a change has to fulfil, or says it of one that is not
// on trial.
TEST(FollowTrial, TheAnswerNamesTheTimeAndTheDuties) {
  capnp::MallocMessageBuilder message;
  auto result = message.initRoot<rpc::ApplyResult>();
  EXPECT_EQ(0u, describeTrial(result.asReader(), false).size());
  result.setTrialMs(600'000);
  auto duties = result.initTrialDuties(8);
  for (unsigned i = 0; i < duties.size(); ++i) duties.set(i, kj::str("d", i));
  EXPECT_EQ(
      std::string("on trial for at most 10m0s: goes back unless the node does again what it did "
                  "before: d0, d1, d2, d3, d4, d5 and 2 more"),
      describeTrial(result.asReader(), false).cStr());
}

}  // namespace talos::talosctl
